"""A minimal client of the AG-UI endpoint: it sends runs and stores the messages of its thread."""

from typing import Any

import httpx

from tests.agui_events import Json, read_run

PATIENCE_S = 60.0


def user(text: str, message_id: str = "u1") -> Json:
    return {"id": message_id, "role": "user", "content": text}


def run_input(*messages: Json, thread: str = "t", run: str = "r1", **more: Any) -> Json:
    """The body of a run of a client of version 1.0."""
    return {"threadId": thread, "runId": run, "messages": [*messages], "protocolVersion": "1.0", **more}


class AguiThread:
    """One thread. `messages` are those of its client: its own messages, and those of the runs. `http` may change:
    its next run is sent there."""

    def __init__(self, http: httpx.AsyncClient, thread: str = "t", **more: Any) -> None:
        self.http = http
        self._thread = thread
        self.more = more
        self._runs = 0
        self.messages: list[Json] = []
        self.state: Any = None
        self.reply: httpx.Response | None = None

    async def run(self, *messages: Json, model: str = "", **more: Any) -> list[Json]:
        """Sends the next run, with these messages at the end of the thread. Returns its events."""
        self._runs += 1
        self.messages += messages
        body = run_input(
            *self.messages, thread=self._thread, run=f"{self._thread}-r{self._runs}", **{**self.more, **more}
        )
        self.reply = await self.http.post(f"/v1/agui{model and '/'}{model}", json=body)
        assert self.reply.status_code == 200, self.reply.text
        events = read_run(self.reply.content)
        self._apply(events)
        return events

    def _apply(self, events: list[Json]) -> None:
        """Applies the events to the messages, as the official clients do."""
        for event in events:
            match event["type"]:
                case "TEXT_MESSAGE_START":
                    self.messages.append({"id": event["messageId"], "role": "assistant", "content": ""})
                case "REASONING_MESSAGE_START":
                    self.messages.append({"id": event["messageId"], "role": "reasoning", "content": ""})
                case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                    self._message(event["messageId"])["content"] += event["delta"]
                case "REASONING_ENCRYPTED_VALUE":
                    self._message(event["entityId"])["encryptedValue"] = event["encryptedValue"]
                case "TOOL_CALL_START":
                    parent = event.get("parentMessageId") or event["toolCallId"]
                    if not any(message["id"] == parent for message in self.messages):
                        self.messages.append({"id": parent, "role": "assistant"})
                    function = {"name": event["toolCallName"], "arguments": ""}
                    call = {"id": event["toolCallId"], "type": "function", "function": function}
                    self._message(parent).setdefault("toolCalls", []).append(call)
                case "TOOL_CALL_ARGS":
                    calls = [call for message in self.messages for call in message.get("toolCalls") or ()]
                    (call,) = [call for call in calls if call["id"] == event["toolCallId"]]
                    call["function"]["arguments"] += event["delta"]
                case "STATE_SNAPSHOT":
                    self.state = event["snapshot"]
                case "MESSAGES_SNAPSHOT":
                    shown = {message["id"]: message for message in event["messages"]}
                    before = [message for message in self.messages if message["role"] != "reasoning"]
                    assert [shown.pop(message["id"]) for message in before] == before, "a message was lost or changed"
                    assert not shown, "messages that the client does not have"
                case "TOOL_CALL_RESULT":
                    result = {"role": "tool", "toolCallId": event["toolCallId"], "content": event["content"]}
                    self.messages.append({"id": event["messageId"], **result})

    def _message(self, message_id: str | None) -> Json:
        (found,) = [message for message in self.messages if message["id"] == message_id]
        return found
