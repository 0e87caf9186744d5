"""The schemas inside a schema."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_DATA_KEYWORDS: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data, however much they look like schemas."""

_NAMED_SCHEMA_KEYWORDS: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords that hold schemas by names of somebody else's choice."""


def iter_subschemas(value: Any) -> Iterator[Mapping[str, Any]]:
    """All mappings in a value that may be schemas, itself first. What holds schemas, such as a list of tools, may be
    given as well."""
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
