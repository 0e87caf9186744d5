"""The names for JSON as Python holds it after parsing."""

from collections.abc import Mapping
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""One JSON object. Values are what `orjson.loads` returns."""

Item: TypeAlias = dict[str, Any]
"""A Responses API item: a JSON object with at least `type`."""


def mapping_or_empty(value: object) -> Mapping[str, Any]:
    """The value where it is a JSON object, otherwise an empty one: what was not validated may be anything."""
    return value if isinstance(value, Mapping) else {}
