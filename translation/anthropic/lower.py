"""A turn as a request of the Messages API. https://docs.claude.com/en/api/messages"""

from collections.abc import Mapping
from typing import Any, Final

from translation.anthropic.caching import mark_for_caching
from translation.anthropic.citations import ask_for_citations
from translation.anthropic.lower_items import is_thought_through, lower_items
from translation.anthropic.lower_tools import is_forced, lower_tools
from translation.anthropic.schemas import closed
from translation.anthropic.thinking import is_budgeted, is_older, is_sampled, lower_thinking
from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Lowered, Turn

_WORDLESS: Final = ("presence_penalty", "frequency_penalty", "seed", "metadata", "store")
"""Parameters the API has no word for, and an answer survives without."""

_MEANINGFUL: Final = {
    "logit_bias": "token biases",
    "logprobs": "log probabilities",
    "top_logprobs": "log probabilities",
}
"""Parameters the API has no word for, and whose loss would change the answer."""

_TIERS: Final = {"auto": "auto", "default": "standard_only"}

_LEAST_TOP_P: Final = 0.95
"""Where a model thinks; the temperature is 1 then, and `top_k` is not said."""


def lower(turn: Turn, profile: Profile) -> Lowered:
    """The body for `POST /messages`.

    Raises InvalidRequest for a history or a tool that the API does not take (a call without its output, a name with a
    space), Unrepresentable for what it cannot say. Nulls and parameters of tools without tools are never sent. `losses`
    are this step's own: what lifting lost stays in `turn.lost`.
    """
    losses: list[Loss] = []
    system, messages = lower_items(turn.instructions, turn.items, profile, losses)
    if not messages:
        raise InvalidRequest("The input is empty: send at least one message that is not the system's.", param="input")
    older = is_older(turn.model)
    tools = lower_tools(turn.tools, turn.tool_choice, turn.parallel_tool_calls, losses, strict=not older)
    barred = "not where a tool is forced" if is_forced(tools) else None
    if not barred and is_budgeted(turn.model, profile) and not is_thought_through(messages):
        barred = "not in a turn begun without"
    told = lower_thinking(turn, profile, losses, barred=barred)
    body: Json = {"model": turn.model, "max_tokens": told.max_tokens, "messages": messages}
    if system:
        body["system"] = "\n\n".join(system)
    body |= tools | told.body
    sampled = is_sampled(turn.model, profile)
    body |= _sampling(turn.sampling, losses, thinks=told.thinks, sampled=sampled)
    if turn.text_format is not None:
        body["output_config"] = {**told.body.get("output_config", {}), "format": _format(turn.text_format, losses)}
    elif profile.cite_documents:
        ask_for_citations(messages)  # the API refuses it beside a format: there is no room for citations in one
    if turn.verbosity is not None:
        losses.append(Loss("text.verbosity", "dropped"))
    _add_extra(body, turn.extra, profile, losses, takes_top_k=sampled and not told.thinks)
    mark_for_caching(body, turn.sampling, losses)
    if turn.stream:
        body["stream"] = True
    return Lowered(body, tuple(dict.fromkeys(losses)))


def _sampling(asked: Mapping[str, Any], losses: list[Loss], *, thinks: bool, sampled: bool) -> Json:
    if (asked.get("n") or 1) != 1:
        raise Unrepresentable("this model answers with one choice at a time: leave out 'n'", param="n")
    for name, words in _MEANINGFUL.items():
        if asked.get(name):
            raise Unrepresentable(f"this model's API has no {words}: leave out {name!r}", param=name)
    losses += [Loss(name, "dropped") for name in _WORDLESS if asked.get(name)]
    body = _randomness(asked, losses, thinks=thinks) if sampled else _left_to_the_model(asked, losses)
    if stop := asked.get("stop"):
        if not all(text.strip() for text in stop):
            raise Unrepresentable("this model cannot stop at blanks: leave them out of 'stop'", param="stop")
        body["stop_sequences"] = stop
    if (user := asked.get("safety_identifier") or asked.get("user")) is not None:
        body["metadata"] = {"user_id": user}
    if (tier := asked.get("service_tier")) is not None:
        if tier in _TIERS:
            body["service_tier"] = _TIERS[tier]
        else:
            losses.append(Loss("service_tier", "dropped"))
    return body


def _randomness(asked: Mapping[str, Any], losses: list[Loss], *, thinks: bool) -> Json:
    """Newer models take one of the two, and where they think hardly any."""
    body: Json = {}
    temperature, top_p = asked.get("temperature"), asked.get("top_p")
    if temperature is not None and temperature > 1:
        temperature = 1
        losses.append(Loss("temperature", "lowered to 1"))
    if thinks and temperature not in (None, 1):
        losses.append(Loss("temperature", "dropped"))
    elif temperature is not None and not thinks:
        body["temperature"] = temperature
    if top_p is None or top_p == 1:
        return body  # all of the tokens: nothing to say
    if "temperature" in body or (thinks and top_p < _LEAST_TOP_P):
        losses.append(Loss("top_p", "dropped"))
    else:
        body["top_p"] = top_p
    return body


def _left_to_the_model(asked: Mapping[str, Any], losses: list[Loss]) -> Json:
    """1 is what a model does by itself: nothing is lost with it."""
    losses += [Loss(name, "dropped") for name in ("temperature", "top_p") if asked.get(name) not in (None, 1)]
    return {}


def _format(text_format: Json, losses: list[Loss]) -> Json:
    match text_format:
        case {"type": "json_schema", "schema": dict(schema)}:
            if text_format.get("description"):
                losses.append(Loss("text.format.description", "dropped"))
            return {"type": "json_schema", "schema": closed(schema, "text.format.schema", losses)}
        case {"type": "json_object"}:
            told = "this model can be held to a JSON schema, not to JSON of any shape: send one as json_schema"
            raise Unrepresentable(told, param="text.format.type")
        case _:
            kind = text_format.get("type")
            raise Unrepresentable(f"this model cannot be held to the text format {kind!r}", param="text.format.type")


def _add_extra(
    body: Json, extra: Mapping[str, Any], profile: Profile, losses: list[Loss], *, takes_top_k: bool
) -> None:
    for key, value in extra.items():
        if value is None:
            continue
        if key in profile.extra_params and key not in body and (takes_top_k or key != "top_k"):
            body[key] = value
        else:
            losses.append(Loss(key, "dropped"))
