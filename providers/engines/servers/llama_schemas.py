"""What llama.cpp leaves out of a schema without a word. It has two readers of schemas: a converter of its own, which
every server has and chat always goes through, and llguidance, which some are built with and tokens may go through."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from providers.engines.servers.subschemas import schema_parts
from translation.representation.json_types import mapping_in

_NOBODYS: Final = (
    *("not", "if", "dependentRequired", "dependentSchemas", "dependencies", "propertyNames", "unevaluatedProperties"),
    *("uniqueItems", "contains", "unevaluatedItems"),
)
"""Keywords that neither reader knows."""

_NOT_THE_CONVERTERS: Final = ("minProperties", "maxProperties", "patternProperties", "additionalItems", "multipleOf")

_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

_FORMATS: Final = re.compile(r"date|time|date-time|uuid[1-5]?")
_GUIDED_FORMATS: Final = re.compile(r"date|time|date-time|duration|email|hostname|ipv4|ipv6|uuid")

_PATTERN: Final = re.compile(r"\^(?:[^\\]|\\[^bBpPkK1-9])*\$", re.DOTALL)
_GROUPS: Final = re.compile(r"(?<!\\)\(\?(?!:)|\[\[:")
"""Kinds of groups and classes that it does not read."""

_INSTEAD: Final = ("$ref", "oneOf", "anyOf")
"""Keywords that the converter takes for the whole of their schema."""

_BESIDES: Final = ("properties", "required", "items", "pattern", "minLength", "maxLength", "allOf", *_BOUNDS)

_NOTHING: Final[Mapping[str, Any]] = {
    "additionalItems": True,
    "minLength": 0,
    "minProperties": 0,
    "required": [],
    "unevaluatedItems": True,
    "unevaluatedProperties": True,
    "uniqueItems": False,
}
"""Keyword -> the value with which it asks for nothing."""


def left_out(schema: Any, *, guided: bool) -> list[str]:
    """The keywords whose word will not hold, in order. `guided`: it goes through llguidance, told to be lenient."""
    found: dict[str, None] = {}
    for part in schema_parts(schema):
        found |= dict.fromkeys(_by_guidance(part) if guided else _by_converter(part))
    return list(found)


def _by_guidance(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from _given(schema, _NOBODYS)
    if _has_other_format(schema, _GUIDED_FORMATS):
        yield "format"
    if not set(mapping_in(schema.get("properties"))) <= set(_list(schema.get("required"))):
        yield from _given(schema, ("minProperties", "maxProperties"))


def _by_converter(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from _given(schema, (*_NOBODYS, *_NOT_THE_CONVERTERS))
    if any(keyword in schema for keyword in _INSTEAD):
        yield from _given(schema, _BESIDES)
        return
    if not _is_whole(schema.get("type")):
        yield from _given(schema, _BOUNDS)
    yield from _of_text(schema)
    if "items" in schema:
        yield from _given(schema, ("prefixItems",))
    if "properties" in schema:
        yield from _given(schema, ("allOf",))
    if not set(_list(schema.get("required"))) <= set(mapping_in(schema.get("properties"))):
        yield "required"


def _of_text(schema: Mapping[str, Any]) -> Iterator[str]:
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        if _PATTERN.fullmatch(pattern) is None or _GROUPS.search(pattern):
            yield "pattern"
        yield from _given(schema, ("minLength", "maxLength", "format"))
    elif _has_other_format(schema, _FORMATS):
        yield "format"


def _is_whole(kind: Any) -> bool:
    """Whether a number of this type is a whole one: of others the converter does not read the bounds."""
    return kind == "integer" or (isinstance(kind, list) and "integer" in kind and "number" not in kind)


def _has_other_format(schema: Mapping[str, Any], known: re.Pattern[str]) -> bool:
    format = schema.get("format")
    return isinstance(format, str) and known.fullmatch(format) is None


def _given(schema: Mapping[str, Any], keywords: Sequence[str]) -> Iterator[str]:
    for keyword in keywords:
        if keyword in schema and (keyword not in _NOTHING or schema[keyword] != _NOTHING[keyword]):
            yield keyword


def _list(value: Any) -> list[Any]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
