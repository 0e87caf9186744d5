"""Finds the keywords of a schema that llama.cpp silently ignores.

llama.cpp has two implementations of schemas. Every server has its own converter, and chat always uses it. Some servers
are also built with llguidance, which requests in token ids may use.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from providers.engines.servers.schema_bounds import iter_subschemas
from translation.representation.json_types import mapping_or_empty

_NEVER_ENFORCED: Final = (
    *("not", "if", "dependentRequired", "dependentSchemas", "dependencies", "propertyNames", "unevaluatedProperties"),
    *("uniqueItems", "contains", "unevaluatedItems"),
)
"""Keywords that neither implementation enforces."""

_NOT_CONVERTED: Final = ("minProperties", "maxProperties", "patternProperties", "additionalItems", "multipleOf")

_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

_CONVERTER_FORMATS: Final = re.compile(r"date|time|date-time|uuid[1-5]?")
_LLGUIDANCE_FORMATS: Final = re.compile(r"date|time|date-time|duration|email|hostname|ipv4|ipv6|uuid")

_CONVERTER_PATTERN: Final = re.compile(r"\^(?:[^\\]|\\[^bBpPkK1-9])*\$", re.DOTALL)
_UNSUPPORTED_GROUPS: Final = re.compile(r"(?<!\\)\(\?(?!:)|\[\[:")
"""Kinds of groups and character classes that the converter does not support."""

_EXCLUSIVE_KEYWORDS: Final = ("$ref", "oneOf", "anyOf")
"""Keywords beside which the converter ignores the other keywords of their schema."""

_IGNORED_BESIDE_EXCLUSIVE: Final = (
    "properties",
    "required",
    "items",
    "pattern",
    "minLength",
    "maxLength",
    "allOf",
    *_BOUNDS,
)

_NEUTRAL_VALUES: Final[Mapping[str, Any]] = {
    "additionalItems": True,
    "minLength": 0,
    "minProperties": 0,
    "required": [],
    "unevaluatedItems": True,
    "unevaluatedProperties": True,
    "uniqueItems": False,
}
"""Keyword -> the value with which it requires nothing."""


def list_unenforced_keywords(schema: Any, *, uses_llguidance: bool) -> list[str]:
    """Returns the keywords that llama.cpp will not enforce, without duplicates, in the order of the schema. With
    `uses_llguidance` the schema goes through llguidance in lenient mode, else through the converter."""
    keywords: dict[str, None] = {}
    for subschema in iter_subschemas(schema):
        keywords |= dict.fromkeys(
            _list_ignored_by_llguidance(subschema) if uses_llguidance else _list_ignored_by_converter(subschema)
        )
    return list(keywords)


def _list_ignored_by_llguidance(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from _select_effective_keywords(schema, _NEVER_ENFORCED)
    if _has_other_format(schema, _LLGUIDANCE_FORMATS):
        yield "format"
    if not set(mapping_or_empty(schema.get("properties"))) <= set(_list_strings(schema.get("required"))):
        yield from _select_effective_keywords(schema, ("minProperties", "maxProperties"))


def _list_ignored_by_converter(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from _select_effective_keywords(schema, (*_NEVER_ENFORCED, *_NOT_CONVERTED))
    if any(keyword in schema for keyword in _EXCLUSIVE_KEYWORDS):
        yield from _select_effective_keywords(schema, _IGNORED_BESIDE_EXCLUSIVE)
        return
    if not _is_integer_type(schema.get("type")):
        yield from _select_effective_keywords(schema, _BOUNDS)
    yield from _list_ignored_by_strings(schema)
    if "items" in schema:
        yield from _select_effective_keywords(schema, ("prefixItems",))
    if "properties" in schema:
        yield from _select_effective_keywords(schema, ("allOf",))
    if not set(_list_strings(schema.get("required"))) <= set(mapping_or_empty(schema.get("properties"))):
        yield "required"


def _list_ignored_by_strings(schema: Mapping[str, Any]) -> Iterator[str]:
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        if _CONVERTER_PATTERN.fullmatch(pattern) is None or _UNSUPPORTED_GROUPS.search(pattern):
            yield "pattern"
        yield from _select_effective_keywords(schema, ("minLength", "maxLength", "format"))
    elif _has_other_format(schema, _CONVERTER_FORMATS):
        yield "format"


def _is_integer_type(kind: Any) -> bool:
    """Whether all numbers of this type are whole. The converter ignores the bounds of other types."""
    return kind == "integer" or (isinstance(kind, list) and "integer" in kind and "number" not in kind)


def _has_other_format(schema: Mapping[str, Any], known: re.Pattern[str]) -> bool:
    format = schema.get("format")
    return isinstance(format, str) and known.fullmatch(format) is None


def _select_effective_keywords(schema: Mapping[str, Any], keywords: Sequence[str]) -> Iterator[str]:
    for keyword in keywords:
        if keyword in schema and (keyword not in _NEUTRAL_VALUES or schema[keyword] != _NEUTRAL_VALUES[keyword]):
            yield keyword


def _list_strings(value: Any) -> list[Any]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []
