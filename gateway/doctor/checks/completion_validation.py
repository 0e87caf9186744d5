"""Validates chat completions and their chunks, and converts them to responses for the checks that both APIs share.

Malformed completions raise CheckFailed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.doctor.checks.response_validation import check_usage
from gateway.doctor.checks.verdicts import CheckFailed, require
from translation.representation.json_types import Json

_INCOMPLETE_REASONS: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
_FINISH_REASONS: Final = frozenset({"stop", "tool_calls", *_INCOMPLETE_REASONS})
_CONTENT_KEYS: Final = ("content", "refusal", "tool_calls")


def check_completion(completion: Json) -> Json:
    """Validates a whole completion. Returns it as a response. Raises CheckFailed."""
    require(completion.get("object") == "chat.completion", "the reply is not a chat completion")
    _check_identity(completion)
    choice = _only_choice(completion)
    if choice is None:
        raise CheckFailed("the completion has no choices")
    message = choice["message"]
    require(message["role"] == "assistant", f"the message has the role {message['role']}")
    return _to_response(completion, message, choice["finish_reason"])


def check_chunks(chunks: Sequence[Json], *, done: bool) -> Json:
    """Validates the chunks of a stream. Returns the completion as a response.

    `done`: the stream ended with `[DONE]`. Raises CheckFailed for the first chunk that is invalid or out of
    order.
    """
    require(bool(chunks), "the stream has no chunks")
    builder = _MessageBuilder()
    for position, chunk in enumerate(chunks):
        require(chunk.get("object") == "chat.completion.chunk", f"chunk {position} is not a chat.completion.chunk")
        _check_identity(chunk)
        require(chunk["id"] == chunks[0]["id"], "the completion's id changed")
        choice = _only_choice(chunk)
        if choice is not None:
            try:
                builder.add_choice(choice)
            except (KeyError, TypeError, AttributeError) as error:
                raise CheckFailed(f"chunk {position} is malformed: {error!r}") from error
    require(builder.finish_reason is not None, "the stream ends without a finish_reason")
    require(done, "the stream ends without [DONE]")
    usage = next((chunk["usage"] for chunk in reversed(chunks) if chunk.get("usage")), None)
    return _to_response({"usage": usage}, builder.build_message(), builder.finish_reason)


def check_completion_usage(completion: Json) -> Json:
    """Returns the usage of a completion or chunk. Raises CheckFailed if it is missing or inconsistent."""
    return check_usage(completion.get("usage"), "prompt", "completion")


@dataclass(slots=True)
class _MessageBuilder:
    """Builds a message from the choices of chunks."""

    role: str | None = None
    finish_reason: str | None = None
    texts: dict[str, str] = field(default_factory=dict)
    calls: list[Json] = field(default_factory=list)

    def add_choice(self, choice: Json) -> None:
        delta = choice.get("delta") or {}
        if any(delta.get(key) for key in _CONTENT_KEYS):
            require(self.finish_reason is None, "content follows the finish_reason")
            require(self.role is not None or delta.get("role") is not None, "content precedes the role")
        if delta.get("role") is not None:
            self.role = delta["role"]
            require(self.role == "assistant", f"the message has the role {self.role}")
        for key in ("content", "refusal"):
            if delta.get(key):
                self.texts[key] = self.texts.get(key, "") + delta[key]
        for call in delta.get("tool_calls") or ():
            self._add_call_delta(call)
        if choice.get("finish_reason") is not None:
            require(self.finish_reason is None, "there are two finish_reasons")
            self.finish_reason = choice["finish_reason"]

    def build_message(self) -> Json:
        return {**self.texts, "tool_calls": self.calls}

    def _add_call_delta(self, delta: Json) -> None:
        index, function = delta["index"], delta.get("function") or {}
        if index == len(self.calls):
            require(
                bool(delta.get("id")) and bool(function.get("name")), f"call {index} starts without an id or a name"
            )
            arguments = function.get("arguments") or ""
            self.calls.append({"id": delta["id"], "function": {"name": function["name"], "arguments": arguments}})
            return
        require(0 <= index < len(self.calls), f"call {index} starts, but {len(self.calls)} is next")
        call = self.calls[index]
        require(delta.get("id") in (None, call["id"]), "a call's id changed")
        call["function"]["arguments"] += function.get("arguments") or ""


def _check_identity(completion: Json) -> None:
    require(bool(completion.get("id")), "the completion has no id")
    require(isinstance(completion.get("model"), str), "the completion has no model")
    require(type(completion.get("created")) is int, "the completion has no creation time")


def _only_choice(completion: Json) -> Json | None:
    """Returns the only choice; None if there is no choice, as in chunks that report the usage."""
    choices = completion.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise CheckFailed("choices is not a list of objects")
    require(len(choices) < 2 and all(choice.get("index") == 0 for choice in choices), "there is more than one choice")
    return choices[0] if choices else None


def _to_response(completion: Json, message: Json, finish_reason: Any) -> Json:
    require(finish_reason in _FINISH_REASONS, f"the finish_reason is {finish_reason}")
    parts = [
        {"type": kind, key: message[name]}
        for name, kind, key in (("content", "output_text", "text"), ("refusal", "refusal", "refusal"))
        if message.get(name)
    ]
    tool_calls = message.get("tool_calls") or ()
    calls = [{"type": "function_call", "call_id": call["id"], **call["function"]} for call in tool_calls]
    require(
        finish_reason != "tool_calls" or bool(calls), "the finish_reason is tool_calls, but there are no tool calls"
    )
    reason = _INCOMPLETE_REASONS.get(finish_reason)
    usage = completion.get("usage") or {}
    return {
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": [*([{"type": "message", "content": parts}] if parts else ()), *calls],
        "usage": {"output_tokens": usage.get("completion_tokens")},
    }
