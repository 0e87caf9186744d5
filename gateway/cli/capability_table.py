"""What each model can do, as a table for terminals: capabilities down, models across."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import zip_longest
from typing import Final

from gateway.text_table import table
from providers.base import Capabilities

_WIDTH: Final = 100
"""The widest line. Models that do not fit beside each other follow in a table of their own."""

_LEAST: Final = 9
"""The narrowest column of a model: the longest value that is not a name fits in it."""

_GAP: Final = 2

_PIECES: Final = re.compile(r"[^-/_:.@]*[-/_:.@]?")
"""Where names of models may be broken."""


def matrix(models: Mapping[str, Capabilities]) -> list[str]:
    """A line for each capability, in the order in which they are declared; a set has a line for each of its members
    below its own, and its members are those that any of the models has."""
    titles, *columns = zip(*_rows(list(models.values())), strict=True)
    room = _WIDTH - max(map(len, titles))
    at_once = room // (_LEAST + _GAP)
    lines: list[str] = []
    for first in range(0, len(columns), at_once):
        beside = columns[first : first + at_once]
        width = room // len(beside) - _GAP
        names = [_wrapped(name, width) for name in list(models)[first : first + at_once]]
        heads = zip_longest(["CAPABILITY"], *names, fillvalue="")
        lines += ["", *table([*heads, *zip(titles, *beside, strict=True)])]
    return lines[1:]


def _rows(models: Sequence[Capabilities]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for field in fields(Capabilities):
        values = [getattr(able, field.name) for able in models]
        rows.append((field.name, *map(_words, values)))
        members = sorted(set().union(*(value for value in values if isinstance(value, frozenset))))
        rows += [(f"  {member}", *(_words(member in value) for value in values)) for member in members]
    return rows


def _words(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case None:
            return "unknown"
        case frozenset():
            return str(len(value)) if value else "none"
        case _:
            return str(value)


def _wrapped(name: str, width: int) -> list[str]:
    """A name in lines of at most `width`."""
    lines = [""]
    for piece in _PIECES.findall(name):
        for start in range(0, len(piece), width):
            part = piece[start : start + width]
            if len(lines[-1]) + len(part) > width:
                lines.append("")
            lines[-1] += part
    return lines
