"""Reduces JSON schemas to the keywords that Gemini reads.

https://ai.google.dev/api/generate-content#FIELDS.response_json_schema
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_IGNORED_KEYWORDS: Final = frozenset({"$schema", "$comment", "$vocabulary"})
"""Keywords without a meaning for values. Dropping them is no loss."""

_COPIED_KEYWORDS: Final = frozenset(
    {
        "$anchor",
        "$id",
        "additionalProperties",
        "description",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "propertyOrdering",
        "title",
    }
)

_KNOWN_FORMATS: Final = frozenset({"date-time", "date", "time", "enum", "float", "double", "int32", "int64"})
"""Values of `format` that the API accepts."""


def reduce_schema(schema: Json, param: str, losses: list[Loss]) -> Json:
    """Returns an equivalent schema with the keywords that Gemini reads. Every other keyword is a loss of `param`.

    `schema` is not changed. Raises InvalidRequest for what is not a JSON schema or is nested too deep.
    """
    dropped: dict[str, None] = {}
    try:
        result = _SchemaReducer(dropped).reduce(schema)
    except RecursionError:
        raise InvalidRequest("This schema is nested too deep.", param=param) from None
    except (AttributeError, TypeError, ValueError):
        raise InvalidRequest("This is not a JSON schema.", param=param) from None
    losses += [Loss(param, f"{keyword} dropped") for keyword in dropped]
    return result


class _SchemaReducer:
    def __init__(self, dropped: dict[str, None]) -> None:
        self._dropped = dropped
        """Keywords that were dropped, each once, in order."""

    def reduce(self, schema: Any) -> Json:
        if schema is True:
            return {}
        if schema is False:
            self._drop_keyword("false")
            return {}
        whole = self._merge_all_of(schema)
        result: Json = {}
        for keyword, value in whole.items():
            if keyword in _KEYWORD_HANDLERS:
                _KEYWORD_HANDLERS[keyword](self, value, whole, result)
            elif keyword in _COPIED_KEYWORDS:
                result[keyword] = self.reduce(value) if isinstance(value, dict) else value
            elif keyword not in _IGNORED_KEYWORDS:
                self._drop_keyword(keyword)
        return self._isolate_reference(result)

    def _merge_all_of(self, schema: Json) -> Json:
        """Merges the schemas in `allOf` into the one around them, which wins where two have the same keyword."""
        if schema.get("allOf") is None:
            return schema
        # In place: a copy for each part would make many parts take the square of their number.
        whole: Json = {}
        required: dict[str, None] = {}
        parts: list[Json] = []
        _collect_parts(schema, parts)
        for part in parts:
            for key, value in part.items():
                if key in ("properties", "$defs", "definitions"):
                    before = whole.setdefault(key, {})
                    if any(before[name] != value[name] for name in before.keys() & value.keys()):
                        self._drop_keyword(f"allOf.{key}")
                    before |= {**value}
                elif key == "required":
                    required |= dict.fromkeys(value)
                    whole[key] = required
                else:
                    if key in whole and whole[key] != value:
                        self._drop_keyword(f"allOf.{key}")
                    whole[key] = value
        return whole if "required" not in whole else {**whole, "required": list(required)}

    def add_properties(self, value: Json, _: Json, result: Json) -> None:
        result["properties"] = {name: self.reduce(subschema) for name, subschema in value.items()}

    def add_definitions(self, value: Json, _: Json, result: Json) -> None:
        result["$defs"] = {
            **result.get("$defs", {}),
            **{name: self.reduce(subschema) for name, subschema in value.items()},
        }

    def add_reference(self, value: str, _: Json, result: Json) -> None:
        result["$ref"] = value.replace("#/definitions/", "#/$defs/")

    def add_items(self, value: Any, _: Json, result: Json) -> None:
        if isinstance(value, list):
            result["prefixItems"] = list(map(self.reduce, value))
        else:
            result["items"] = self.reduce(value)

    def add_prefix_items(self, value: list[Any], _: Json, result: Json) -> None:
        result["prefixItems"] = list(map(self.reduce, value))

    def add_any_of(self, value: list[Any], _: Json, result: Json) -> None:
        if "anyOf" in result:
            self._drop_keyword("oneOf beside anyOf")
        result.setdefault("anyOf", list(map(self.reduce, value)))

    def add_required(self, value: list[str], whole: Json, result: Json) -> None:
        known = [name for name in value if name in (whole.get("properties") or {})]
        if known:
            result["required"] = known
        if len(known) < len(value):
            self._drop_keyword("required without a property")

    def add_type(self, value: Any, _: Json, result: Json) -> None:
        result.setdefault("type", value)

    def add_const(self, value: Any, _: Json, result: Json) -> None:
        if _is_enum_value(value):
            result["enum"] = [value]
        else:
            self._drop_keyword("const")

    def add_enum(self, value: list[Any], whole: Json, result: Json) -> None:
        listed = [entry for entry in value if entry is not None]
        if not listed or not all(map(_is_enum_value, listed)):
            return self._drop_keyword("enum")
        result["enum"] = listed
        if len(listed) < len(value) and not isinstance(kind := whole.get("type"), list):
            kinds = dict.fromkeys(map(_name_type, listed)) if kind is None else [kind]
            result["type"] = [*kinds, "null"]
        return None

    def add_format(self, value: str, _: Json, result: Json) -> None:
        if value in _KNOWN_FORMATS:
            result["format"] = value
        else:
            self._drop_keyword(f"format {value}")

    def add_exclusive_minimum(self, value: Any, whole: Json, result: Json) -> None:
        self._add_bound("exclusiveMinimum", "minimum", value, 1, whole, result)

    def add_exclusive_maximum(self, value: Any, whole: Json, result: Json) -> None:
        self._add_bound("exclusiveMaximum", "maximum", value, -1, whole, result)

    def _add_bound(
        self, keyword: str, inclusive_keyword: str, value: Any, step: int, whole: Json, result: Json
    ) -> None:
        if whole.get("type") == "integer" and type(value) is int and inclusive_keyword not in whole:
            result[inclusive_keyword] = value + step
        else:
            self._drop_keyword(keyword)

    def _isolate_reference(self, schema: Json) -> Json:
        """Moves `$ref` into an `anyOf` if needed, because the API allows only keywords with a `$` beside it."""
        if "$ref" not in schema or all(keyword.startswith("$") for keyword in schema):
            return schema
        beside = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
        if "anyOf" in beside:
            self._drop_keyword("$ref beside anyOf")
            return beside
        # Definitions stay where they are, because references name their place.
        return {"anyOf": [{"$ref": schema["$ref"]}], **beside}

    def _drop_keyword(self, keyword: str) -> None:
        self._dropped[keyword] = None


def _collect_parts(schema: Json, parts: list[Json]) -> None:
    """Appends the schemas in `allOf`, also in those of its own, to `parts`, and then the schema around them."""
    for part in schema.get("allOf") or ():
        _collect_parts(part, parts)
    parts.append({key: value for key, value in schema.items() if key != "allOf"})


def _is_enum_value(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _name_type(value: str | float) -> str:
    return "string" if isinstance(value, str) else "integer" if isinstance(value, int) else "number"


_KeywordHandler = Callable[[_SchemaReducer, Any, Json, Json], None]

_KEYWORD_HANDLERS: Final[Mapping[str, _KeywordHandler]] = {
    "$defs": _SchemaReducer.add_definitions,
    "$ref": _SchemaReducer.add_reference,
    "anyOf": _SchemaReducer.add_any_of,
    "const": _SchemaReducer.add_const,
    "definitions": _SchemaReducer.add_definitions,
    "enum": _SchemaReducer.add_enum,
    "exclusiveMaximum": _SchemaReducer.add_exclusive_maximum,
    "exclusiveMinimum": _SchemaReducer.add_exclusive_minimum,
    "format": _SchemaReducer.add_format,
    "items": _SchemaReducer.add_items,
    "oneOf": _SchemaReducer.add_any_of,
    "prefixItems": _SchemaReducer.add_prefix_items,
    "properties": _SchemaReducer.add_properties,
    "required": _SchemaReducer.add_required,
    "type": _SchemaReducer.add_type,
}
