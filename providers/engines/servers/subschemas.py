"""Iterates over the schemas inside a JSON schema."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_DATA_KEYWORDS: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data and never schemas, even if they look like schemas."""

_NAMED_SCHEMA_KEYWORDS: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords whose values map arbitrary names to schemas."""


def iter_subschemas(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yields all mappings in a value that may be schemas, the value itself first. The value may also be something that
    contains schemas, such as a list of tools."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case Mapping() as schema:
                yield schema
                for keyword, inside in schema.items():
                    if keyword in _NAMED_SCHEMA_KEYWORDS and isinstance(inside, Mapping):
                        waiting += inside.values()
                    elif keyword not in _DATA_KEYWORDS:
                        waiting.append(inside)
            case list() | tuple() as entries:
                waiting += entries
