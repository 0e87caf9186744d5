"""Converts the API's schemas, a subset of OpenAPI's, to JSON schemas."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import orjson

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
)

_COUNTS: Final = ("minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength")
"""Numbers that may be texts, as 64-bit integers are in the JSON of protocol buffers."""

_REFERENCES: Final = ("ref", "$ref")

_API_DEFINITIONS: Final = "defs"
_DEFINITIONS: Final = (_API_DEFINITIONS, "$defs")

_API_REFERENCE: Final = f"#/{_API_DEFINITIONS}/"
"""The beginning of a reference to them. In JSON schemas they are in `$defs`."""

_PARSED_TYPES: Final[Mapping[str, tuple[type, ...]]] = {"integer": (int,), "number": (int, float), "boolean": (bool,)}
"""Types whose values are no texts, and the types of their values here."""

_ENUM_FORMAT: Final = "enum"
"""A format that only announces an `enum`."""


def lift_schema(schema: Json) -> Json:
    """Returns the JSON schema for a schema of the API. Its properties have the order of `propertyOrdering`."""
    return _lift_part(schema, renames_defs=has_api_definitions(schema))


def has_api_definitions(schema: Json) -> bool:
    """Returns whether a whole schema has `defs`. A property may have that name too, and is no definition."""
    return _API_DEFINITIONS in schema


def _lift_part(schema: Json, *, renames_defs: bool) -> Json:
    """Returns the JSON schema for a schema or one within it. `renames_defs`: the whole schema has `defs`, which become
    `$defs`, so that references to them change too."""
    lift = partial(_lift_part, renames_defs=renames_defs)
    lifted: Json = {}
    kind = schema.get("type")
    if kind and kind != "TYPE_UNSPECIFIED":
        lifted["type"] = [kind.lower(), "null"] if schema.get("nullable") else kind.lower()
    lifted |= {key: schema[key] for key in _COPIED if key in schema}
    if "enum" in lifted and isinstance(kind, str) and (types := _PARSED_TYPES.get(kind.lower())) is not None:
        lifted["enum"] = [_parse_member(member, types) for member in lifted["enum"]]
    lifted |= {key: _read_count(schema[key]) for key in _COUNTS if key in schema}
    if reference := next((schema[key] for key in _REFERENCES if key in schema), None):
        lifted["$ref"] = _rename_defs(reference) if renames_defs else reference
    if "example" in schema:
        lifted["examples"] = [schema["example"]]
    # In JSON Schema, values that are not listed are refused, null too.
    if schema.get("nullable") and "enum" in lifted:
        lifted["enum"] = [*lifted["enum"], None]
    if schema.get("format") not in (None, _ENUM_FORMAT):
        lifted["format"] = schema["format"]
    if "properties" in schema:
        lifted["properties"] = {name: lift(schema["properties"][name]) for name in _order_properties(schema)}
    if "items" in schema:
        lifted["items"] = lift(schema["items"])
    if "additionalProperties" in schema:
        others = schema["additionalProperties"]
        lifted["additionalProperties"] = lift(others) if isinstance(others, dict) else others
    for key in ("anyOf", "prefixItems"):
        if key in schema:
            lifted[key] = [lift(each) for each in schema[key]]
    for key in _DEFINITIONS:
        if key in schema:
            lifted.setdefault("$defs", {}).update({name: lift(each) for name, each in schema[key].items()})
    # Without a type beside it, null is one more alternative.
    if schema.get("nullable") and "type" not in lifted and "anyOf" in lifted:
        lifted["anyOf"].append({"type": "null"})
    return lifted


def _rename_defs(reference: Any) -> Any:
    """Returns a reference to where the definitions of the API are in the JSON schema."""
    if not isinstance(reference, str) or not reference.startswith(_API_REFERENCE):
        return reference
    return f"#/$defs/{reference.removeprefix(_API_REFERENCE)}"


def _parse_member(member: Any, types: tuple[type, ...]) -> Any:
    """Returns a value of an `enum`, which the API writes as a text whatever its type is. A text that is no such value
    is returned unchanged. Source: https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/Schema
    """
    try:
        value = orjson.loads(member)
    except orjson.JSONDecodeError:
        return member
    return value if type(value) in types else member


def _order_properties(schema: Json) -> list[str]:
    ordered = [name for name in schema.get("propertyOrdering") or () if name in schema["properties"]]
    return list(dict.fromkeys([*ordered, *schema["properties"]]))


def _read_count(value: int | str) -> Any:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
