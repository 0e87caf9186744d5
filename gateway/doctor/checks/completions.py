"""Reads chat completions, whole and in chunks, as the responses they would be. Raises Wrong for what is malformed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.doctor.checks.response_shape import check_usage
from gateway.doctor.checks.verdicts import Wrong, hold
from translation.representation.json_types import Json

_CUTS: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ENDS: Final = frozenset({"stop", "tool_calls", *_CUTS})
_SAYING: Final = ("content", "refusal", "tool_calls")


def check_completion(completion: Json) -> Json:
    """A whole completion as a response."""
    hold(completion.get("object") == "chat.completion", "the answer is no chat completion")
    _check_identity(completion)
    choice = _only_choice(completion)
    hold(choice is not None, "the completion has no choices")
    assert choice is not None
    message = choice["message"]
    hold(message["role"] == "assistant", f"the message is of {message['role']}")
    return _as_response(completion, message, choice["finish_reason"])


def check_chunks(chunks: Sequence[Json], *, done: bool) -> Json:
    """A stream as a response. Raises Wrong at the first chunk that has no right to be where it is."""
    hold(bool(chunks), "the stream has no chunks")
    added = _Added()
    for position, chunk in enumerate(chunks):
        hold(chunk.get("object") == "chat.completion.chunk", f"chunk {position} is no chat.completion.chunk")
        _check_identity(chunk)
        hold(chunk["id"] == chunks[0]["id"], "the completion's id changed")
        choice = _only_choice(chunk)
        if choice is not None:
            try:
                added.take(choice)
            except (KeyError, TypeError, AttributeError) as error:
                raise Wrong(f"chunk {position} is malformed: {error!r}") from error
    hold(added.finish_reason is not None, "the stream ends without a finish_reason")
    hold(done, "the stream ends without [DONE]")
    counted = next((chunk["usage"] for chunk in reversed(chunks) if chunk.get("usage")), None)
    return _as_response({"usage": counted}, added.message(), added.finish_reason)


def check_counts(said: Json) -> Json:
    """The usage of a completion or of a chunk."""
    return check_usage(said.get("usage"), "prompt", "completion")


@dataclass(slots=True)
class _Added:
    """A message in the making."""

    role: str | None = None
    finish_reason: str | None = None
    texts: dict[str, str] = field(default_factory=dict)
    calls: list[Json] = field(default_factory=list)

    def take(self, choice: Json) -> None:
        delta = choice.get("delta") or {}
        if any(delta.get(key) for key in _SAYING):
            hold(self.finish_reason is None, "something is said after the finish_reason")
            hold(self.role is not None or delta.get("role") is not None, "something is said before the role")
        if delta.get("role") is not None:
            self.role = delta["role"]
            hold(self.role == "assistant", f"the message is of {self.role}")
        for key in ("content", "refusal"):
            if delta.get(key):
                self.texts[key] = self.texts.get(key, "") + delta[key]
        for call in delta.get("tool_calls") or ():
            self._call(call)
        if choice.get("finish_reason") is not None:
            hold(self.finish_reason is None, "there are two finish_reasons")
            self.finish_reason = choice["finish_reason"]

    def message(self) -> Json:
        return {**self.texts, "tool_calls": self.calls}

    def _call(self, piece: Json) -> None:
        index, function = piece["index"], piece.get("function") or {}
        if index == len(self.calls):
            hold(bool(piece.get("id")) and bool(function.get("name")), f"call {index} begins without an id or a name")
            arguments = function.get("arguments") or ""
            self.calls.append({"id": piece["id"], "function": {"name": function["name"], "arguments": arguments}})
            return
        hold(0 <= index < len(self.calls), f"call {index} begins where {len(self.calls)} is next")
        call = self.calls[index]
        hold(piece.get("id") in (None, call["id"]), "a call's id changed")
        call["function"]["arguments"] += function.get("arguments") or ""


def _check_identity(said: Json) -> None:
    hold(bool(said.get("id")), "the completion has no id")
    hold(isinstance(said.get("model"), str), "the completion does not say of which model it is")
    hold(type(said.get("created")) is int, "the completion does not say when it was created")


def _only_choice(said: Json) -> Json | None:
    """Chunks may have none: the ones that count tokens have not."""
    choices = said.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise Wrong("the choices are no list")
    hold(len(choices) < 2 and all(choice.get("index") == 0 for choice in choices), "there is more than one choice")
    return choices[0] if choices else None


def _as_response(completion: Json, message: Json, finish_reason: Any) -> Json:
    hold(finish_reason in _ENDS, f"the finish_reason is {finish_reason}")
    parts = [
        {"type": kind, key: message[name]}
        for name, kind, key in (("content", "output_text", "text"), ("refusal", "refusal", "refusal"))
        if message.get(name)
    ]
    called = message.get("tool_calls") or ()
    calls = [{"type": "function_call", "call_id": call["id"], **call["function"]} for call in called]
    hold(finish_reason != "tool_calls" or bool(calls), "the finish_reason is tool_calls, and there are none")
    reason = _CUTS.get(finish_reason)
    usage = completion.get("usage") or {}
    return {
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": [*([{"type": "message", "content": parts}] if parts else ()), *calls],
        "usage": {"output_tokens": usage.get("completion_tokens")},
    }
