"""Finds the turn's name of a parameter that an upstream's error names in the words of its own API."""

import re
from collections.abc import Mapping
from typing import Final

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
