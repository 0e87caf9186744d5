"""Collects the messages that a client has at the end of a run: the ones that it sent, and the ones that the run
created."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from translation.agui.tool_items import ToolCallView
from translation.representation.json_types import Json


class SentMessages(NamedTuple):
    """The messages in the input of a run that a snapshot of the messages has, by their ids."""

    by_id: Mapping[str, Json]
    is_exact: bool
    """Whether a snapshot can have all of them, in the form in which the client has them."""

    @classmethod
    def read(cls, messages: Sequence[Json]) -> "SentMessages":
        """Returns the messages of a validated run. For long threads this is called in a thread.

        A client removes messages that a snapshot does not have, except reasoning and activities. A snapshot omits
        these, so that the client keeps its own.
        """
        visible = [message for message in messages if message["role"] not in ("reasoning", "activity")]
        by_id = {message["id"]: _without_null(message) for message in visible}
        return cls(by_id, len(by_id) == len(visible) and not any(map(_has_old_parts, visible)))


NO_MESSAGES: Final = SentMessages({}, is_exact=True)


class ClientMessages:
    """The messages of a client. `sent` are those in the input of its run."""

    def __init__(self, sent: SentMessages) -> None:
        self._messages = dict(sent.by_id)
        self._is_exact = sent.is_exact
        self._sent_count = len(self._messages)

    def add_text(self, message_id: str, text: str) -> None:
        """Adds the text of a message of the run."""
        self._open_message(message_id)["content"] = text

    def add_call(self, call: ToolCallView, parent_id: str | None) -> None:
        """Adds a call of the run. Without a parent it is a message of its own, as clients make it."""
        function = {"name": call.name, "arguments": call.arguments}
        calls = self._open_message(parent_id or call.call_id).setdefault("toolCalls", [])
        calls.append({"id": call.call_id, "type": "function", "function": function})

    def add_result(self, message_id: str, call_id: str, content: str) -> None:
        """Adds the result of a call."""
        self._messages[message_id] = {"id": message_id, "role": "tool", "toolCallId": call_id, "content": content}

    def build_snapshot(self) -> Json | None:
        """Returns the event with all messages; None if the run made none, or if the client could lose one by it."""
        if not self._is_exact or len(self._messages) == self._sent_count:
            return None
        return {"type": "MESSAGES_SNAPSHOT", "messages": [*self._messages.values()]}

    def _open_message(self, message_id: str) -> Json:
        return self._messages.setdefault(message_id, {"id": message_id, "role": "assistant"})


def _without_null(message: Json) -> Json:
    """Returns a message without members that are null: clients refuse them in events."""
    return {name: value for name, value in message.items() if value is not None}


def _has_old_parts(message: Json) -> bool:
    """Whether a message has content parts of clients of 0.0.x, which clients of 1.x refuse."""
    content = message.get("content")
    return isinstance(content, list) and any(part["type"] == "binary" for part in content)
