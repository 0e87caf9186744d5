"""Applies parameters under the names of OpenAI's APIs to turns of clients whose own API has no name for them.

The defaults of a model have these names. A client may send them too, since other servers with its API may know them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from translation.representation.json_types import Json, mapping_or_empty
from translation.representation.turn import SHARED_PARAMS, Turn

_Types: TypeAlias = type[Any] | tuple[type[Any], ...]

_SHARED_TYPES: Final[Mapping[str, _Types]] = {
    **dict.fromkeys(SHARED_PARAMS, str),
    **dict.fromkeys(("temperature", "top_p", "presence_penalty", "frequency_penalty"), (int, float)),
    **dict.fromkeys(("logit_bias", "metadata"), dict),
    "seed": int,
    "store": bool,
}
"""Parameter of `Turn.sampling` -> the type of its value. No API has checked it."""

_CHOICES: Final = ("auto", "none", "required")

_OTHERS: Final = ("parallel_tool_calls", "text", "tool_choice", "verbosity")
"""Parameters that have a field of their own in a turn."""


def apply_foreign_params(turn: Turn) -> Turn:
    """Returns a turn with the parameters of its `extra` that turns have a place for, unless the client has set them by
    the names of its own API. A value of another type stays in `extra`, which makes it a loss.

    Parameters about tools say nothing to a turn without tools, and are left out of it.
    """
    if turn.extra.keys().isdisjoint((*_SHARED_TYPES, *_OTHERS)):
        return turn
    extra = dict(turn.extra)
    shared = {
        name: extra.pop(name)
        for name, types in _SHARED_TYPES.items()
        if name in extra and isinstance(extra[name], types)
    }
    applied: dict[str, Any] = {"sampling": {**shared, **turn.sampling}}
    verbosity = extra.get("verbosity") or mapping_or_empty(extra.get("text")).get("verbosity")
    if isinstance(verbosity, str):
        applied["verbosity"] = turn.verbosity or verbosity
        extra = {name: value for name, value in extra.items() if name not in ("text", "verbosity")}
    if (choice := _read_choice(extra.get("tool_choice"))) is not None:
        del extra["tool_choice"]
        if turn.tools and turn.tool_choice is None:
            applied["tool_choice"] = choice
    if isinstance(parallel := extra.get("parallel_tool_calls"), bool):
        del extra["parallel_tool_calls"]
        if turn.tools and turn.parallel_tool_calls is None:
            applied["parallel_tool_calls"] = parallel
    return replace(turn, extra=extra, **applied)


def _read_choice(choice: Any) -> str | Json | None:
    """Returns a `tool_choice` of either of OpenAI's APIs in the form of a turn; None for any other value."""
    match choice:
        case str() if choice in _CHOICES:
            return choice
        case {"type": "function", "name": str(name)} | {"type": "function", "function": {"name": str(name)}}:
            return {"type": "function", "name": name}
    return None
