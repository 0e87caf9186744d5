"""Type aliases for parsed JSON."""

from collections.abc import Mapping
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A JSON object. Its values are of the types that `orjson.loads` returns."""

Item: TypeAlias = dict[str, Any]
"""A Responses API item: a JSON object with at least `type`."""


def mapping_or_empty(value: object) -> Mapping[str, Any]:
    """Returns the value if it is a JSON object, else an empty mapping. For values that were not validated."""
    return value if isinstance(value, Mapping) else {}
