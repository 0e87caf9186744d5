"""Filters chunks by the attributes of their files, such as `{"type": "eq", "key": "year", "value": 2021}`.

The shapes are `ComparisonFilter` and `CompoundFilter` of the Responses API.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

AttributeValue: TypeAlias = str | float | bool
Attributes: TypeAlias = Mapping[str, AttributeValue]
AttributeFilter: TypeAlias = Callable[[Attributes], bool]
"""Tells whether a file with these attributes is searched."""

MAX_DEPTH: Final = 16
MAX_CONDITIONS: Final = 256

_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_TYPES: Final = ("eq", "ne", *_ORDER, "in", "nin", "and", "or")


class FilterFault(ValueError):
    """A filter that cannot be used. `path` is the faulty part of it, such as `.filters[0].value`; it is empty if that
    is the whole filter."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


def compile_filter(value: object) -> AttributeFilter:
    """Returns the function that a filter of a request stands for.

    Raises FilterFault if the filter is malformed, nested more than 16 levels deep, or has more than 256 conditions.
    """
    return _FilterCompiler().compile(value, "", MAX_DEPTH)


class _FilterCompiler:
    def __init__(self) -> None:
        self._conditions = 0

    def compile(self, value: object, path: str, depth: int) -> AttributeFilter:
        if not isinstance(value, dict):
            raise FilterFault(path, "a filter is an object with type, and key and value or filters")
        kind = value.get("type")
        if not isinstance(kind, str) or kind not in _TYPES:
            raise FilterFault(f"{path}.type", f"type is one of {', '.join(_TYPES)}")
        names = {"type", "filters"} if kind in ("and", "or") else {"type", "key", "value"}
        if unknown := sorted(str(key) for key in value.keys() - names):
            raise FilterFault(f"{path}.{unknown[0]}", f"a filter of type {kind} has only {', '.join(sorted(names))}")
        return self._compile_group(value, path, depth) if "filters" in names else self._compile_condition(value, path)

    def _compile_group(self, value: dict[str, Any], path: str, depth: int) -> AttributeFilter:
        parts = value.get("filters")
        if not isinstance(parts, list) or not parts:
            raise FilterFault(f"{path}.filters", "filters is a list of one or more filters")
        if depth <= 1:
            raise FilterFault(f"{path}.filters", f"filters are nested at most {MAX_DEPTH} levels deep")
        compiled = [self.compile(part, f"{path}.filters[{i}]", depth - 1) for i, part in enumerate(parts)]
        if value["type"] == "and":
            return lambda attributes: all(part(attributes) for part in compiled)
        return lambda attributes: any(part(attributes) for part in compiled)

    def _compile_condition(self, value: dict[str, Any], path: str) -> AttributeFilter:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise FilterFault(path, f"filters have at most {MAX_CONDITIONS} conditions")
        kind, key, operand = value["type"], value.get("key"), value.get("value")
        if not isinstance(key, str):
            raise FilterFault(f"{path}.key", "key is a text")
        if kind in ("in", "nin"):
            if not isinstance(operand, list):
                raise FilterFault(f"{path}.value", f"value is a list with type {kind}")
            for i, each in enumerate(operand):
                _require_value(each, f"{path}.value[{i}]")
            is_wanted = kind == "in"
            return lambda attributes: _is_among(attributes.get(key), operand) is is_wanted
        _require_value(operand, f"{path}.value")
        if kind in ("eq", "ne"):
            is_wanted = kind == "eq"
            return lambda attributes: _is_equal(attributes.get(key), operand) is is_wanted
        if isinstance(operand, bool):
            raise FilterFault(f"{path}.value", f"value is a text or a number with type {kind}")
        compare = _ORDER[kind]
        is_text = isinstance(operand, str)

        def is_ordered(attributes: Attributes) -> bool:
            actual = attributes.get(key)
            if actual is None or isinstance(actual, bool) or isinstance(actual, str) is not is_text:
                return False
            return compare(actual, operand)

        return is_ordered


def _require_value(value: object, path: str) -> None:
    if not isinstance(value, str | int | float):
        raise FilterFault(path, "value is a text, a number or a boolean")


def _is_equal(actual: AttributeValue | None, operand: object) -> bool:
    """Tells whether two values of the same type are equal. A boolean never equals a number here, although Python says
    `True == 1`."""
    if isinstance(actual, bool) or isinstance(operand, bool):
        return actual is operand
    return actual is not None and actual == operand


def _is_among(actual: AttributeValue | None, operands: list[object]) -> bool:
    return any(_is_equal(actual, operand) for operand in operands)
