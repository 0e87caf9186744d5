"""Adapts the schemas of tools to APIs that require an object without `anyOf`, `oneOf` or `allOf` at the top.

The properties of all choices are merged into one object, so that arguments have the shape of the client's schema. A
merged schema accepts everything that fits one choice and has no properties of others, and some more.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_UNION_KEYWORDS: Final = ("anyOf", "oneOf")

COMBINING_KEYWORDS: Final = (*_UNION_KEYWORDS, "allOf")
"""Keywords that join schemas. APIs that refuse them at the top of a schema accept them further down."""


_MAX_VALUES: Final = 10_000
"""The most choices and properties that a schema may stand for. References of a short one can stand for millions."""


_MAX_MERGED: Final = 300_000
"""The most properties that are merged on all levels together: each level of choices merges those within it again."""


class _TooManyValues(Exception):
    """A schema stands for more than `_MAX_VALUES` or `_MAX_MERGED`."""


class _ObjectSchema(NamedTuple):
    properties: Json
    hints: Json
    """Properties that only some choices have. Their schemas describe them, but other choices do not require that."""
    required: Sequence[str]


def to_object_schema(
    schema: Mapping[str, Any], param: str, losses: list[Loss], refused_at_top: Sequence[str] = COMBINING_KEYWORDS
) -> Json:
    """Returns an equivalent schema with an object at its top. Changes are losses of `param`. `schema` is not changed.

    `refused_at_top`: combining keywords, or `$ref`, that the API does not read at the top. What each choice requires is
    added to the description. Raises Unrepresentable for a schema that is nested too deep or too large to be processed.
    """
    result: Json = {"type": "object", "properties": {}, **schema}
    refused = [key for key in refused_at_top if key in result]
    if result["type"] != "object":
        losses.append(Loss(param, "made an object"))
        result["type"] = "object"
    if not refused:
        return result
    losses += [Loss(param, f"{key} merged") for key in refused]
    try:
        merged = _SchemaMerger(result).merge(result)
    except RecursionError:
        raise Unrepresentable("this schema is nested too deep", param=param) from None
    except _TooManyValues:
        raise Unrepresentable(
            f"this schema stands for more than {_MAX_VALUES} choices and properties", param=param
        ) from None
    result = {key: value for key, value in result.items() if key not in (*COMBINING_KEYWORDS, "$ref", "required")}
    result["properties"] = {**merged.hints, **merged.properties}
    if merged.required:
        result["required"] = merged.required
    if requirements := _describe_choices(schema):
        description = result.get("description")
        result["description"] = f"{description} {requirements}" if description else requirements
    return result


class _SchemaMerger:
    def __init__(self, root: Json) -> None:
        self._root = root
        self._open_references: list[str] = []
        """References that are being resolved, to detect cycles."""
        self._value_count = 0
        self._merged_count = 0
        self._comparer = _SchemaComparer()

    def merge(self, schema: Json) -> _ObjectSchema:
        """Returns the properties of a schema and of everything that it combines, and which of them are required."""
        properties = _dict_or_empty(schema.get("properties"))
        self._value_count += 1 + len(properties)
        if self._value_count > _MAX_VALUES:
            raise _TooManyValues
        parts = [_ObjectSchema(properties, {}, _required_names(schema))]
        parts += self._resolve_reference(schema.get("$ref"))
        parts += self._merge_each(schema.get("allOf"))
        parts += [
            self._merge_any_of(choices) for key in _UNION_KEYWORDS if (choices := self._merge_each(schema.get(key)))
        ]
        return _merge_all_of(parts)

    def _merge_each(self, schemas: Any) -> list[_ObjectSchema]:
        return [
            self.merge(schema)
            for schema in _list_or_empty(schemas)
            if isinstance(schema, dict) and _may_be_object(schema)
        ]

    def _merge_any_of(self, parts: Sequence[_ObjectSchema]) -> _ObjectSchema:
        properties: Json = {}
        hints: Json = {}
        known: dict[str, list[Any]] = {name: [] for part in parts for name in (*part.properties, *part.hints)}
        for part in parts:
            for name, schema in {**part.hints, **part.properties}.items():
                known[name].append(schema)
        self._merged_count += len(known)
        if self._merged_count > _MAX_MERGED:
            raise _TooManyValues
        counts = Counter(name for part in parts for name in part.properties)
        for name, schemas in known.items():
            different = self._comparer.list_different(schemas)
            is_property = counts[name] == len(parts)
            (properties if is_property else hints)[name] = different[0] if len(different) == 1 else {"anyOf": different}
        first, *others = parts
        required = set(first.required).intersection(*(other.required for other in others))
        return _ObjectSchema(properties, hints, [name for name in first.required if name in required])

    def _resolve_reference(self, reference: Any) -> list[_ObjectSchema]:
        if not isinstance(reference, str) or reference in self._open_references:
            return []
        target: Any = self._root
        for step in reference.removeprefix("#/").split("/"):
            target = _dict_or_empty(target).get(step.replace("~1", "/").replace("~0", "~"))
        self._open_references.append(reference)
        resolved = self._merge_each([target])
        self._open_references.pop()
        return resolved


def _merge_all_of(parts: Sequence[_ObjectSchema]) -> _ObjectSchema:
    properties: Json = {}
    hints: Json = {}
    for part in parts:
        for name, schema in part.hints.items():
            hints.setdefault(name, schema)
        for name, schema in part.properties.items():
            before = properties.setdefault(name, schema)
            # An empty schema allows everything.
            if schema not in (before, {}):
                properties[name] = {"allOf": [before, schema]} if before else schema
    return _ObjectSchema(properties, hints, list(dict.fromkeys(name for part in parts for name in part.required)))


class _SchemaComparer:
    """Tells which schemas are the same as JSON, where 1 is not true. The same objects are gone through only once: a
    short schema may refer to a long one thousands of times."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        """A value, with the numbers of the values in it, -> its number."""
        self._known: dict[int, tuple[Any, int]] = {}
        """The identity of an object -> the object, which must not be freed meanwhile, and its number."""

    def list_different(self, schemas: Sequence[Any]) -> list[Any]:
        """Returns each of several schemas once."""
        if len(schemas) == 1:
            return [*schemas]
        by_number: dict[int, Any] = {}
        for schema in schemas:
            by_number.setdefault(self._number(schema), schema)
        return [*by_number.values()]

    def _number(self, value: Any) -> int:
        if id(value) in self._known:
            return self._known[id(value)][1]
        content: tuple[Any, ...] = (type(value), value)
        if isinstance(value, dict):
            content = (dict, *sorted((name, self._number(each)) for name, each in value.items()))
        elif isinstance(value, list):
            content = (list, *map(self._number, value))
        number = self._numbers.setdefault(content, len(self._numbers))
        self._known[id(value)] = value, number
        return number


def _describe_choices(schema: Mapping[str, Any]) -> str:
    """Returns what each choice requires as JSON for the description, because a merged schema cannot express it."""
    choices = {
        key: [{"required": _required_names(_dict_or_empty(choice))} for choice in _list_or_empty(schema.get(key))]
        for key in _UNION_KEYWORDS
    }
    requirements = {key: listed for key, listed in choices.items() if any(choice["required"] for choice in listed)}
    return orjson.dumps(requirements).decode() if requirements else ""


def _required_names(schema: Json) -> list[str]:
    return [name for name in _list_or_empty(schema.get("required")) if isinstance(name, str)]


def _may_be_object(schema: Json) -> bool:
    kind = schema.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _dict_or_empty(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
