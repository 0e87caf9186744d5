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

_CHOICES: Final = ("anyOf", "oneOf")

_REFUSED: Final = (*_CHOICES, "allOf")
"""At the top; deeper down the API takes them."""


class _Object(NamedTuple):
    properties: Json
    hints: Json
    """Properties that some choices know and others do not: what is said of them is all that is known, and no rule."""
    required: Sequence[str]


def object_schema(schema: Mapping[str, Any], param: str, losses: list[Loss]) -> Json:
    """The schema with an object at its top; what that changes is a loss of `param`. The given one stays as it is.

    Raises Unrepresentable for one that is nested too deep to be looked at.
    """
    told: Json = {"type": "object", "properties": {}, **schema}
    refused = [key for key in _REFUSED if key in told]
    if told["type"] != "object":
        losses.append(Loss(param, "made an object"))
        told["type"] = "object"
    if not refused:
        return told
    losses += [Loss(param, f"{key} merged") for key in refused]
    try:
        merged = _Merging(told).object_of(told)
    except RecursionError:
        raise Unrepresentable("this schema is nested too deep", param=param) from None
    told = {key: value for key, value in told.items() if key not in (*_REFUSED, "$ref", "required")}
    told["properties"] = {**merged.hints, **merged.properties}
    if merged.required:
        told["required"] = merged.required
    if words := _words(schema):
        described = told.get("description")
        told["description"] = f"{described} {words}" if described else words
    return told


class _Merging:
    def __init__(self, whole: Json) -> None:
        self._whole = whole
        self._inside: list[str] = []
        """References that are being followed."""

    def object_of(self, schema: Json) -> _Object:
        """Its properties, and those it cannot be without."""
        parts = [_Object(_dict(schema.get("properties")), {}, _list(schema.get("required")))]
        parts += self._referred(schema.get("$ref"))
        parts += self._each(schema.get("allOf"))
        parts += [_any(each) for key in _CHOICES if (each := self._each(schema.get(key)))]
        return _all(parts)

    def _each(self, schemas: Any) -> list[_Object]:
        return [self.object_of(each) for each in _list(schemas) if isinstance(each, dict) and _may_be_object(each)]

    def _referred(self, reference: Any) -> list[_Object]:
        if not isinstance(reference, str) or reference in self._inside:
            return []
        target: Any = self._whole
        for step in reference.removeprefix("#/").split("/"):
            target = _dict(target).get(step.replace("~1", "/").replace("~0", "~"))
        self._inside.append(reference)
        found = self._each([target])
        self._inside.pop()
        return found


def _all(parts: Sequence[_Object]) -> _Object:
    properties: Json = {}
    hints: Json = {}
    for part in parts:
        hints = {**part.hints, **hints}
        for name, schema in part.properties.items():
            before = properties.setdefault(name, schema)
            # An empty schema allows everything.
            if schema not in (before, {}):
                properties[name] = {"allOf": [before, schema]} if before else schema
    return _Object(properties, hints, list(dict.fromkeys(name for part in parts for name in part.required)))


def _any(parts: Sequence[_Object]) -> _Object:
    properties: Json = {}
    hints: Json = {}
    for name in dict.fromkeys(name for part in parts for name in (*part.properties, *part.hints)):
        known = [{**part.hints, **part.properties}.get(name) for part in parts]
        said = [schema for schema in known if schema is not None]
        different = [schema for place, schema in enumerate(said) if schema not in said[:place]]
        is_property = all(name in part.properties for part in parts)
        (properties if is_property else hints)[name] = different[0] if len(different) == 1 else {"anyOf": different}
    first, *others = parts
    return _Object(
        properties, hints, [name for name in first.required if all(name in each.required for each in others)]
    )


def _words(schema: Mapping[str, Any]) -> str:
    """What each choice requires, which a merged schema cannot say."""
    choices = {
        key: [{"required": _list(_dict(each).get("required"))} for each in _list(schema.get(key))] for key in _CHOICES
    }
    told = {key: each for key, each in choices.items() if any(one["required"] for one in each)}
    return orjson.dumps(told).decode() if told else ""


def _may_be_object(schema: Json) -> bool:
    kind = schema.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _dict(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
