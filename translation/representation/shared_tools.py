"""Lists of functions that many requests have: what was found out about one holds for the next.

An agent sends the same tools with each request of its task, and most requests of a server come from a few agents. To
check, lower and echo a dozen tools takes as long as all else that is done for a short request.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

import orjson

from translation.representation.json_types import Json

_R = TypeVar("_R")

_MAX_LISTS: Final = 32
_MAX_BYTES: Final = 64 * 1024
_MAX_TOOLS: Final = 256
"""The bounds of what is kept: some lists of some dozen kilobytes each. Longer lists are not looked up."""


class SharedTools(list[Json]):
    """A list of function tools without credentials. It and its tools are not changed by anybody."""

    __slots__ = ("_derived", "_json", "is_valid")

    def __init__(self, tools: Sequence[Json] = ()) -> None:
        super().__init__(tools)
        self.is_valid = False
        """Whether the schema of the client's API was found to accept it."""
        self._derived: dict[Callable[..., Any], Any] = {}
        self._json: orjson.Fragment | None = None

    def derive(self, build: Callable[[Sequence[Json]], _R]) -> _R:
        """Returns what `build` makes of the tools. It is called once; what it raises is raised each time."""
        derived = self._derived
        if build not in derived:
            derived[build] = build(self)
        return cast("_R", derived[build])

    @property
    def json(self) -> orjson.Fragment:
        """The JSON of the list, which is written once."""
        if self._json is None:
            self._json = orjson.Fragment(orjson.dumps(self))
        return self._json


_JSON_TYPES: Final[Sequence[type[Any]]] = (str, int, float, list, dict)


def share_tools(body: Json) -> Json:
    """Returns a body with functions that an earlier one had as the same `tools`, so that they are examined once.

    The body may be invalid. One with other tools is returned as it is.
    """
    tools = body.get("tools")
    if not tools or type(tools) is not list or len(tools) > _MAX_TOOLS:
        return body
    try:
        key = orjson.dumps(tools)
    except TypeError:  # half a character, which a client can escape and nobody can write
        return body
    if len(key) > _MAX_BYTES:
        return body
    place = _place_of(key)
    if not place:  # of two threads that fill it, the first decides
        place.append(SharedTools(tools) if all(map(_is_function, tools)) else None)
    shared = place[0]
    return body if shared is None else {**body, "tools": shared}


def derive(tools: Sequence[Json], build: Callable[[Sequence[Json]], _R]) -> _R:
    """Returns what `build` makes of tools, from an earlier request if they are shared."""
    return tools.derive(build) if isinstance(tools, SharedTools) else build(tools)


def write_json(value: Json) -> bytes:
    """Returns the JSON of a request or reply. Shared tools in it were written before."""
    return orjson.dumps(value, _write_subclass, orjson.OPT_PASSTHROUGH_SUBCLASS)


def _write_subclass(value: Any) -> Any:
    """Returns an object that orjson writes, for one of a subclass of a type of JSON."""
    if isinstance(value, SharedTools):
        return value.json
    for kind in _JSON_TYPES:
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _is_function(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") == "function" and "tools" not in tool


@lru_cache(_MAX_LISTS)
def _place_of(_key: bytes) -> list[SharedTools | None]:
    """Returns the place for the list with this JSON, which has everything that the list says, in its order.

    It is empty at first. A list with other tools than functions is None in it.
    """
    return []
