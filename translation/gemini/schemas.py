"""JSON schemas as far as Gemini reads them. https://ai.google.dev/api/generate-content#FIELDS.response_json_schema"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_SILENT: Final = frozenset({"$schema", "$comment", "$vocabulary"})
"""Keywords that say nothing about the values."""

_AS_IS: Final = frozenset(
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

_FORMATS: Final = frozenset({"date-time", "date", "time", "enum", "float", "double", "int32", "int64"})
"""Any other is refused by the API."""


def reduced(schema: Json, param: str, losses: list[Loss]) -> Json:
    """The schema in the keywords that are read; every other one is a loss of `param`. The given one stays as it is.

    Raises InvalidRequest for what is no schema, or nested too deep for one.
    """
    dropped: dict[str, None] = {}
    try:
        said = _Reducing(dropped).schema(schema)
    except RecursionError:
        raise InvalidRequest("This schema is nested too deep.", param=param) from None
    except (AttributeError, TypeError, ValueError):
        raise InvalidRequest("This is not a JSON schema.", param=param) from None
    losses += [Loss(param, f"{keyword} dropped") for keyword in dropped]
    return said


class _Reducing:
    def __init__(self, dropped: dict[str, None]) -> None:
        self._dropped = dropped
        """Keywords without a place, each once, in the order they were met."""

    def schema(self, schema: Any) -> Json:
        if schema is True:
            return {}
        if schema is False:
            self._drop("false")
            return {}
        whole = self._without_all_of(schema)
        said: Json = {}
        for keyword, value in whole.items():
            if keyword in _READERS:
                _READERS[keyword](self, value, whole, said)
            elif keyword in _AS_IS:
                said[keyword] = self.schema(value) if isinstance(value, dict) else value
            elif keyword not in _SILENT:
                self._drop(keyword)
        return _apart(said)

    def _without_all_of(self, schema: Json) -> Json:
        """Parts that all hold are one schema; where two speak of the same, the one around them does."""
        parts = schema.get("allOf")
        if parts is None:
            return schema
        whole: Json = {}
        for part in [*parts, {key: value for key, value in schema.items() if key != "allOf"}]:
            for key, value in self._without_all_of(part).items():
                if key in ("properties", "$defs", "definitions"):
                    before = whole.get(key, {})
                    if any(before[name] != value[name] for name in before.keys() & value.keys()):
                        self._drop(f"allOf.{key}")
                    whole[key] = {**before, **value}
                elif key == "required":
                    whole[key] = list(dict.fromkeys([*whole.get(key, ()), *value]))
                else:
                    if key in whole and whole[key] != value:
                        self._drop(f"allOf.{key}")
                    whole[key] = value
        return whole

    def properties(self, value: Json, _: Json, said: Json) -> None:
        said["properties"] = {name: self.schema(each) for name, each in value.items()}

    def definitions(self, value: Json, _: Json, said: Json) -> None:
        said["$defs"] = {**said.get("$defs", {}), **{name: self.schema(each) for name, each in value.items()}}

    def reference(self, value: str, _: Json, said: Json) -> None:
        said["$ref"] = value.replace("#/definitions/", "#/$defs/")

    def items(self, value: Any, _: Json, said: Json) -> None:
        if isinstance(value, list):
            said["prefixItems"] = list(map(self.schema, value))
        else:
            said["items"] = self.schema(value)

    def prefix_items(self, value: list[Any], _: Json, said: Json) -> None:
        said["prefixItems"] = list(map(self.schema, value))

    def any_of(self, value: list[Any], _: Json, said: Json) -> None:
        if "anyOf" in said:
            self._drop("oneOf beside anyOf")
        said.setdefault("anyOf", list(map(self.schema, value)))

    def required(self, value: list[str], whole: Json, said: Json) -> None:
        known = [name for name in value if name in (whole.get("properties") or {})]
        if known:
            said["required"] = known
        if len(known) < len(value):
            self._drop("required without a property")

    def type(self, value: Any, _: Json, said: Json) -> None:
        said.setdefault("type", value)

    def constant(self, value: Any, _: Json, said: Json) -> None:
        if _is_listable(value):
            said["enum"] = [value]
        else:
            self._drop("const")

    def enum(self, value: list[Any], whole: Json, said: Json) -> None:
        listed = [each for each in value if each is not None]
        if not listed or not all(map(_is_listable, listed)):
            return self._drop("enum")
        said["enum"] = listed
        if len(listed) < len(value) and isinstance(kind := whole.get("type"), str):
            said["type"] = [kind, "null"]
        return None

    def format(self, value: str, _: Json, said: Json) -> None:
        if value in _FORMATS:
            said["format"] = value
        else:
            self._drop(f"format {value}")

    def above(self, value: Any, whole: Json, said: Json) -> None:
        self._bound("exclusiveMinimum", "minimum", value, 1, whole, said)

    def below(self, value: Any, whole: Json, said: Json) -> None:
        self._bound("exclusiveMaximum", "maximum", value, -1, whole, said)

    def _bound(self, keyword: str, instead: str, value: Any, step: int, whole: Json, said: Json) -> None:
        if whole.get("type") == "integer" and type(value) is int and instead not in whole:
            said[instead] = value + step
        else:
            self._drop(keyword)

    def _drop(self, keyword: str) -> None:
        self._dropped[keyword] = None


def _is_listable(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _apart(said: Json) -> Json:
    """Beside a reference nothing may stand but keywords with a `$`."""
    if "$ref" not in said or all(keyword.startswith("$") for keyword in said):
        return said
    alone = {keyword: value for keyword, value in said.items() if keyword.startswith("$")}
    return {"anyOf": [alone], **{keyword: value for keyword, value in said.items() if keyword not in alone}}


_Reader = Callable[[_Reducing, Any, Json, Json], None]

_READERS: Final[Mapping[str, _Reader]] = {
    "$defs": _Reducing.definitions,
    "$ref": _Reducing.reference,
    "anyOf": _Reducing.any_of,
    "const": _Reducing.constant,
    "definitions": _Reducing.definitions,
    "enum": _Reducing.enum,
    "exclusiveMaximum": _Reducing.below,
    "exclusiveMinimum": _Reducing.above,
    "format": _Reducing.format,
    "items": _Reducing.items,
    "oneOf": _Reducing.any_of,
    "prefixItems": _Reducing.prefix_items,
    "properties": _Reducing.properties,
    "required": _Reducing.required,
    "type": _Reducing.type,
}
