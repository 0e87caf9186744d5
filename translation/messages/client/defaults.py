"""Adds an operator's defaults, which have the names of OpenAI's APIs, to a request of the Messages API."""

from collections.abc import Mapping
from typing import Any, Final

from translation.messages.schema.request import EnabledThinking
from translation.representation.json_types import Json, mapping_or_empty
from translation.request_defaults import fit_thinking, flatten_thinking

_LEFT_OUT: Final = frozenset(
    {"max_tokens", "max_completion_tokens", "max_output_tokens", "metadata", "parallel_tool_calls", "reasoning"}
    | {"reasoning_effort", "service_tier", "stop", "text", "thinking", "tool_choice", "user", "verbosity"}
)
"""Defaults that have a place of their own, or none in this API. A request always has a limit."""

_EFFORTS: Final = {"minimal": "low"}
"""Effort -> the effort of this API, where it is not the same."""

_SERVICE_TIERS: Final = {"default": "standard_only"}

_CHOICES: Final = {"required": "any"}

_OWN_KINDS: Final = ("between_tools",)
"""Kinds of thinking of this API that are more than on or off."""

_THINKING_OPTIONS: Final = EnabledThinking.__annotations__.keys() - {"type", "budget_tokens"}
"""Keys of thinking of this API that do not say whether or how much the model thinks."""


def add_defaults(body: Json, defaults: Mapping[str, Any]) -> Json:
    """Returns a body with defaults for what it leaves out."""
    own = {name: value for name, value in body.items() if value is not None}
    filled = {name: value for name, value in fit_thinking(defaults, own).items() if name not in _LEFT_OUT} | own
    if stop := defaults.get("stop"):
        filled.setdefault("stop_sequences", [stop] if isinstance(stop, str) else stop)
    if tier := defaults.get("service_tier"):
        filled.setdefault("service_tier", _SERVICE_TIERS.get(tier, tier))
    if isinstance(user := defaults.get("user"), str):
        filled["metadata"] = {"user_id": user} | _without_nulls(own.get("metadata"))
    _add_thinking(filled, defaults)
    if filled.get("tools"):
        _add_tool_choice(filled, defaults)
    return filled


def _add_thinking(filled: Json, defaults: Mapping[str, Any]) -> None:
    given = mapping_or_empty(defaults.get("thinking"))
    defaults = flatten_thinking(defaults)
    reasoning = mapping_or_empty(defaults.get("reasoning"))
    effort = defaults.get("reasoning_effort") or reasoning.get("effort")
    if "thinking" not in filled:
        if defaults.get("thinking") is False or effort == "none":
            filled["thinking"] = {"type": "disabled"}
        elif isinstance(budget := reasoning.get("max_tokens"), int):
            filled["thinking"] = _limit_thinking(budget, filled.get("max_tokens")) | _pick_options(given)
        elif defaults.get("thinking"):
            filled["thinking"] = {"type": "adaptive"} | _pick_options(given)
        elif given.get("type") in _OWN_KINDS:
            filled["thinking"] = {"type": given["type"]}
    if effort not in (None, "none") and mapping_or_empty(filled.get("thinking")).get("type") != "disabled":
        own = _without_nulls(filled.get("output_config"))
        filled["output_config"] = {"effort": _EFFORTS.get(effort, effort)} | own


def _pick_options(thinking: Mapping[str, Any]) -> Json:
    """Returns what an object of thinking says that this API knows besides its type and its budget."""
    return {key: value for key in _THINKING_OPTIONS if isinstance(value := thinking.get(key), str)}


def _limit_thinking(budget: int, limit: int | None) -> Json:
    """Returns thinking with a budget. One beyond the limit of the whole reply needs no budget."""
    is_below = limit is None or budget < limit
    return {"type": "enabled", "budget_tokens": budget} if is_below else {"type": "adaptive"}


def _add_tool_choice(filled: Json, defaults: Mapping[str, Any]) -> None:
    match defaults.get("tool_choice"):
        case str(kind):
            filled.setdefault("tool_choice", {"type": _CHOICES.get(kind, kind)})
        case {"name": str(name)} | {"function": {"name": str(name)}}:
            filled.setdefault("tool_choice", {"type": "tool", "name": name})
    if defaults.get("parallel_tool_calls") is False:
        given = _without_nulls(filled.get("tool_choice", {"type": "auto"}))
        filled["tool_choice"] = {"disable_parallel_tool_use": True} | given


def _without_nulls(value: Any) -> Json:
    return {key: inner for key, inner in mapping_or_empty(value).items() if inner is not None}
