"""Lowers a turn to a request body of the Messages API. https://docs.claude.com/en/api/messages"""

from collections.abc import Mapping
from typing import Any, Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.lowering.cache_marks import build_cache_mark
from translation.lowering.unsupported import find_unknown_key_losses
from translation.messages.upstream.citations import enable_citations
from translation.messages.upstream.families import find_claude_family
from translation.messages.upstream.json_schemas import JoinedObjects, close_schema
from translation.messages.upstream.lower_items import lower_items, open_turn_has_thinking
from translation.messages.upstream.lower_tools import forces_call, lower_tools
from translation.messages.upstream.thinking import allow_changed_history, lower_thinking
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest, Turn

TURN_PARAMS: Final[Mapping[str, str]] = {
    "messages": "input",
    "system": "instructions",
    "max_tokens": "max_output_tokens",
    "stop_sequences": "stop",
    "thinking": "reasoning",
    "thinking.budget_tokens": "reasoning.max_tokens",
    "output_config.effort": "reasoning.effort",
    "output_config.format": "text.format",
    "output_format": "text.format",
    "metadata.user_id": "user",
    "mcp_servers": "tools",
}
"""Parameter of a Messages request -> the turn's. All others have the same name."""

_DROPPED_PARAMS: Final = ("presence_penalty", "frequency_penalty", "seed", "metadata", "store")
"""Parameters that the API does not have. Without them the meaning of the reply is the same."""

_REFUSED_PARAMS: Final = {
    "logit_bias": "token biases",
    "logprobs": "log probabilities",
    "top_logprobs": "log probabilities",
}
"""Parameters that the API does not have. Dropping them would change the reply. Parameter -> its name in the error
message."""

_LONGEST_TTL: Final = "1h"
"""The longest time that the API keeps a prompt in its cache."""

_SERVICE_TIERS: Final = {"auto": "auto", "default": "standard_only"}

_MIN_TOP_P_WITH_THINKING: Final = 0.95
"""The lowest `top_p` that the API accepts with thinking. The temperature must be 1 then, and `top_k` is refused."""


def lower(turn: Turn, profile: Profile) -> LoweredRequest:
    """Returns the body for `POST /messages`.

    Raises InvalidRequest for a history or a tool that the API does not accept (a call without its output, a name with a
    space), and Unrepresentable for what it cannot represent. Nulls, and parameters of tools without tools, are never
    sent. The returned `losses` are those of this step only: losses of lifting are in `turn.losses`.
    """
    losses: list[Loss] = []
    system, messages = lower_items(turn, profile, losses)
    if not messages:
        raise InvalidRequest("The input is empty: send at least one message that is no system message.", param="input")
    family = find_claude_family(turn.model, profile)
    tools = lower_tools(turn.tools, turn.tool_choice, turn.parallel_tool_calls, losses, family)
    thinking_refusal = None
    if family.forced_tools == "without_thinking" and forces_call(tools):
        thinking_refusal = "not where a tool is forced"
    elif family.takes_budget and not open_turn_has_thinking(messages):
        thinking_refusal = "not in a turn begun without"
    thinking = lower_thinking(turn, family, profile, losses, refusal=thinking_refusal)
    body: Json = {"model": turn.model, "max_tokens": thinking.max_tokens, "messages": messages}
    if system:
        body["system"] = "\n\n".join(system)
    body |= tools | thinking.body
    if family.binds_thinking:
        allow_changed_history(body, profile, losses)
    allows_sampling = family.accepts_sampling
    body |= _lower_sampling(turn.sampling, losses, thinks=thinking.thinks, allows_sampling=allows_sampling)
    if turn.text_format is not None:
        body["output_config"] = {
            **thinking.body.get("output_config", {}),
            "format": _lower_format(turn.text_format, losses),
        }
    elif profile.cite_documents:
        enable_citations(messages)  # the API refuses it beside a format, whose JSON has no place for citations
    if turn.betas:
        losses.append(Loss("anthropic_beta", "dropped"))
    if turn.verbosity is not None:
        losses.append(Loss("text.verbosity", "dropped"))
    _add_extra(body, turn.extra, profile, losses, allows_top_k=allows_sampling and not thinking.thinks)
    losses += find_unknown_key_losses(turn.unknown_keys, {"thinking": body.get("thinking")})
    _mark_for_caching(body, turn, losses)
    if turn.stream:
        body["stream"] = True
    return LoweredRequest(body, tuple(dict.fromkeys(losses)))


