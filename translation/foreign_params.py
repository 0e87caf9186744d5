"""Applies parameters under the names of OpenAI's APIs to turns of clients whose own API has no name for them.

The defaults of a model have these names. A client may send them too, since other servers with its API may know them.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import NoneType
from typing import Any, Final, TypeAlias

from translation.representation.json_types import Json, mapping_or_empty
from translation.representation.turn import SHARED_PARAMS, Turn

_Types: TypeAlias = tuple[type[Any], ...]

_SHARED_TYPES: Final[Mapping[str, _Types]] = {
    **dict.fromkeys(SHARED_PARAMS, (str,)),
    **dict.fromkeys(("temperature", "top_p", "presence_penalty", "frequency_penalty"), (int, float)),
    **dict.fromkeys(("logit_bias", "metadata"), (dict,)),
    "seed": (int,),
    "store": (bool,),
}
"""Parameter of `Turn.sampling` -> the types of its value. No API has checked it. A boolean is no number."""

_FORMAT_TYPES: Final[Mapping[str, _Types]] = {
    "type": (str,),
    "name": (str,),
    "schema": (dict,),
    "description": (str, NoneType),
    "strict": (bool, NoneType),
}
"""Key of a `text.format` with a schema -> the types of its value. With any other key it remains a loss."""

_CHOICES: Final = ("auto", "none", "required")

_OTHERS: Final = ("parallel_tool_calls", "reasoning", "text", "tool_choice", "verbosity")
"""Parameters that have a field of their own in a turn."""


def apply_foreign_params(turn: Turn) -> Turn:
    """Returns a turn with the parameters of its `extra` that turns have a place for, unless the client has set them by
    the names of its own API. A value of another type stays in `extra`, which makes it a loss.

    Parameters about tools say nothing to a turn without tools, and are left out of it.
    """
    if turn.extra.keys().isdisjoint((*_SHARED_TYPES, *_OTHERS)):
        return turn
    extra = dict(turn.extra)
    shared = {name: extra.pop(name) for name, types in _SHARED_TYPES.items() if type(extra.get(name)) in types}
    applied: dict[str, Any] = {"sampling": {**shared, **turn.sampling}}
    if isinstance(verbosity := extra.get("verbosity"), str):
        del extra["verbosity"]
        applied["verbosity"] = turn.verbosity or verbosity
    if isinstance(text := extra.get("text"), dict):
        rest = {key: value for key, value in text.items() if value is not None}
        if isinstance(verbosity := rest.get("verbosity"), str):
            del rest["verbosity"]
            applied["verbosity"] = applied.get("verbosity") or turn.verbosity or verbosity
        if (text_format := _read_format(rest.get("format"))) is not None:
            del rest["format"]
            applied["text_format"] = turn.text_format or text_format or None
        extra["text"] = rest
        if text and not rest:
            del extra["text"]
    reasoning = mapping_or_empty(extra.get("reasoning"))
    if type(budget := reasoning.get("max_tokens")) is int and turn.thinking is not False:
        applied["reasoning"] = {"max_tokens": budget, **(turn.reasoning or {})}
        extra["reasoning"] = {key: value for key, value in reasoning.items() if key != "max_tokens"}
        extra = {name: value for name, value in extra.items() if name != "reasoning" or value}
    if (choice := _read_choice(extra.get("tool_choice"))) is not None:
        del extra["tool_choice"]
        if turn.tools and turn.tool_choice is None:
            applied["tool_choice"] = choice
    if isinstance(parallel := extra.get("parallel_tool_calls"), bool):
        del extra["parallel_tool_calls"]
        if turn.tools and turn.parallel_tool_calls is None:
            applied["parallel_tool_calls"] = parallel
    return replace(turn, extra=extra, **applied)


def _read_format(text_format: Any) -> Json | None:
    """Returns a `text.format` of the Responses API in the form of a turn, which is empty for plain text; None for any
    other value. https://platform.openai.com/docs/api-reference/responses/create#responses_create-text"""
    match text_format:
        case {"type": "text"}:
            return {}
        case {"type": "json_object"}:
            return {"type": "json_object"}
        case {"type": "json_schema", "name": str(), "schema": dict()} if all(
            type(value) in _FORMAT_TYPES.get(key, ()) for key, value in text_format.items()
        ):
            return dict(text_format)
    return None


def _read_choice(choice: Any) -> str | Json | None:
    """Returns a `tool_choice` of either of OpenAI's APIs in the form of a turn; None for any other value."""
    match choice:
        case str() if choice in _CHOICES:
            return choice
        case {"type": "function", "name": str(name)} | {"type": "function", "function": {"name": str(name)}}:
            return {"type": "function", "name": name}
    return None
