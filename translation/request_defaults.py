"""Adds an operator's defaults to requests of OpenAI's APIs.

The configuration has each default once, under its name in either of the two. Several parameters may say the same: what
a client says by one of them is not changed by a default for another.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from translation.representation.json_types import Json, mapping_or_empty

_TOKEN_LIMITS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")


_TEMPLATE: Final = "chat_template_kwargs"
"""The parameter with arguments of the model's template."""


class _ThinkingKeys(NamedTuple):
    """The keys by which a parameter says something about thinking."""

    switches: frozenset[str]
    """Keys that turn thinking on or off."""
    amounts: frozenset[str]
    """Keys that say how much the model thinks, which turns thinking on or off too."""


_THINKING: Final[Mapping[str, _ThinkingKeys]] = {
    "thinking": _ThinkingKeys(frozenset({"type"}), frozenset({"budget_tokens"})),
    "reasoning_effort": _ThinkingKeys(frozenset(), frozenset({"effort"})),
    "reasoning": _ThinkingKeys(frozenset({"enabled"}), frozenset({"effort", "max_tokens"})),
    _TEMPLATE: _ThinkingKeys(frozenset({"enable_thinking", "thinking"}), frozenset({"reasoning_effort"})),
}
"""Parameter that says whether and how much the model thinks -> its keys. It may have others too."""

_FLAT: Final[Mapping[str, str]] = {"thinking": "type", "reasoning_effort": "effort"}
"""Parameter whose value may be no object -> the key that the value would have in one."""

_SWITCHES: Final[Mapping[Any, bool]] = {"enabled": True, "adaptive": True, "disabled": False}
"""`thinking.type`, as DeepSeek, Kimi and GLM have it -> whether it turns thinking on or off."""

_NO_AMOUNTS: Final = ("none", 0)
"""The effort and the budget that turn thinking off."""

_MERGED: Final = ("reasoning", "text")
"""Objects whose keys are merged."""


def fill_params(body: Json, defaults: Mapping[str, Any], rename: Callable[[Json], Json]) -> Json:
    """Returns a body with defaults for the parameters that it leaves out. `rename` gives the defaults the API's names.

    Defaults for token limits do not apply if the body has a limit under any of its names. Those for thinking have to
    agree with what the body says about it (see `fit_thinking`).
    """
    filled = dict(body)
    applied = fit_thinking(defaults, body)
    if any(body.get(name) is not None for name in _TOKEN_LIMITS):
        applied = {name: value for name, value in applied.items() if name not in _TOKEN_LIMITS}
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


def fit_thinking(defaults: Mapping[str, Any], body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the defaults that still apply if a body has said what it says about thinking: all, if it says nothing.

    Switches that turn thinking on or off as the body does are kept, because an upstream may need them to follow it: the
    templates of many models know no efforts. Those of a template are turned where they differ, because nothing else
    reaches such a model. Default amounts are kept if they say the same and the body has none.
    """
    if _THINKING.keys().isdisjoint(body):
        return defaults
    switches, amounts = _find_thinking(body)
    if not switches and not amounts:
        return defaults
    # A body that contradicts itself, or says something that is neither on nor off, agrees with no default.
    meanings = switches or amounts
    thinking = next(iter(meanings)) if len(meanings) == 1 else None
    return _select_agreeing(defaults, thinking, keeps_amounts=not amounts)


def _find_thinking(body: Mapping[str, Any]) -> tuple[set[bool | None], set[bool | None]]:
    """Returns what the (switches, amounts) of a body say: thinking is on, off, or neither. Nulls say nothing."""
    switches: set[bool | None] = set()
    amounts: set[bool | None] = set()
    for name, keys in _THINKING.items():
        for key, value in _split(name, body.get(name)).items():
            if key in keys.switches and value is not None:
                switches.add(_read_value(value))
            elif key in keys.amounts and value is not None:
                amounts.add(value not in _NO_AMOUNTS)
    return switches, amounts


def _select_agreeing(defaults: Mapping[str, Any], thinking: bool | None, *, keeps_amounts: bool) -> Json:
    """Returns the defaults that fit a body which says `thinking`. An object that says nothing else is left out."""
    remaining: Json = {}
    for name, value in defaults.items():
        if (keys := _THINKING.get(name)) is None:
            remaining[name] = value
            continue
        rest: Json = {}
        for key, inner in _split(name, value).items():
            if key in keys.switches:
                if thinking is not None and _read_value(inner) is thinking:
                    rest[key] = inner
                elif thinking is not None and name == _TEMPLATE:
                    rest[key] = thinking
            elif key not in keys.amounts or (keeps_amounts and (inner not in _NO_AMOUNTS) is thinking):
                rest[key] = inner
        if rest and (name != "thinking" or "type" in rest):  # no upstream accepts that object without its type
            remaining[name] = rest if isinstance(value, dict) else value
    return remaining


def _split(name: str, value: Any) -> Mapping[str, Any]:
    """Returns the keys and values of a parameter about thinking. A value that is no object may stand for one key."""
    if isinstance(value, dict):
        return value
    return {_FLAT[name]: value} if name in _FLAT else {}


def _read_value(value: Any) -> bool | None:
    """Returns whether a switch, whose value may be invalid, turns thinking on or off; None if it does neither."""
    if isinstance(value, str):
        return _SWITCHES.get(value)
    return value if isinstance(value, bool) else None