def _lower_sampling(sampling: Mapping[str, Any], losses: list[Loss], *, thinks: bool, allows_sampling: bool) -> Json:
    if (sampling.get("n") or 1) != 1:
        raise Unrepresentable("this model answers with one choice at a time: leave out 'n'", param="n")
    for name, description in _REFUSED_PARAMS.items():
        if sampling.get(name):
            raise Unrepresentable(f"this model's API has no {description}: leave out {name!r}", param=name)
    losses += [Loss(name, "dropped") for name in _DROPPED_PARAMS if sampling.get(name)]
    body = _lower_randomness(sampling, losses, thinks=thinks) if allows_sampling else _drop_randomness(sampling, losses)
    if stop := sampling.get("stop"):
        if not all(text.strip() for text in stop):
            raise Unrepresentable(
                "this model's API has no stop sequences of white space only: leave them out of 'stop'", param="stop"
            )
        body["stop_sequences"] = stop
    users = [(name, user) for name in ("safety_identifier", "user") if (user := sampling.get(name))]
    if users:
        body["metadata"] = {"user_id": users[0][1]}
        losses += [Loss(name, "dropped") for name, user in users[1:] if user != users[0][1]]
    if (tier := sampling.get("service_tier")) is not None:
        if tier in _SERVICE_TIERS:
            body["service_tier"] = _SERVICE_TIERS[tier]
        else:
            losses.append(Loss("service_tier", "dropped"))
    return body


def _lower_randomness(sampling: Mapping[str, Any], losses: list[Loss], *, thinks: bool) -> Json:
    """Returns `temperature` and `top_p`. Newer models accept only one of the two, and while thinking almost none."""
    body: Json = {}
    temperature, top_p = sampling.get("temperature"), sampling.get("top_p")
    if temperature is not None and temperature > 1:
        temperature = 1
        losses.append(Loss("temperature", "lowered to 1"))
    if thinks and temperature not in (None, 1):
        losses.append(Loss("temperature", "dropped"))
    elif temperature is not None and not thinks:
        body["temperature"] = temperature
    if top_p is None or top_p == 1:
        return body  # 1 is the default: no token is cut
    if "temperature" in body or (thinks and top_p < _MIN_TOP_P_WITH_THINKING):
        losses.append(Loss("top_p", "dropped"))
    else:
        body["top_p"] = top_p
    return body


def _drop_randomness(sampling: Mapping[str, Any], losses: list[Loss]) -> Json:
    """Reports dropped parameters. The value 1 is the default of both, so dropping it is no loss."""
    losses += [Loss(name, "dropped") for name in ("temperature", "top_p") if sampling.get(name) not in (None, 1)]
    return {}


def _lower_format(text_format: Json, losses: list[Loss]) -> Json:
    match text_format:
        case {"type": "json_schema", "schema": dict(schema)}:
            if text_format.get("description"):
                losses.append(Loss("text.format.description", "dropped"))
            try:
                return {"type": "json_schema", "schema": close_schema(schema, "text.format.schema", losses)}
            except JoinedObjects:
                raise Unrepresentable(
                    "this model's API enforces no object that several schemas describe together (allOf, or anyOf, "
                    "oneOf and $ref beside properties): write each object in one schema",
                    param="text.format.schema",
                ) from None
        case {"type": "json_object"}:
            message = "this model's API has no JSON mode without a schema: send text.format as json_schema"
            raise Unrepresentable(message, param="text.format.type")
        case _:
            kind = text_format.get("type")
            raise Unrepresentable(f"this model's API has no text format of type {kind!r}", param="text.format.type")


def _add_extra(
    body: Json, extra: Mapping[str, Any], profile: Profile, losses: list[Loss], *, allows_top_k: bool
) -> None:
    for key, value in extra.items():
        if value is None:
            continue
        if key in profile.extra_params and key not in body and (allows_top_k or key != "top_k"):
            body[key] = value
        else:
            losses.append(Loss(key, "dropped"))


def _mark_for_caching(body: Json, turn: Turn, losses: list[Loss]) -> None:
    """Sets `cache_control` marks at the ends of the system prompt (or of the tools) and of the messages, in place.

    The API has no parameter for the `prompt_cache_key`.
    """
    mark = build_cache_mark(turn, _LONGEST_TTL, losses)
    if mark is None:
        return
    if "system" in body:
        body["system"] = [{"type": "text", "text": body["system"], "cache_control": mark}]
    elif "tools" in body:
        *others, last = body["tools"]  # they may be shared with other requests
        body["tools"] = [*others, {**last, "cache_control": mark}]
    body["messages"][-1]["content"][-1]["cache_control"] = mark
