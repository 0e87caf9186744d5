"""Adapts JSON schemas to the subset that the API enforces: objects are closed, limits are only described."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_LIMIT_KEYWORDS: Final = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
)
"""Keywords that the API refuses.
https://docs.claude.com/en/docs/build-with-claude/structured-outputs#json-schema-limitations"""

_NAMED_SUBSCHEMAS: Final = ("properties", "$defs", "definitions")
"""Keywords whose value maps names of the client's choice to schemas."""

_LISTED_SUBSCHEMAS: Final = ("anyOf", "allOf", "oneOf")


_ACCEPTED_LIMITS: Final = (("minItems", 0), ("minItems", 1))
"""(keyword, value) of limits that the API accepts."""


class JoinedObjects(Exception):
    """An object of a schema is joined of several schemas. If each of them were closed, nothing would fit all."""


def close_schema(schema: Mapping[str, Any], param: str, losses: list[Loss]) -> Json:
    """Returns a schema with every object closed and with limits moved to descriptions. Both are losses of `param`.

    Raises JoinedObjects, and Unrepresentable for a schema that is nested too deep to be processed.
    """
    try:
        return _close_objects(schema, param, losses)
    except RecursionError:
        raise Unrepresentable("this schema is nested too deep", param=param) from None


def _close_objects(schema: Mapping[str, Any], param: str, losses: list[Loss]) -> Json:
    if _joins_objects(schema):
        raise JoinedObjects
    limits = {
        key: value
        for key, value in schema.items()
        if key in _LIMIT_KEYWORDS and not any((key, value) == accepted for accepted in _ACCEPTED_LIMITS)
    }
    result = {key: _close_keyword(key, value, param, losses) for key, value in schema.items() if key not in limits}
    if "oneOf" in result and "anyOf" not in result:
        result["anyOf"] = result.pop("oneOf")
    if _is_object(schema) and schema.get("additionalProperties") is not False:
        result["additionalProperties"] = False
        losses.append(Loss(param, "objects closed"))
    if limits:
        description = schema.get("description")
        result["description"] = f"{description} {_describe_limits(limits)}" if description else _describe_limits(limits)
        losses.append(Loss(param, "limits described"))
    return result


def _close_keyword(key: str, value: Any, param: str, losses: list[Loss]) -> Any:
    if key in _NAMED_SUBSCHEMAS and isinstance(value, dict):
        return {name: _close_value(subschema, param, losses) for name, subschema in value.items()}
    if key in _LISTED_SUBSCHEMAS and isinstance(value, list):
        return [_close_value(subschema, param, losses) for subschema in value]
    return _close_value(value, param, losses) if key == "items" else value


def _close_value(value: Any, param: str, losses: list[Loss]) -> Any:
    return _close_objects(value, param, losses) if isinstance(value, dict) else value


def _describe_limits(limits: Json) -> str:
    return orjson.dumps(limits).decode()


def _joins_objects(schema: Mapping[str, Any]) -> bool:
    """Returns whether an object is what several schemas say together, and more than one of them would be closed."""
    parts = [each for key in _LISTED_SUBSCHEMAS for each in _list_parts(schema, key)]
    return _is_object(schema) + ("$ref" in schema) + sum(map(_may_be_closed, parts)) > 1


def _list_parts(schema: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """Returns the schemas of a keyword that all count. Of choices only one does: the first that may be closed."""
    listed = _list_schemas(schema.get(key))
    return listed if key == "allOf" else list(filter(_may_be_closed, listed))[:1]


def _may_be_closed(schema: Mapping[str, Any]) -> bool:
    if "$ref" in schema or _is_object(schema):
        return True
    return any(_may_be_closed(each) for key in _LISTED_SUBSCHEMAS for each in _list_schemas(schema.get(key)))


def _list_schemas(listed: Any) -> list[Mapping[str, Any]]:
    return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []


def _is_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema
