"""Replies that are one value and not an object: lists, numbers, and the type `text/x.enum`.

OpenAI's and Anthropic's servers accept schemas of objects only. So the model replies with an object that has the value,
and the client gets the value.
"""

import re
from typing import Any, Final, Literal, TypeAlias

import orjson

from translation.errors import InvalidRequest
from translation.gemini.client.json_schemas import has_api_definitions
from translation.representation.json_types import Json, mapping_or_empty

ENUM_TYPE: Final = "text/x.enum"

_MIME_PARAM: Final = "generationConfig.responseMimeType"

_KEY: Final = "value"

_DEFINITIONS: Final = ("$defs", "definitions")
"""Keys of what a schema refers to, by its place at the top."""

_REFERENCE_BESIDE: Final = rb'"(?:\$ref|ref)":"#(?!/(?:%b)/)'

_OTHER_REFERENCE: Final = re.compile(_REFERENCE_BESIDE % rb"\$defs|definitions")
"""A reference to a place that a schema no longer has inside another one."""

_OTHER_API_REFERENCE: Final = re.compile(_REFERENCE_BESIDE % rb"\$defs|definitions|defs")
"""The same in a schema of the API with `defs`, which become `$defs`."""

_REPLY_HEAD: Final = re.compile(rf'\{{\s*"{_KEY}"\s*:')
"""The beginning of a reply. What follows is no part of the pattern: a lazy group between optional white space takes the
cube of the length of a long run of it, which models write that do not find the end of their JSON."""

ValueForm: TypeAlias = Literal["text", "json"]
"""How the client gets the value: a string without its quotes and a number as it is, or any value as JSON."""


def find_value_form(body: Json) -> ValueForm | None:
    """Returns the form of the value that a request asks for; None if it asks for an object, or for any text."""
    config = mapping_or_empty(body.get("generationConfig"))
    mime_type = config.get("responseMimeType")
    if mime_type == ENUM_TYPE:
        return "text"
    json_schema = config.get("responseJsonSchema")
    schema = json_schema or config.get("responseSchema")
    if mime_type != "application/json" or not isinstance(schema, dict) or _is_object(schema):
        return None
    renames_defs = not json_schema and has_api_definitions(schema)
    other = _OTHER_API_REFERENCE if renames_defs else _OTHER_REFERENCE
    return None if other.search(orjson.dumps(schema)) else "json"


def _is_object(schema: Json) -> bool:
    """Whether a schema is of objects, or may be for all that its top says. It is a JSON schema or one of the API."""
    kind: Any = schema.get("type")
    if schema.get("nullable"):
        return False
    if isinstance(kind, str):
        return kind.lower() in ("object", "type_unspecified")
    return kind is None and "anyOf" not in schema


def wrap_value(schema: Json) -> Json:
    """Returns the JSON schema of an object with a value."""
    value = {key: inner for key, inner in schema.items() if key not in _DEFINITIONS}
    wrapped = {"type": "object", "properties": {_KEY: value}, "required": [_KEY], "additionalProperties": False}
    return wrapped | {key: schema[key] for key in _DEFINITIONS if key in schema}


def require_enum(schema: Json | None) -> None:
    """Raises InvalidRequest if a schema lists no values."""
    if not schema or not schema.get("enum"):
        raise InvalidRequest(f"The type {ENUM_TYPE!r} needs a schema with an 'enum'.", param=_MIME_PARAM)


def unwrap_value(text: str, form: ValueForm) -> str:
    """Returns the value in a model's reply. A reply that is not such an object is returned unchanged."""
    reply = text.strip()
    head = _REPLY_HEAD.match(reply)
    if head is None or not reply.endswith("}"):
        return text
    written = reply[head.end() : -1].strip()
    try:
        value = orjson.loads(written)
    except orjson.JSONDecodeError:
        return text
    if form == "json":
        return written
    if isinstance(value, bool | int | float):
        return written
    return value if isinstance(value, str) else text
