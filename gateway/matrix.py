"""What each model can do, as a table for terminals: capabilities down, models across."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from gateway.table import table
from providers.base import Capabilities

_MOST_NAMED: Final = 2
"""Of a set with more members than these, their number is told: its column would be as wide as the screen."""


def matrix(models: Mapping[str, Capabilities]) -> list[str]:
    """One line for each capability, in the order in which they are declared."""
    names = [field.name for field in fields(Capabilities)]
    rows = [(name, *(_words(getattr(able, name)) for able in models.values())) for name in names]
    return table([("CAPABILITY", *models), *rows])


def _words(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case None:
            return "unknown"
        case frozenset() if len(value) > _MOST_NAMED:
            return f"{len(value)} kinds"
        case frozenset():
            return ",".join(sorted(value)) or "none"
        case _:
            return str(value)
