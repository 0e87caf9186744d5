"""Sends the same request over both APIs, streamed or not, through the official SDK."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from openai import OpenAI

Json: TypeAlias = dict[str, Any]


class Call(NamedTuple):
    id: str
    name: str
    arguments: Json


@dataclass
class Reply:
    """A reply, in a form that fits both APIs."""

    text: str
    reasoning: str
    calls: list[Call]
    ending: str
    """`done`, or why it was cut short."""
    usage: Any
    spoken: list[Json] = field(default_factory=list)
    """The items for the history of the next turn."""


class Api(Protocol):
    """One of OpenAI's two APIs, streaming or not."""

    def ask(self, history: Sequence[Json], *, tools: Sequence[Json] = (), **options: Any) -> Reply:
        """Sends a request. `options`: max_tokens, schema, thinking, tool_choice, model; `body`: other fields."""
        ...

    def start(self, history: Sequence[Json], body: Json | None = None) -> Any:
        """A stream to leave."""
        ...

    def results(self, results: Mapping[str, str]) -> list[Json]:
        """Returns outputs of tools, by call id, as items of the history."""
        ...


def user(text: str) -> list[Json]:
    return [{"role": "user", "content": text}]


class ResponsesApi:
    """POST /v1/responses. The deltas of a stream are joined and compared with its final response."""

    def __init__(self, client: OpenAI, *, streaming: bool) -> None:
        self.create: Any = client.responses.create
        self.streaming = streaming

    def ask(
        self,
        history: Sequence[Json],
        *,
        model: str = "tiny",
        tools: Sequence[Json] = (),
        tool_choice: Any = None,
        max_tokens: int | None = None,
        schema: Json | None = None,
        thinking: bool | None = None,
        body: Json | None = None,
    ) -> Reply:
        optional = {
            "tools": [{"type": "function", "strict": False, **tool} for tool in tools] or None,
            "tool_choice": tool_choice and {"type": "function", "name": tool_choice},
            "max_output_tokens": max_tokens,
            "text": schema and {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}},
            "extra_body": {**(body or {}), **({} if thinking is None else {"thinking": thinking})} or None,
        }
        request: Json = {
            "model": model,
            "input": list(history),
            "temperature": 0,
            **{name: value for name, value in optional.items() if value is not None},
        }
        if not self.streaming:
            return _read_response(self.create(**request))
        heard: dict[str, str] = {}
        final = None
        with self.create(**request, stream=True) as stream:
            for number, event in enumerate(stream):
                assert event.sequence_number == number
                if event.type.endswith(".delta"):
                    heard[event.type] = heard.get(event.type, "") + event.delta
                final = getattr(event, "response", final)
        reply = _read_response(final)
        assert heard.get("response.output_text.delta", "") == reply.text
        assert heard.get("response.reasoning_text.delta", "") == reply.reasoning
        arguments = [item["arguments"] for item in reply.spoken if item["type"] == "function_call"]
        assert heard.get("response.function_call_arguments.delta", "") == "".join(arguments)
        return reply

    def start(self, history: Sequence[Json], body: Json | None = None) -> Any:
        return self.create(model="tiny", input=list(history), temperature=0, stream=True, extra_body=body)

    def results(self, results: Mapping[str, str]) -> list[Json]:
        return [{"type": "function_call_output", "call_id": id, "output": output} for id, output in results.items()]


class ChatApi:
    """POST /v1/chat/completions."""

    def __init__(self, client: OpenAI, *, streaming: bool) -> None:
        self.create: Any = client.chat.completions.create
        self.streaming = streaming

    def ask(
        self,
        history: Sequence[Json],
        *,
        model: str = "tiny",
        tools: Sequence[Json] = (),
        tool_choice: Any = None,
        max_tokens: int | None = None,
        schema: Json | None = None,
        thinking: bool | None = None,
        body: Json | None = None,
    ) -> Reply:
        format = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
        optional = {
            "tools": [{"type": "function", "function": tool} for tool in tools] or None,
            "tool_choice": tool_choice and {"type": "function", "function": {"name": tool_choice}},
            "max_completion_tokens": max_tokens,
            "response_format": schema and format,
            "extra_body": {**(body or {}), **({} if thinking is None else {"thinking": thinking})} or None,
        }
        request: Json = {
            "model": model,
            "messages": list(history),
            "temperature": 0,
            **{name: value for name, value in optional.items() if value is not None},
        }
        if not self.streaming:
            completion = self.create(**request)
            (choice,) = completion.choices
            return _read_message(choice.message.model_dump(), choice.finish_reason, completion.usage)
        message: Json = {}
        finish_reason = usage = None
        request["stream_options"] = {"include_usage": True}
        with self.create(**request, stream=True) as stream:
            for chunk in stream:
                usage = chunk.usage or usage
                for choice in chunk.choices:
                    _add_delta(message, choice.delta.model_dump(exclude_unset=True))
                    finish_reason = choice.finish_reason or finish_reason
        return _read_message(message, finish_reason, usage)

    def start(self, history: Sequence[Json], body: Json | None = None) -> Any:
        return self.create(model="tiny", messages=list(history), temperature=0, stream=True, extra_body=body)

    def results(self, results: Mapping[str, str]) -> list[Json]:
        return [{"role": "tool", "tool_call_id": id, "content": output} for id, output in results.items()]


def _read_response(response: Any) -> Reply:
    items = [item.model_dump(exclude_unset=True) for item in response.output]
    cut = response.incomplete_details.reason if response.status == "incomplete" else None
    assert response.status in ("completed", "incomplete"), response.error
    return Reply(
        text=response.output_text,
        reasoning="".join(part["text"] for item in items if item["type"] == "reasoning" for part in item["content"]),
        calls=[
            Call(item["call_id"], item["name"], json.loads(item["arguments"]))
            for item in items
            if item["type"] == "function_call"
        ],
        ending={None: "done", "max_output_tokens": "length"}[cut],
        usage=response.usage,
        spoken=items,
    )


def _read_message(message: Json, finish_reason: str | None, usage: Any) -> Reply:
    calls = message.get("tool_calls") or []
    assert (finish_reason == "tool_calls") == bool(calls), finish_reason
    return Reply(
        # A relay passes on the line breaks that engines leave on both sides of the mark which ends a thought.
        text=(message.get("content") or "").lstrip("\n"),
        reasoning=(message.get("reasoning_content") or "").strip("\n"),
        calls=[Call(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls],
        ending={"stop": "done", "tool_calls": "done", "length": "length"}[finish_reason or ""],
        usage=usage,
        spoken=[{name: value for name, value in message.items() if value is not None}],
    )


def _add_delta(message: Json, delta: Json) -> None:
    for name, value in delta.items():
        if name == "tool_calls":
            calls = message.setdefault("tool_calls", [])
            for part in value:
                index = part.pop("index")
                if index == len(calls):
                    calls.append({"id": part["id"], "type": "function", "function": {"name": "", "arguments": ""}})
                for key, text in part.get("function", {}).items():
                    calls[index]["function"][key] += text or ""
        elif name == "role":
            message["role"] = value
        elif value is not None:
            message[name] = message.get(name, "") + value
