"""Relays a whole chat completion of a chat upstream, and contains the rules for choices that relayed streams share."""

from types import NoneType
from typing import Any, Final

from translation.chat import reply_objects
from translation.chat.odd_deltas import UNCHANGED_KEYS, make_thoughts_texts, require_own_text, require_texts
from translation.chat.reasoning import REASONING_TEXT_FIELDS
from translation.chat.relaying.calls import CallNormalizer
from translation.chat.relaying.reasoning_mover import make_reasoning_mover
from translation.chat.relaying.thoughts import build_splitter
from translation.chat.upstream.chat_failures import BROKEN_FINISH_REASONS, failure_in
from translation.errors import ProtocolViolation
from translation.hygiene.call_tracker import DEFAULT_RULES, CallRules
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.events import CUT_OFF_REASONS, Failed, FinishReason
from translation.representation.json_types import Json
from translation.representation.loss import (
    LOSSES,
    MISSING_CHOICES,
    MISSING_LOGPROBS,
    OTHER_CHOICE,
    render_reply_losses,
)
from translation.representation.profile import DEFAULT_PROFILE, Profile

_OPTIONAL_OBJECT: Final = (dict, NoneType)
_NO_COMPLETION: Final = "the upstream's reply is not a chat completion"


def relay_completion(
    completion: Json,
    *,
    model: str | None,
    reasoning_fields: frozenset[str],
    upstream_fields: tuple[str, ...] = REASONING_TEXT_FIELDS,
    call_rules: CallRules = DEFAULT_RULES,
    legacy_functions: bool = False,
    profile: Profile = DEFAULT_PROFILE,
) -> Json:
    """Returns the upstream's completion with the client's model name and with reasoning in `reasoning_fields` only.

    `upstream_fields` are the fields in which the upstream may have sent it, and `profile` says whether its text may
    begin with thinking. Calls and finish reasons are normalized as
    on a stream, and `tool_warnings` are added by the same rules. The caller must first check with `failure_of` that no
    choice broke off. `model=None` keeps the upstream's name. Raises ProtocolViolation for anything that is not a
    completion. `completion` itself is not changed.
    """
    choices = _copy_choices(completion)
    relayed = {**completion, "choices": choices}
    reasoning = make_reasoning_mover(upstream_fields, reasoning_fields)
    warnings: list[Json] = []
    if not isinstance(completion.get("usage"), _OPTIONAL_OBJECT):
        relayed["usage"] = None
    for choice in choices:
        message = choice["message"]
        require_own_text(choice, message)
        require_texts(message)
        if not UNCHANGED_KEYS.issuperset(message):
            make_thoughts_texts(message, upstream_fields)
        reasoning.flatten_content(message)
        if (splitter := build_splitter(profile, upstream_fields[0])) is not None:
            splitter.split_whole(message)
        reasoning.move(message)
        called = False
        if message.get("tool_calls") or message.get("function_call") is not None:  # few messages have calls
            normalizer = CallNormalizer(call_rules, legacy=legacy_functions)
            normalizer.normalize_message(message, cut=str(choice.get("finish_reason")) in reply_objects.CUT_REASONS)
            warnings += normalizer.warnings
            called = bool(message.get("tool_calls") or message.get("function_call"))
        reply_objects.normalize_finish_reason(choice, called=called, legacy=legacy_functions)
    if model is not None:
        relayed["model"] = model
    if warnings:
        relayed[TOOL_WARNINGS] = warnings
    return relayed


def select_requested_choices(completion: Json, count: int, *, wants_logprobs: bool = False) -> Json:
    """Returns a completion with the choices that the client requested, and with losses in the first of them.

    Other choices are left out, because clients that requested one choice read the first of the list, or join all. Too
    few are reported: the upstream may have ignored the number. So are texts without log probabilities if the client
    `wants_logprobs`. Returns the same object if nothing is lost. Raises ProtocolViolation if no choice is left.
    """
    choices = completion.get("choices")
    if not isinstance(choices, list):
        return completion
    if count == len(choices) == 1 and not wants_logprobs and _find_index(choices[0], 0) == 0:
        return completion
    requested = [choice for place, choice in enumerate(choices) if _find_index(choice, place) in range(count)]
    losses = [OTHER_CHOICE] if len(requested) < len(choices) else []
    if losses and not requested:
        raise ProtocolViolation("the upstream sent only choices that were not requested")
    if len(requested) < count:
        losses.append(MISSING_CHOICES)
    if wants_logprobs and _has_text(requested) and not any(map(_has_logprobs, requested)):
        losses.append(MISSING_LOGPROBS)
    if not losses or not requested or not isinstance(requested[0], dict):
        return completion  # what is no choice is refused where choices are read
    first = {**requested[0], LOSSES: render_reply_losses(losses)}
    return {**completion, "choices": [first, *requested[1:]]}


def _has_text(choices: list[Any]) -> bool:
    messages = [choice.get("message") for choice in choices if isinstance(choice, dict)]
    return any(isinstance(message, dict) and message.get("content") for message in messages)


def _has_logprobs(choice: Any) -> bool:
    logprobs = choice.get("logprobs") if isinstance(choice, dict) else None
    return isinstance(logprobs, dict) and any(logprobs.values())


def _find_index(choice: object, place: int) -> Any:
    """Returns the index of a choice. One without an index, or that is no choice, counts by its place."""
    index = choice.get("index") if isinstance(choice, dict) else None
    return place if index is None else index


def failure_of(completion: Json) -> Failed | None:
    """Returns the failure of the first choice that broke off, `None` when the completion is usable."""
    choices = completion.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and is_broken_off(choice):
            return build_broken_off_failure(choice)
    return None


def is_completion_filtered(completion: Json) -> bool:
    """Returns whether a content filter ended a relayed completion before it had content."""
    choices = [choice for choice in completion["choices"] if isinstance(choice, dict)]
    messages = [message for choice in choices if isinstance(message := choice.get("message"), dict)]
    has_content = any(value for message in messages for name, value in message.items() if name != "role")
    return not has_content and any(reply_objects.is_filter_reason(choice.get("finish_reason")) for choice in choices)


def read_completion_reason(completion: Json) -> FinishReason | None:
    """Returns why an upstream's completion ended: its first choice, or, if one was cut off, that one.

    A reply without a reason has ended by itself.
    """
    first: FinishReason | None = None
    for choice in completion["choices"]:
        message = choice["message"]
        called = bool(message.get("tool_calls") or message.get("function_call"))
        reason = reply_objects.read_finish_reason(choice.get("finish_reason") or "stop", called=called)
        if reason in CUT_OFF_REASONS:
            return reason
        first = first or reason
    return first


def is_broken_off(choice: Json) -> bool:
    """Whether a choice ended before it was complete."""
    return str(choice.get("finish_reason")) in BROKEN_FINISH_REASONS or bool(choice.get("error"))


def build_broken_off_failure(choice: Json) -> Failed:
    """Returns the failure that ends a turn whose `choice` broke off, with the upstream's own error if it sent one."""
    return failure_in(choice) or Failed("upstream_error", "the upstream broke off its reply")


def _copy_choices(completion: Json) -> list[Json]:
    """Returns copies of the choices and of their messages. Raises ProtocolViolation if there are none."""
    listed = completion.get("choices")
    copies: list[Json] = []
    for choice in listed if isinstance(listed, list) else ():
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            raise ProtocolViolation(_NO_COMPLETION)
        copies.append({**choice, "message": {**message}})
    if not copies:
        raise ProtocolViolation(_NO_COMPLETION)
    return copies
