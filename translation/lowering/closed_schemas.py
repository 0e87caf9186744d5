"""Closes the objects of JSON schemas, as OpenAI's servers demand of schemas that they enforce (`strict`)."""

from collections.abc import Mapping
from typing import Any, Final

from translation.representation.json_types import Json

_REFUSED_KEYWORDS: Final = frozenset(
    [
        *("allOf", "oneOf", "not", "if", "then", "else", "dependencies", "dependentRequired", "dependentSchemas"),
        *("patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties"),
        *("uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems", "additionalItems"),
    ]
)
"""Keywords that servers refuse beside `strict`.
https://platform.openai.com/docs/guides/structured-outputs#supported-schemas"""

_DROPPED_KEYWORDS: Final = frozenset(["default"])
"""Keywords that Azure's servers refuse beside `strict`, and that restrict nothing.
https://learn.microsoft.com/azure/ai-foundry/openai/how-to/structured-outputs"""

_JOINED_SCHEMAS: Final = ("anyOf", "$ref")
"""Keywords that add to the properties of the object that they stand in. Each of the joined objects would be closed for
the properties of the others."""


def describes_object(schema: Mapping[str, Any]) -> bool:
    """Returns whether a schema says itself that its values may be objects: it is one that has to be closed."""
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema


def close_objects(schema: Any) -> Json | None:
    """Returns a JSON schema whose objects require all of their properties and have no others.

    The given schema accepts everything that it accepts: a property that is optional and may be null becomes a required
    one. Returns None if there is no such schema that servers enforce: an object has another optional property, may have
    properties of any name, or is joined of several schemas, or a keyword is one that they refuse.
    """
    try:
        return _close(schema) if isinstance(schema, dict) else None
    except (_CannotCloseError, RecursionError):
        return None


class _CannotCloseError(Exception):
    """The closed schema would accept values that the schema refuses, refuse those that the client expects, or be
    refused."""


def _close(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_close(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if not _REFUSED_KEYWORDS.isdisjoint(schema):
        raise _CannotCloseError
    closed = {key: _close_keyword(key, value) for key, value in schema.items() if key not in _DROPPED_KEYWORDS}
    is_object = describes_object(schema)
    if is_object + sum(key in schema for key in _JOINED_SCHEMAS) > 1:
        raise _CannotCloseError
    if is_object:
        properties, required = schema.get("properties"), schema.get("required", [])
        is_open = schema.get("additionalProperties", properties is None) is not False
        properties = {} if properties is None else properties
        if is_open or not (isinstance(properties, dict) and isinstance(required, list)):
            raise _CannotCloseError
        names = {name for name in required if isinstance(name, str)}
        # A closed schema requires each property, so that one which was optional must accept null instead.
        if not names.issubset(properties) or not all(
            name in names or _may_be_null(properties[name]) for name in properties
        ):
            raise _CannotCloseError
        closed |= {"properties": closed.get("properties", {}), "additionalProperties": False}
        if properties:
            closed["required"] = list(properties)
    return closed


def _close_keyword(key: str, value: Any) -> Any:
    if key in ("properties", "$defs", "definitions") and isinstance(value, dict):
        return {name: _close(each) for name, each in value.items()}
    return _close(value) if key in ("items", "anyOf", "prefixItems") else value


def _may_be_null(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return "enum" not in schema or None in schema["enum"]
    return any(_may_be_null(each) for each in schema.get("anyOf") or ())
