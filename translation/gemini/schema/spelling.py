"""Normalizes the JSON of protocol buffers by the typed dictionaries that describe it.

https://protobuf.dev/programming-guides/json/
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from types import UnionType
from typing import Annotated, Any, Final, Literal, Required, TypeAlias, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from translation.errors import InvalidRequest

_Normalizer: TypeAlias = Callable[[Any], Any]
"""Returns a value in the form that its schema describes. A value of another type is returned unchanged."""

_SEPARATED: Final = re.compile(r"(?<!_)_++([a-z0-9])")


_NUMBER: Final = re.compile(r"[+-]?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?", re.ASCII)


class Spelling:
    """Normalizes bodies of one schema: a typed dictionary whose fields are in `camelCase`.

    `texts` maps a class to the function that makes an object of it from a text.
    """

    def __init__(self, schema: type, texts: Mapping[type, Callable[[str], Any]]) -> None:
        self._texts = texts
        self._fields: dict[type, Mapping[str, _Normalizer | None]] = {}
        self.normalize: Final = partial(self._normalize_object, schema)
        """Returns a body whose known fields have the names of the schema. Everything else stays unchanged.

        Raises InvalidRequest for a field with two spellings and values. JSON of protocol buffers cannot have them.
        """

    def _normalize_object(self, schema: type, value: Any) -> Any:
        if isinstance(value, str) and (read := self._texts.get(schema)) is not None:
            return read(value)
        if not isinstance(value, dict):
            return value
        fields = self._fields_of(schema)
        normalized: dict[str, Any] = {}
        for key, inner in value.items():
            name = key if key in fields else to_camel_case(key)
            if name not in fields:
                normalized[key] = inner
            elif inner is not None:
                normalize = fields[name]
                entry = inner if normalize is None else normalize(inner)
                if name in normalized and normalized[name] != entry:
                    raise InvalidRequest(
                        f"Invalid value for '{key}': the field '{name}' is set twice, to different values.", param=key
                    )
                normalized[name] = entry
        return normalized

    def _fields_of(self, schema: type) -> Mapping[str, _Normalizer | None]:
        fields = self._fields.get(schema)
        if fields is None:
            hints = get_type_hints(schema, include_extras=True)
            fields = self._fields[schema] = {name: self._choose_normalizer(hint) for name, hint in hints.items()}
        return fields

    def _choose_normalizer(self, hint: Any) -> _Normalizer | None:
        """Returns the normalizer for values of a type; None for texts, and for data of the client's own."""
        if get_origin(hint) in (Annotated, Required):
            return self._choose_normalizer(get_args(hint)[0])
        if is_typeddict(hint):
            return partial(self._normalize_object, hint)
        if get_origin(hint) in (Union, UnionType) and (schema := next(filter(is_typeddict, get_args(hint)), None)):
            return partial(self._normalize_object, schema)  # which leaves values of the other types as they are
        if get_origin(hint) is list:
            inner = self._choose_normalizer(get_args(hint)[0])
            return partial(_normalize_list, inner)
        if get_origin(hint) is dict and is_typeddict(get_args(hint)[1]):
            return partial(_normalize_map, partial(self._normalize_object, get_args(hint)[1]))
        if get_origin(hint) is Literal:
            names = {str(name).casefold(): name for name in get_args(hint)}
            return lambda value: names.get(value.casefold(), value) if isinstance(value, str) else value
        if hint is int:
            return _read_integer
        return _read_number if hint is float else None


def to_camel_case(name: str) -> str:
    """Returns a field's name in `camelCase`, from `camelCase` or `snake_case`. Older SDKs begin a name with `_`."""
    return _SEPARATED.sub(lambda match: match[1].upper(), name.lstrip("_")) if "_" in name else name


def _read_number(value: Any) -> Any:
    """Returns the number that a text stands for, or the value itself."""
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return value
    if value.lstrip("+-").isdigit():
        return int(value)
    number = float(value)
    return number if isfinite(number) else value


def _read_integer(value: Any) -> Any:
    """Returns the integer that a text or a number without a fraction stands for, or the value itself."""
    number = _read_number(value)
    if isinstance(number, float):
        return int(number) if number.is_integer() else value
    return number


def _normalize_list(inner: _Normalizer | None, value: Any) -> Any:
    entries = value if isinstance(value, list) else [value]
    return entries if inner is None else [inner(entry) for entry in entries]


def _normalize_map(inner: _Normalizer, value: Any) -> Any:
    return {key: inner(entry) for key, entry in value.items()} if isinstance(value, dict) else value
