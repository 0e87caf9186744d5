"""Adds an operator's defaults, which have the names of OpenAI's APIs, to a request of Ollama's API."""

from collections.abc import Mapping
from typing import Any, Final

from translation.representation.json_types import Json, mapping_or_empty
from translation.request_defaults import fit_thinking, flatten_thinking

_OPTION_NAMES: Final = {
    **{name: name for name in ("frequency_penalty", "presence_penalty", "min_p", "seed", "stop")},
    **{name: name for name in ("temperature", "top_k", "top_p")},
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), "num_predict"),
    "repetition_penalty": "repeat_penalty",
}

_THINK_LEVELS: Final[Mapping[Any, Any]] = {"none": False, "minimal": "low", "xhigh": "max"}
"""Effort -> the value of `think`, where it is not the same."""

_LEFT_OUT: Final = ("reasoning", "reasoning_effort", "thinking")
"""Defaults that have a place of their own in this API. Those without a name in it are applied when they are lifted."""


def add_defaults(body: Json, defaults: Mapping[str, Any]) -> Json:
    """Returns a body with defaults for omitted parameters."""
    level = body.get("think")
    name = "thinking" if isinstance(level, bool) else "reasoning_effort"
    defaults = fit_thinking(flatten_thinking(defaults), {**body, name: level})
    options: Json = {name: defaults[key] for key, name in _OPTION_NAMES.items() if key in defaults}
    options |= {name: value for name, value in mapping_or_empty(body.get("options")).items() if value is not None}
    own = {name: value for name, value in body.items() if value is not None}
    others = {key: value for key, value in defaults.items() if key not in _OPTION_NAMES and key not in _LEFT_OUT}
    think = _default_think(defaults)
    if think is not None:
        others["think"] = think
    budget = mapping_or_empty(defaults.get("reasoning")).get("max_tokens")
    if budget is not None and think is not False and "think" not in own:
        others["reasoning"] = {"max_tokens": budget}
    filled = {**others, **own}
    return {**filled, "options": options} if options else filled


def _default_think(defaults: Mapping[str, Any]) -> bool | str | None:
    effort = defaults.get("reasoning_effort") or mapping_or_empty(defaults.get("reasoning")).get("effort")
    if defaults.get("thinking") is False:
        return False
    think: bool | str | None = _THINK_LEVELS.get(effort, effort)
    return defaults.get("thinking") if think is None else think
