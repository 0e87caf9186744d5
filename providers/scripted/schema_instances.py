"""Builds the smallest value that a JSON schema admits, as the demo model's answer."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final, TypeAlias

from providers.scripted.schema_strings import MAX_INSTANCE_SIZE, UnsatisfiableSchema, ValueTooLarge, build_text
from translation.representation.json_types import Json

Schema: TypeAlias = Json | bool

_MAX_STEPS: Final = 1000
_MAX_CHARS: Final = 100_000
"""The most steps in which a value is built, and the most characters of all its texts. It is built on the event loop."""

_TOO_LARGE: Final = "the schema requires too large a value"


def build_minimal_instance(schema: Schema) -> Any:
    """Returns a value that the schema admits: only required properties, the shortest lists, the first alternative.

    Follows `$ref` within the schema. Raises UnsatisfiableSchema for a schema that admits nothing, or that has a keyword
    that is not supported.
    """
    try:
        return _InstanceBuilder(schema).build(schema, ())
    except RecursionError:
        raise UnsatisfiableSchema("the schema is nested too deeply") from None
    except (TypeError, AttributeError, ArithmeticError):
        raise UnsatisfiableSchema("it is not a JSON schema") from None


class _InstanceBuilder:
    """Builds the value of one schema. Steps and characters are counted, because a short schema can describe an enormous
    value."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._steps = 0
        self._chars = 0

    def build(self, schema: Schema, refs: tuple[str, ...]) -> Any:
        """Returns a value for `schema`. `refs` are the references that led to it. The smallest value never follows the
        same reference inside itself."""
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise ValueTooLarge(_TOO_LARGE)
        if isinstance(schema, bool):
            if not schema:
                raise UnsatisfiableSchema("false admits nothing")
            return {}
        if (reference := schema.get("$ref")) is not None:
            if reference in refs:
                raise UnsatisfiableSchema(f"{reference} contains itself")
            return self.build(
                _merge(_resolve_reference(reference, self._root), _remove_keys(schema, "$ref")), (*refs, reference)
            )
        if "allOf" in schema:
            merged: Schema = _remove_keys(schema, "allOf")
            for part in schema["allOf"]:
                merged = _merge(merged, part)
            return self.build(merged, refs)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                options = [_merge(_remove_keys(schema, key), option) for option in schema[key]]
                return _first_satisfiable(options, lambda option: self.build(option, refs))
        if unknown := _UNSUPPORTED_KEYWORDS & schema.keys():
            raise UnsatisfiableSchema(f"{min(unknown)} is not supported")
        if "const" in schema:
            return self._count_chars(_require_admitted(schema["const"], schema))
        if "enum" in schema:
            return self._count_chars(
                _first_satisfiable(schema["enum"], lambda option: _require_admitted(option, schema))
            )
        return _first_satisfiable(_list_types(schema), lambda kind: self._build_of_type(kind, schema, refs))

    def _build_of_type(self, kind: str, schema: Json, refs: tuple[str, ...]) -> Any:
        match kind:
            case "object":
                return self._build_object(schema, refs)
            case "array":
                return self._build_array(schema, refs)
        return self._count_chars(_BUILDERS[kind](schema))

    def _count_chars(self, value: Any) -> Any:
        """Returns the value. Raises UnsatisfiableSchema if all values together have too many characters."""
        if isinstance(value, str):
            self._chars += len(value)
        elif isinstance(value, dict | list):
            self._chars += len(repr(value))
        if self._chars > _MAX_CHARS:
            raise ValueTooLarge(_TOO_LARGE)
        return value

    def _build_object(self, schema: Json, refs: tuple[str, ...]) -> Json:
        properties: Mapping[str, Schema] = schema.get("properties") or {}
        others: Schema = schema.get("additionalProperties", True)
        value = {
            self._count_chars(name): self.build(properties.get(name, others), refs)
            for name in schema.get("required") or ()
        }
        spare = (name for name in properties if name not in value)
        while len(value) < schema.get("minProperties", 0):
            name = self._count_chars(next(spare, f"property_{len(value)}"))
            value[name] = self.build(properties.get(name, others), refs)
        if len(value) > schema.get("maxProperties", math.inf):
            raise UnsatisfiableSchema("maxProperties is smaller than what is required")
        return value

    def _build_array(self, schema: Json, refs: tuple[str, ...]) -> list[Any]:
        leading: list[Schema] = schema.get("prefixItems") or []
        items: Schema = schema.get("items", True)
        shortest = schema.get("minItems", 0)
        if shortest > schema.get("maxItems", math.inf):
            raise UnsatisfiableSchema("minItems is larger than maxItems")
        value = [self.build(leading[index] if index < len(leading) else items, refs) for index in range(shortest)]
        if schema.get("uniqueItems") and any(entry in value[:index] for index, entry in enumerate(value)):
            raise UnsatisfiableSchema("uniqueItems is not supported for more than one item")
        return value


_UNSUPPORTED_KEYWORDS = {
    "not",
    "if",
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "propertyNames",
    "$dynamicRef",
}


