"""The names for JSON as Python holds it after parsing."""

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""One JSON object. Values are what `orjson.loads` returns."""

Item: TypeAlias = dict[str, Any]
"""A Responses API item: a JSON object with at least `type`."""
