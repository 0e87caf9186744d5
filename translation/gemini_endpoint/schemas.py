"""Converts the API's schemas, a subset of OpenAPI's, to JSON schemas."""

from typing import Any, Final

from translation.representation.json_types import Json

_COPIED: Final = (
    "title",
    "description",
    "enum",
    "default",
    "required",
    "minimum",
    "maximum",
    "pattern",
    "additionalProperties",
)

_COUNTS: Final = ("minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength")
"""Numbers that may be texts, as 64-bit integers are in the JSON of protocol buffers."""

_REFERENCES: Final = ("ref", "$ref")

_DEFINITIONS: Final = ("defs", "$defs")

_ENUM_FORMAT: Final = "enum"
"""A format that only says that there is an `enum`."""


def lift_schema(schema: Json) -> Json:
    """Returns the JSON schema for a schema of the API. The order of properties is that of `propertyOrdering`."""
    lifted: Json = {}
    kind = schema.get("type")
    if kind and kind != "TYPE_UNSPECIFIED":
        lifted["type"] = [kind.lower(), "null"] if schema.get("nullable") else kind.lower()
    lifted |= {key: schema[key] for key in _COPIED if key in schema}
    lifted |= {key: _read_count(schema[key]) for key in _COUNTS if key in schema}
    if reference := next((schema[key] for key in _REFERENCES if key in schema), None):
        lifted["$ref"] = reference
    if "example" in schema:
        lifted["examples"] = [schema["example"]]
    if schema.get("nullable") and "enum" in lifted:
        lifted["enum"] = [*lifted["enum"], None]
    if schema.get("format") not in (None, _ENUM_FORMAT):
        lifted["format"] = schema["format"]
    if "properties" in schema:
        lifted["properties"] = {name: lift_schema(schema["properties"][name]) for name in _order_properties(schema)}
    if "items" in schema:
        lifted["items"] = lift_schema(schema["items"])
    for key in ("anyOf", "prefixItems"):
        if key in schema:
            lifted[key] = [lift_schema(each) for each in schema[key]]
    for key in _DEFINITIONS:
        if key in schema:
            lifted["$defs"] = {name: lift_schema(each) for name, each in schema[key].items()}
    if schema.get("nullable") and "type" not in lifted and "anyOf" in lifted:
        lifted["anyOf"].append({"type": "null"})
    return lifted


def _order_properties(schema: Json) -> list[str]:
    ordered = [name for name in schema.get("propertyOrdering") or () if name in schema["properties"]]
    return list(dict.fromkeys([*ordered, *schema["properties"]]))


def _read_count(value: int | str) -> Any:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def close_objects(schema: Any) -> Json | None:
    """Returns a JSON schema whose objects have no other properties than theirs, as strict upstreams demand.

    None if that would change what it accepts: an object has optional properties, or is said to have others.
    """
    try:
        return _close(schema) if isinstance(schema, dict) else None
    except _CannotCloseError:
        return None


class _CannotCloseError(Exception):
    """Closing a schema would change what it accepts."""


def _close(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_close(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _close_keyword(key, value) for key, value in schema.items()}
    if schema.get("type") == "object" or "properties" in schema:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not (isinstance(properties, dict) and isinstance(required, list)):
            raise _CannotCloseError
        is_open = schema.get("additionalProperties", False) is not False
        names = {name for name in required if isinstance(name, str)}
        if is_open or len(required) != len(properties) or not names.issuperset(properties):
            raise _CannotCloseError
        closed |= {"properties": closed.get("properties", {}), "additionalProperties": False}
    return closed


def _close_keyword(key: str, value: Any) -> Any:
    if key in ("properties", "$defs", "definitions") and isinstance(value, dict):
        return {name: _close(each) for name, each in value.items()}
    return _close(value) if key in ("items", "anyOf", "allOf", "oneOf", "prefixItems") else value