def _first_satisfiable(options: list[Any], fill: Callable[[Any], Any]) -> Any:
    failure = UnsatisfiableSchema("there are no options to choose from")
    for option in options:
        try:
            return fill(option)
        except ValueTooLarge:
            raise
        except UnsatisfiableSchema as error:
            failure = error
    raise failure


def _remove_keys(schema: Json, key: str) -> Json:
    return {name: value for name, value in schema.items() if name != key}


def _resolve_reference(reference: str, root: Schema) -> Schema:
    """Returns the target of a JSON pointer within the schema. Nothing is fetched."""
    if not reference.startswith("#"):
        raise UnsatisfiableSchema(f"{reference} is outside the schema")
    target: Any = root
    for step in reference[1:].split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        try:
            target = target[int(step)] if isinstance(target, list) else target[step]
        except (KeyError, IndexError, ValueError, TypeError):
            raise UnsatisfiableSchema(f"{reference} does not exist") from None
    if not isinstance(target, dict | bool):
        raise UnsatisfiableSchema(f"{reference} is not a schema")
    return target


def _merge(one: Schema, other: Schema) -> Schema:
    """Returns a schema for the values that both schemas admit."""
    if isinstance(one, bool):
        return other if one else False
    if isinstance(other, bool):
        return one if other else False
    merged = dict(one)
    for key, value in other.items():
        merged[key] = _MERGERS.get(key, _take_second)(merged[key], value) if key in merged else value
    return merged


def _take_second(_: Any, other: Any) -> Any:
    return other


def _intersect_types(one: Any, other: Any) -> list[str]:
    """Returns the types that both allow. An integer is a number too."""
    ones, others = (_add_integers(value if isinstance(value, list) else [value]) for value in (one, other))
    return [value for value in ones if value in others]


def _add_integers(kinds: list[str]) -> list[str]:
    return [*kinds, "integer"] if "number" in kinds else kinds


def _merge_properties(one: Json, other: Json) -> Json:
    return {
        **one,
        **{name: {"allOf": [one[name], schema]} if name in one else schema for name, schema in other.items()},
    }


_MERGERS: dict[str, Callable[[Any, Any], Any]] = {
    "type": _intersect_types,
    "enum": lambda one, other: [value for value in one if value in other],
    "required": lambda one, other: [*one, *(name for name in other if name not in one)],
    "properties": _merge_properties,
    "allOf": lambda one, other: [*one, *other],
    "items": lambda one, other: {"allOf": [one, other]},
    "additionalProperties": _merge,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}


def _list_types(schema: Json) -> list[str]:
    """Returns the types that the schema names, or else the type that its keywords imply; by default an object."""
    named = schema.get(
        "type", next((kind for keyword, kind in _TYPE_BY_KEYWORD.items() if keyword in schema), "object")
    )
    kinds: list[str] = named if isinstance(named, list) else [named]
    if not kinds or any(kind not in _TYPE_CHECKS for kind in kinds):
        raise UnsatisfiableSchema(f"type {named!r} admits nothing")
    return kinds


_TYPE_BY_KEYWORD = {
    **dict.fromkeys(("properties", "required", "minProperties"), "object"),
    **dict.fromkeys(("items", "prefixItems", "minItems", "maxItems"), "array"),
    **dict.fromkeys(("pattern", "format", "minLength", "maxLength"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
}


def _require_admitted(value: Any, schema: Json) -> Any:
    """Returns the value if the schema's type and enum admit it. Raises UnsatisfiableSchema if not."""
    kinds = _list_types(schema) if "type" in schema else list(_TYPE_CHECKS)
    if not any(_TYPE_CHECKS[kind](value) for kind in kinds) or value not in schema.get("enum", [value]):
        raise UnsatisfiableSchema("no value of const or enum has the type")
    return value


_TYPE_CHECKS: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def _build_string(schema: Json) -> str:
    return build_text(
        min_length=schema.get("minLength", 0),
        max_length=schema.get("maxLength", MAX_INSTANCE_SIZE),
        text_format=schema.get("format"),
        pattern=schema.get("pattern"),
    )


def _build_number(schema: Json) -> float:
    low = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf))
    high = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf))
    step = schema.get("multipleOf", 1)
    candidates: list[float] = [0]
    if math.isfinite(low):
        candidates += (math.ceil(low / step) * step + further * step for further in range(2))
    if math.isfinite(high):
        candidates += (math.floor(high / step) * step - further * step for further in range(2))
    if "multipleOf" not in schema and math.isfinite(low) and math.isfinite(high):
        candidates += (low, (low + high) / 2)
    for value in candidates:
        above = low < value if low == schema.get("exclusiveMinimum") else low <= value
        below = value < high if high == schema.get("exclusiveMaximum") else value <= high
        if above and below:
            return value
    raise UnsatisfiableSchema("no number is known within the bounds")


def _build_integer(schema: Json) -> int:
    # The whole multiples of a/b, in lowest terms, are the multiples of a.
    return int(_build_number({**schema, "multipleOf": Fraction(str(schema.get("multipleOf", 1))).numerator}))


_BUILDERS: dict[str, Callable[[Json], Any]] = {
    "string": _build_string,
    "number": _build_number,
    "integer": _build_integer,
    "boolean": lambda _: False,
    "null": lambda _: None,
}
