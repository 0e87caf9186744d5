"""What the parameters of a turn are called by clients and upstreams. A turn names them as the Responses API does."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from translation.representation.json_types import Json

FindParam: TypeAlias = Callable[[str, str, str, Json], tuple[str, str, str]]
"""Returns the client's (name, place, rest) for a parameter of a turn, such as `input`, `[2]`, `.content[0]`.

The last argument is the client's body. Names without another one in the API are returned unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamNames:
    """The names of one client API, for errors and losses."""

    input: str
    """The list of which a turn's items are lifted."""
    max_output: str
    reasoning: str
    reasoning_keys: frozenset[str]
    """The top-level keys that ask for reasoning."""
    thinking: str
    """The switch of thinking."""
    text_format: str
    logprobs: str
    find: FindParam
    overflow_input: str
    """The input as a whole, in errors about its length."""
    overflow_limit: str | None = None
    """The limit of the answer, in errors about the length of the context; None if it is named as the upstream does."""
    servers: Mapping[str, str] = field(default_factory=dict)
    """Path within an `mcp` tool of a turn -> the API's parameter, if MCP servers are no tools in it.

    The empty path is the server. Errors of such an API have no key for a parameter, so messages begin with it."""


_SEPARATOR: Final = re.compile(r"[.\[\]]+")

_BODY_KEY: Final = "body"
"""Servers that are built with FastAPI begin the path of a parameter with it."""


def find_turn_param(param: str, names: Mapping[str, str]) -> str:
    """Returns the turn's parameter for one of an upstream's request, such as `input` for `messages[2].content`.

    `names` maps the upstream's parameters to the turn's. A parameter without a name there keeps its first key.
    Positions are left out, because lowering joins, splits and moves items and tools.
    """
    keys = [key for key in _SEPARATOR.split(param) if key and not key.isdecimal()]
    if keys[:1] == [_BODY_KEY]:
        keys = keys[1:]
    for length in range(len(keys), 0, -1):
        if (name := names.get(".".join(keys[:length]))) is not None:
            return name
    return keys[0] if keys else param
