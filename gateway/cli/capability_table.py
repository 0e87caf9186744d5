"""Renders the capabilities of models as a table for terminals: a row per capability, a column per model."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import zip_longest
from typing import Final

from gateway.terminal_text import format_table
from providers.base import Capabilities

_MAX_LINE_WIDTH: Final = 100
"""The longest line in characters. Models that do not fit beside each other follow in another table."""

_MIN_COLUMN_WIDTH: Final = 9
"""The narrowest column of a model in characters. The longest value that is not a name fits in it."""

_COLUMN_GAP: Final = 2

_NAME_PIECES: Final = re.compile(r"[^-/_:.@]*[-/_:.@]?")
"""The pieces of a model name. A line break may follow each."""


def render_matrix(models: Mapping[str, Capabilities]) -> list[str]:
    """Returns the lines of the table. `models` maps model names to capabilities.

    There is one row per capability, in the order of declaration. A set is followed by one row per member that any of
    the models has.
    """
    titles, *columns = zip(*_capability_rows(list(models.values())), strict=True)
    available_width = _MAX_LINE_WIDTH - max(map(len, titles))
    models_per_table = available_width // (_MIN_COLUMN_WIDTH + _COLUMN_GAP)
    lines: list[str] = []
    for first in range(0, len(columns), models_per_table):
        group = columns[first : first + models_per_table]
        width = available_width // len(group) - _COLUMN_GAP
        names = [_wrap_name(name, width) for name in list(models)[first : first + models_per_table]]
        heads = zip_longest(["CAPABILITY"], *names, fillvalue="")
        lines += ["", *format_table([*heads, *zip(titles, *group, strict=True)])]
    return lines[1:]


def _capability_rows(models: Sequence[Capabilities]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for field in fields(Capabilities):
        values = [getattr(capabilities, field.name) for capabilities in models]
        rows.append((field.name, *map(_render_value, values)))
        members = sorted(set().union(*(value for value in values if isinstance(value, frozenset))))
        rows += [(f"  {member}", *(_render_value(member in value) for value in values)) for member in members]
    return rows


def _render_value(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case None:
            return "unknown"
        case frozenset():
            return str(len(value)) if value else "none"
        case _:
            return str(value)


def _wrap_name(name: str, width: int) -> list[str]:
    """Splits a name into lines of at most `width` characters."""
    lines = [""]
    for piece in _NAME_PIECES.findall(name):
        for start in range(0, len(piece), width):
            part = piece[start : start + width]
            if len(lines[-1]) + len(part) > width:
                lines.append("")
            lines[-1] += part
    return lines
