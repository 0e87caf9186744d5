"""A whole chat completion from an upstream that speaks chat itself, and what its choices share with streamed ones."""

from typing import Any, Final

from translation.chat import reply_objects
from translation.chat.failures import BROKEN_FINISH_REASONS, failure_in
from translation.chat.reasoning import REASONING_TEXT_FIELDS
from translation.chat.relaying.calls import CallNormalizer
from translation.errors import ProtocolViolation
from translation.hygiene.call_rules import DEFAULT_RULES, CallRules
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.events import Failed
from translation.representation.json_types import Json

CUT_REASONS: Final = ("length", "content_filter")
"""Reasons to finish that may cut a call."""


def relay_completion(
    answer: Json,
    *,
    model: str | None,
    reasoning_fields: frozenset[str],
    call_rules: CallRules = DEFAULT_RULES,
    legacy_functions: bool = False,
) -> Json:
    """A whole completion as the upstream sent it, under our name for the model, reasoning in `reasoning_fields` only.

    Calls and finish reasons are mended as on a stream, and there are the same `tool_warnings`; one that broke off is
    for `failure_of` to find first. Raises ProtocolViolation for anything that is not a completion. The answer given is
    not changed.
    """
    choices = answer.get("choices")
    if (
        not isinstance(choices, list)
        or not choices
        or not all(isinstance(_message_of(choice), dict) for choice in choices)
    ):
        raise ProtocolViolation("the upstream's answer is not a chat completion")
    relayed = {**answer, "choices": [{**choice, "message": dict(choice["message"])} for choice in choices]}
    warnings: list[Json] = []
    for choice in relayed["choices"]:
        flatten_content(choice["message"])
        set_reasoning_fields(choice["message"], reasoning_fields)
        mender = CallNormalizer(call_rules, legacy=legacy_functions)
        mender.normalize_message(choice["message"], cut=choice.get("finish_reason") in CUT_REASONS)
        warnings += mender.warnings
        called = bool(choice["message"].get("tool_calls") or choice["message"].get("function_call"))
        reply_objects.normalize_finish_reason(choice, called=called, legacy=legacy_functions)
    if model is not None:
        relayed["model"] = model
    if warnings:
        relayed[TOOL_WARNINGS] = warnings
    return relayed


def failure_of(answer: Json) -> Failed | None:
    """Why a whole completion is no answer: one of its choices broke off."""
    choices = answer.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and is_broken_off(choice):
            return broken_off_failure(choice)
    return None


def set_reasoning_fields(message: Json, fields: frozenset[str]) -> bool:
    """Put a delta's or message's reasoning in these fields and in no other; whether that changed anything.

    `reasoning_details` are kept beside them, for clients that send them back, and go only where no field is wanted.
    """
    text = message.get("reasoning_content") or message.get("reasoning")
    hidden = not fields and message.get("reasoning_details")
    if not (text or hidden):
        return False
    before = {key: message[key] for key in ("reasoning_content", "reasoning") if key in message}
    wanted = dict.fromkeys(sorted(fields), text) if text else {}
    said = {key: value for key, value in before.items() if value}
    if said == wanted and not hidden:
        return False
    for key in before:
        del message[key]
    message |= wanted
    if hidden:
        del message["reasoning_details"]
    return True


def flatten_content(message: Json) -> bool:
    """Make a text of Mistral's lists of parts, and reasoning of the thoughts among them; whether there were any."""
    parts = message.get("content")
    if not isinstance(parts, list):
        return False
    thoughts = [part["thinking"] for part in parts if isinstance(part, dict) and "thinking" in part]
    message["content"] = reply_objects.flatten_text(parts)
    if thoughts and not any(message.get(field) for field in REASONING_TEXT_FIELDS):
        message["reasoning"] = reply_objects.flatten_text(thoughts)
    return True


def is_broken_off(choice: Json) -> bool:
    """Whether a choice ends without being whole."""
    return str(choice.get("finish_reason")) in BROKEN_FINISH_REASONS or bool(choice.get("error"))


def broken_off_failure(choice: Json) -> Failed:
    """Why one does that is broken."""
    return failure_in(choice) or Failed("upstream_error", "the upstream broke off its reply")


def _message_of(choice: Any) -> Any:
    return choice.get("message") if isinstance(choice, dict) else None
