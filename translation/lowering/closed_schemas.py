"""Closes the objects of JSON schemas, as OpenAI's servers demand of schemas that they enforce (`strict`)."""

from typing import Any

from translation.representation.json_types import Json


def close_objects(schema: Any) -> Json | None:
    """Returns a JSON schema whose objects require all of their properties and have no others.

    The given schema accepts everything that it accepts: a property that is optional and may be null becomes a required
    one. Returns None if there is no such schema: an object has another optional property, or may have properties of any
    name.
    """
    try:
        return _close(schema) if isinstance(schema, dict) else None
    except (_CannotCloseError, RecursionError):
        return None


class _CannotCloseError(Exception):
    """The closed schema would accept values that the schema refuses, or refuse values that the client expects."""


def _close(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_close(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _close_keyword(key, value) for key, value in schema.items()}
    if schema.get("type") == "object" or "properties" in schema:
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
    return _close(value) if key in ("items", "anyOf", "allOf", "oneOf", "prefixItems") else value


def _may_be_null(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return "enum" not in schema or None in schema["enum"]
    return any(_may_be_null(each) for each in schema.get("anyOf") or ())
