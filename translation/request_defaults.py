"""Adds an operator's defaults to requests of OpenAI's APIs.

The configuration has each default once, under its name in either of the two. Several parameters may say the same: what
a client says by one of them is not changed by a default for another.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from translation.representation.json_types import Json, mapping_or_empty

_TOKEN_LIMITS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")

_THINKING: Final[Mapping[str, frozenset[str]]] = {
    "thinking": frozenset(),
    "reasoning_effort": frozenset(),
    "reasoning": frozenset({"effort", "enabled", "max_tokens"}),
    "chat_template_kwargs": frozenset({"enable_thinking", "thinking", "reasoning_effort"}),
}
"""Parameter that says whether and how much the model thinks -> the keys that say it, if the parameter is an object with
others too."""

_SWITCHES: Final[Mapping[Any, bool]] = {"enabled": True, "adaptive": True, "disabled": False}
"""`thinking.type`, as DeepSeek, Kimi and GLM have it -> whether it turns thinking on or off."""

_MERGED: Final = ("reasoning", "text")
"""Objects whose keys are merged."""


def fill_params(body: Json, defaults: Mapping[str, Any], rename: Callable[[Json], Json]) -> Json:
    """Returns a body with defaults for the parameters that it leaves out. `rename` gives the defaults the API's names.

    Defaults for token limits do not apply if the body has a limit under any of its names, and defaults for thinking do
    not apply if the body has any parameter about it.
    """
    filled = dict(body)
    applied: Mapping[str, Any] = defaults
    if any(body.get(name) is not None for name in _TOKEN_LIMITS):
        applied = {name: value for name, value in applied.items() if name not in _TOKEN_LIMITS}
    if not _THINKING.keys().isdisjoint(body) and _sets_thinking(body):
        applied = _remove_thinking(applied)
    for name, value in rename({**applied}).items():
        existing = filled.get(name)
        if existing is None:
            filled[name] = value
        elif name in _MERGED and isinstance(existing, dict) and isinstance(value, dict):
            filled[name] = value | {key: inner for key, inner in existing.items() if inner is not None}
    return filled


def find_common_defaults(each: Sequence[Mapping[str, Any]]) -> Json:
    """Returns the defaults that all of several upstreams share.

    Parameters that say the same belong together: unless the upstreams agree on all of them, they share none.
    """
    first, *others = each
    common = dict(first)
    for other in others:
        common = {name: value for name, value in common.items() if name in other and other[name] == value}
    for names in (_TOKEN_LIMITS, _THINKING):
        parts = [{name: defaults[name] for name in names if name in defaults} for defaults in each]
        if any(part != parts[0] for part in parts):
            common = {name: value for name, value in common.items() if name not in names}
    return common


def read_switch(value: bool | Json | None) -> bool | None:
    """Returns whether a valid `thinking` turns thinking on or off; None if it does neither."""
    return _SWITCHES.get(value["type"]) if isinstance(value, dict) else value


def flatten_thinking(defaults: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns defaults whose `thinking` is a boolean, for an API that does not know it as an object. Its budget is
    `reasoning.max_tokens` then."""
    value = defaults.get("thinking")
    if not isinstance(value, dict):
        return defaults
    flat: Json = {name: inner for name, inner in defaults.items() if name != "thinking"}
    if (switch := _SWITCHES.get(value.get("type"))) is not None:
        flat["thinking"] = switch
    if switch is not False and (budget := value.get("budget_tokens")) is not None:
        flat["reasoning"] = {"max_tokens": budget, **mapping_or_empty(flat.get("reasoning"))}
    return flat


def _sets_thinking(body: Json) -> bool:
    """Returns whether a body has a parameter about thinking that is not null."""
    for name, keys in _THINKING.items():
        value = body.get(name)
        if value is None:
            continue
        if not keys or (isinstance(value, dict) and any(value.get(key) is not None for key in keys)):
            return True
    return False


def _remove_thinking(defaults: Mapping[str, Any]) -> Json:
    """Returns defaults without what they say about thinking. An object that says nothing else is left out."""
    remaining: Json = {}
    for name, value in defaults.items():
        keys = _THINKING.get(name)
        if keys is None:
            remaining[name] = value
        elif keys and isinstance(value, dict):
            others = {key: inner for key, inner in value.items() if key not in keys}
            if others:
                remaining[name] = others
    return remaining
