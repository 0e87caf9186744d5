"""Replies of the type `text/x.enum`: one of the values that a schema lists, as plain text.

Other APIs have schemas for JSON alone, some of them only for objects. So the model replies with an object that has the
value, and the client gets the value.
"""

from typing import Final

import orjson

from translation.errors import InvalidRequest
from translation.representation.json_types import Json, mapping_or_empty

ENUM_TYPE: Final = "text/x.enum"

_KEY: Final = "value"


def requests_enum(body: Json) -> bool:
    """Whether the client of a request asked for one of several values."""
    return mapping_or_empty(body.get("generationConfig")).get("responseMimeType") == ENUM_TYPE


def wrap_enum(schema: Json | None) -> Json:
    """Returns the JSON schema of an object with one of the values. Raises InvalidRequest if the schema lists none."""
    if not schema or not schema.get("enum"):
        raise InvalidRequest(
            f"The type {ENUM_TYPE!r} needs a schema with an 'enum'.", param="generationConfig.responseMimeType"
        )
    return {"type": "object", "properties": {_KEY: schema}, "required": [_KEY], "additionalProperties": False}


def unwrap_enum(text: str) -> str:
    """Returns the value in a model's reply. A reply that is not such an object is returned unchanged."""
    try:
        reply = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    value = reply.get(_KEY) if isinstance(reply, dict) else None
    return value if isinstance(value, str) else text
