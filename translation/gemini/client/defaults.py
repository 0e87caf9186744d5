"""Adds an operator's defaults, which have the names of OpenAI's APIs, to a request of Gemini's API."""

from collections.abc import Mapping
from typing import Any, Final

from translation.representation.json_types import Json, mapping_or_empty
from translation.request_defaults import fit_thinking, flatten_thinking

_CONFIG_NAMES: Final = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "seed": "seed",
    "max_tokens": "maxOutputTokens",
    "max_completion_tokens": "maxOutputTokens",
    "max_output_tokens": "maxOutputTokens",
}

_EFFORT_LEVELS: Final = {"xhigh": "high", "max": "high"}
"""Efforts above the API's highest level."""

_DYNAMIC_BUDGET: Final = -1
"""The budget of a model that decides itself how long it thinks."""

_UNSPECIFIED: Final = "thinking_level_unspecified"

_LEFT_OUT: Final = ("stop", "reasoning", "reasoning_effort", "thinking", "service_tier")
"""Defaults that have a place of their own in this API. Those without a name in it are applied when they are lifted."""


def add_defaults(body: Json, defaults: Mapping[str, Any]) -> Json:
    """Returns a normalized body with defaults for omitted parameters."""
    requested: Json = body.get("generationConfig") or {}
    thinking = requested.get("thinkingConfig") or {}
    defaults = fit_thinking(flatten_thinking(defaults), {**body, **_rename_thinking(thinking)})
    config: Json = {name: defaults[key] for key, name in _CONFIG_NAMES.items() if key in defaults}
    if stop := defaults.get("stop"):
        config["stopSequences"] = [stop] if isinstance(stop, str) else stop
    config |= requested
    others = {key: value for key, value in defaults.items() if key not in _CONFIG_NAMES and key not in _LEFT_OUT}
    if not thinking.keys() & {"thinkingBudget", "thinkingLevel"}:
        budget = mapping_or_empty(defaults.get("reasoning")).get("max_tokens")
        thinking = {**_default_thinking(defaults, budget), **thinking}
        if budget is not None and "thinkingLevel" in thinking:
            others["reasoning"] = {"max_tokens": budget}  # the API takes only one of the two
    if thinking:
        config["thinkingConfig"] = thinking
    if "service_tier" in defaults:
        others["serviceTier"] = {"default": "standard"}.get(defaults["service_tier"], defaults["service_tier"])
    merged = {**others, **body}
    return {**merged, "generationConfig": config} if config else merged


def _rename_thinking(config: Mapping[str, Any]) -> Json:
    """Returns what a `thinkingConfig` says, by the names of OpenAI's APIs."""
    budget, level = config.get("thinkingBudget"), config.get("thinkingLevel")
    is_given = level and level.lower() != _UNSPECIFIED
    return {
        "thinking": None if budget is None else budget != 0,
        "reasoning": {"max_tokens": None if budget == _DYNAMIC_BUDGET else budget},
        "reasoning_effort": level if is_given else None,
    }


def _default_thinking(defaults: Mapping[str, Any], budget: int | None) -> Json:
    effort = defaults.get("reasoning_effort") or mapping_or_empty(defaults.get("reasoning")).get("effort")
    if defaults.get("thinking") is False or effort == "none":
        return {"thinkingBudget": 0}
    if effort is not None:
        return {"thinkingLevel": _EFFORT_LEVELS.get(effort, effort)}
    if budget is not None:
        return {"thinkingBudget": budget}
    return {"thinkingBudget": _DYNAMIC_BUDGET} if defaults.get("thinking") else {}
