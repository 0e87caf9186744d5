"""Schemas of tools as the API takes them: an object at the top, and no choice among several there.

What a choice says of properties is merged into the one object, so that arguments come as the client's schema has them.
A merged schema lets through whatever fits one choice and names no properties of others, and some more.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_UNION_KEYWORDS: Final = ("anyOf", "oneOf")

_REFUSED_AT_TOP: Final = (*_UNION_KEYWORDS, "allOf")
"""At the top; deeper down the API takes them."""


class _ObjectSchema(NamedTuple):
    properties: Json
    hints: Json
    """Properties that some choices know and others do not: what is said of them is all that is known, and no rule."""
    required: Sequence[str]


def to_object_schema(schema: Mapping[str, Any], param: str, losses: list[Loss]) -> Json:
    """The schema with an object at its top; what that changes is a loss of `param`. The given one stays as it is.

    Raises Unrepresentable for one that is nested too deep to be looked at.
    """
    result: Json = {"type": "object", "properties": {}, **schema}
    refused = [key for key in _REFUSED_AT_TOP if key in result]
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
    result = {key: value for key, value in result.items() if key not in (*_REFUSED_AT_TOP, "$ref", "required")}
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
        """References that are being followed."""

    def merge(self, schema: Json) -> _ObjectSchema:
        """Its properties, and those it cannot be without."""
        parts = [_ObjectSchema(_dict_or_empty(schema.get("properties")), {}, _list_or_empty(schema.get("required")))]
        parts += self._resolve_reference(schema.get("$ref"))
        parts += self._merge_each(schema.get("allOf"))
        parts += [_merge_any_of(each) for key in _UNION_KEYWORDS if (each := self._merge_each(schema.get(key)))]
        return _merge_all_of(parts)

    def _merge_each(self, schemas: Any) -> list[_ObjectSchema]:
        return [self.merge(each) for each in _list_or_empty(schemas) if isinstance(each, dict) and _may_be_object(each)]

    def _resolve_reference(self, reference: Any) -> list[_ObjectSchema]:
        if not isinstance(reference, str) or reference in self._open_references:
            return []
        target: Any = self._root
        for step in reference.removeprefix("#/").split("/"):
            target = _dict_or_empty(target).get(step.replace("~1", "/").replace("~0", "~"))
        self._open_references.append(reference)
        found = self._merge_each([target])
        self._open_references.pop()
        return found


def _merge_all_of(parts: Sequence[_ObjectSchema]) -> _ObjectSchema:
    properties: Json = {}
    hints: Json = {}
    for part in parts:
        hints = {**part.hints, **hints}
        for name, schema in part.properties.items():
            before = properties.setdefault(name, schema)
            # An empty schema allows everything.
            if schema not in (before, {}):
                properties[name] = {"allOf": [before, schema]} if before else schema
    return _ObjectSchema(properties, hints, list(dict.fromkeys(name for part in parts for name in part.required)))


def _merge_any_of(parts: Sequence[_ObjectSchema]) -> _ObjectSchema:
    properties: Json = {}
    hints: Json = {}
    for name in dict.fromkeys(name for part in parts for name in (*part.properties, *part.hints)):
        known = [{**part.hints, **part.properties}.get(name) for part in parts]
        schemas = [schema for schema in known if schema is not None]
        different = [schema for place, schema in enumerate(schemas) if schema not in schemas[:place]]
        is_property = all(name in part.properties for part in parts)
        (properties if is_property else hints)[name] = different[0] if len(different) == 1 else {"anyOf": different}
    first, *others = parts
    return _ObjectSchema(
        properties, hints, [name for name in first.required if all(name in each.required for each in others)]
    )


def _describe_choices(schema: Mapping[str, Any]) -> str:
    """What each choice requires, which a merged schema cannot say."""
    choices = {
        key: [
            {"required": _list_or_empty(_dict_or_empty(each).get("required"))}
            for each in _list_or_empty(schema.get(key))
        ]
        for key in _UNION_KEYWORDS
    }
    requirements = {key: each for key, each in choices.items() if any(one["required"] for one in each)}
    return orjson.dumps(requirements).decode() if requirements else ""


def _may_be_object(schema: Json) -> bool:
    kind = schema.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _dict_or_empty(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
