"""JSON schemas as the API takes them where it holds a model to one: objects are closed, and limits are only words."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_LIMITS: Final = (
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
"""Refused by the API. https://docs.claude.com/en/docs/build-with-claude/structured-outputs#json-schema-limitations"""

_NAMED: Final = ("properties", "$defs", "definitions")
"""Keys that hold schemas by names of the client's choice."""

_LISTED: Final = ("anyOf", "allOf", "oneOf")


_HARMLESS: Final = (("minItems", 0), ("minItems", 1))
"""Limits the API takes."""


def closed(schema: Mapping[str, Any], param: str, losses: list[Loss]) -> Json:
    """The schema with every object closed, and with limits said in descriptions; both are losses.

    Raises Unrepresentable for one that is nested too deep to be looked at.
    """
    try:
        return _closed(schema, param, losses)
    except RecursionError:
        raise Unrepresentable("this schema is nested too deep", param=param) from None


def _closed(schema: Mapping[str, Any], param: str, losses: list[Loss]) -> Json:
    limits = {
        key: value
        for key, value in schema.items()
        if key in _LIMITS and not any((key, value) == each for each in _HARMLESS)
    }
    told = {key: _inner(key, value, param, losses) for key, value in schema.items() if key not in limits}
    if "oneOf" in told and "anyOf" not in told:
        told["anyOf"] = told.pop("oneOf")
    if _is_object(schema) and schema.get("additionalProperties") is not False:
        told["additionalProperties"] = False
        losses.append(Loss(param, "objects closed"))
    if limits:
        described = schema.get("description")
        told["description"] = f"{described} {_words(limits)}" if described else _words(limits)
        losses.append(Loss(param, "limits described"))
    return told


def _inner(key: str, value: Any, param: str, losses: list[Loss]) -> Any:
    if key in _NAMED and isinstance(value, dict):
        return {name: _any(each, param, losses) for name, each in value.items()}
    if key in _LISTED and isinstance(value, list):
        return [_any(each, param, losses) for each in value]
    return _any(value, param, losses) if key == "items" else value


def _any(value: Any, param: str, losses: list[Loss]) -> Any:
    return _closed(value, param, losses) if isinstance(value, dict) else value


def _words(limits: Json) -> str:
    return orjson.dumps(limits).decode()


def _is_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema
