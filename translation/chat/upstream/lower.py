"""Lowers a turn to the request body of a chat upstream. Does not know the endpoint the request came from."""

from collections.abc import Mapping
from typing import Any, Final

from translation.chat.upstream.cache_marks import mark_for_caching
from translation.chat.upstream.lower_items import lower_items
from translation.chat.upstream.lower_thinking import lower_reasoning, switch_thinking
from translation.chat.upstream.lower_tools import (
    lower_tools,
    remove_format_beside_forced_call,
    restrict_to_chosen_tools,
)
from translation.chat.upstream.text_tools import lower_tools_to_text
from translation.errors import InvalidRequest, Unrepresentable
from translation.lowering.unsupported import find_unknown_key_losses
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import SERVICE_PARAMS, LoweredRequest, Turn

TURN_PARAMS: Final[Mapping[str, str]] = {
    "messages": "input",
    "max_completion_tokens": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
    "guided_json": "text.format",
    "structured_outputs": "text.format",
    "verbosity": "text.verbosity",
    "reasoning_effort": "reasoning.effort",
    "reasoning.effort": "reasoning.effort",
    "reasoning.max_tokens": "reasoning.max_tokens",
    "chat_template_kwargs": "thinking",
    "functions": "tools",
    "function_call": "tool_choice",
    "web_search_options": "tools",
}
"""Parameter of a chat request -> the turn's. All others have the same name."""

SAMPLING_PARAMS: Final = frozenset(
    {
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "stop",
        "logit_bias",
        *SERVICE_PARAMS,
    }
)
"""Parameters that have the same name in chat and are sent unchanged."""

_SCHEMA_KEYS: Final = ("name", "description", "schema", "strict")


def lower(turn: Turn, profile: Profile) -> LoweredRequest:
    """Returns the chat request body for a turn, in the form that the profile's model family accepts.

    Raises InvalidRequest for a history or a tool that no chat upstream accepts (a call without its output, a name with
    a space), and Unrepresentable for what chat cannot represent. Nulls, empty `tools`, and parameters of tools without
    tools are never sent, nor is `strict: false`, which is chat's default. The returned `losses` are those of this step
    only: what lifting lost is in `turn.losses`.
    """
    losses: list[Loss] = []
    messages = lower_items(turn, profile, losses)
    if not messages:
        raise InvalidRequest("The input is empty: send at least one message.", param="input")
    body: Json = {"model": turn.model, "messages": messages}
    if turn.tools or turn.tool_choice is not None:
        body |= lower_tools(turn.tools, turn.tool_choice, turn.parallel_tool_calls, losses)
        if profile.forced_tool == "alone":
            restrict_to_chosen_tools(body, losses)
    if turn.sampling:
        _add_sampling(body, turn.sampling, losses)
    if turn.max_output_tokens is not None:
        body[profile.max_tokens_field] = turn.max_output_tokens
    if turn.text_format is not None:
        body |= _lower_text_format(turn.text_format)
    if turn.verbosity is not None:
        body["verbosity"] = turn.verbosity
    if turn.reasoning:
        body |= lower_reasoning(turn.reasoning, turn.thinking, profile, losses)
    if turn.extra:
        _add_extra(body, turn.extra, profile, losses)
    if turn.unknown_keys:
        losses += find_unknown_key_losses(turn.unknown_keys, body)
    if profile.forced_tool == "alone" and "tool_choice" in body:
        remove_format_beside_forced_call(body, losses, format_param="text.format")
    if profile.raw_text_field != "none" and profile.parsing_format == "direct_response":
        body[profile.raw_text_field] = "none"
    switch_thinking(body, turn.thinking, (turn.reasoning or {}).get("effort"), profile, losses)
    if profile.refused_params:
        losses += [Loss(TURN_PARAMS.get(name, name), "dropped") for name in remove_refused_params(body, profile)]
    if turn.stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    if profile.text_tool_calls != "none":
        if body.get("tool_choice") not in (None, "auto", "none"):
            losses.append(Loss("tool_choice", "not enforced"))  # the prompt asks for the call
        body = lower_tools_to_text(body, single_block=profile.single_tool_block, parser=profile.text_tool_calls)
    if profile.cache_marks:
        mark_for_caching(body, turn, profile, losses)
    return LoweredRequest(body, tuple(dict.fromkeys(losses)) if losses else ())


def _add_sampling(body: Json, sampling: Mapping[str, Any], losses: list[Loss]) -> None:
    if (sampling.get("n") or 1) != 1:
        raise Unrepresentable("this model answers with one choice at a time: leave out 'n'", param="n")
    for name, value in sampling.items():
        if name in SAMPLING_PARAMS and value is not None:
            body[name] = value
    if sampling.get("store"):
        losses.append(Loss("store", "dropped"))
    top_logprobs = sampling.get("top_logprobs")
    # A Responses request may have either parameter alone. Chat accepts `top_logprobs` only together with `logprobs`.
    if sampling.get("logprobs") or top_logprobs:
        body["logprobs"] = True
        if top_logprobs is not None:
            body["top_logprobs"] = top_logprobs


def _lower_text_format(text_format: Json) -> Json:
    match text_format.get("type"):
        case "text":
            return {}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
        case "json_schema":
            schema = {key: text_format[key] for key in _SCHEMA_KEYS if text_format.get(key) is not None}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case kind:
            raise Unrepresentable(f"this model's API has no text format of type {kind!r}", param="text.format.type")


def _add_extra(body: Json, extra: Mapping[str, Any], profile: Profile, losses: list[Loss]) -> None:
    for key, value in extra.items():
        if value is None:
            continue
        if key in profile.extra_params and key not in body:
            body[key] = value
        else:
            losses.append(Loss(key, "dropped"))


def remove_refused_params(body: Json, profile: Profile) -> list[str]:
    """Removes the parameters that the server refuses from a chat body, in place, and returns their names.

    OpenAI accepts `metadata` together with `store: true`, so that it stays beside it.
    """
    required = {"metadata"} if body.get("store") else set()
    removed = [name for name in body if name in profile.refused_params and name not in required]
    for name in removed:
        del body[name]
    return removed
