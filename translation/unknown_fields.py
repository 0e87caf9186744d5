"""Finds the keys of a request that its schema does not have: they are no errors, and what they say is lost.

Schemas are the typed dictionaries of `translation.validation`.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Required, TypeAlias, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from translation.representation.json_types import Json

_Finder: TypeAlias = Callable[[Any, str, list[str]], None]
"""Appends the paths of the unknown keys in a value, whose own path is the second argument."""

_MAX_KEY_CHARS: Final = 50


class UnknownFields:
    """Finds the unknown keys in valid bodies of one schema.

    An object may have any keys if the schema does not describe it, or if its class is `skipped`.
    """

    def __init__(self, schema: type, skipped: Collection[type] = ()) -> None:
        self._schema = schema
        self._skipped = frozenset(skipped)
        self._finders: dict[type, Mapping[str, _Finder | None]] = {}

    def find(self, body: Json) -> list[str]:
        """Returns the paths of the unknown keys inside the fields of a body. Those of the body itself are left out.

        A key is left out too if its value is null, false or empty, because then nothing is lost.
        """
        paths: list[str] = []
        for key, find in self._finders_of(self._schema).items():
            if find is not None and key in body:
                find(body[key], key, paths)
        return paths

    def _find_in_object(self, schema: type, value: Any, path: str, paths: list[str]) -> None:
        if not isinstance(value, dict):
            return
        finders = self._finders_of(schema)
        for key, inner in value.items():
            if key not in finders:
                if not _is_empty(inner):
                    paths.append(f"{path}.{key:.{_MAX_KEY_CHARS}}")
            elif (find := finders[key]) is not None:
                find(inner, f"{path}.{key}", paths)

    def _finders_of(self, schema: type) -> Mapping[str, _Finder | None]:
        finders = self._finders.get(schema)
        if finders is None:
            hints = get_type_hints(schema, include_extras=True)
            finders = self._finders[schema] = {name: self._choose_finder(hint) for name, hint in hints.items()}
        return finders

    def _choose_finder(self, hint: Any) -> _Finder | None:
        """Returns the finder for values of a type; None for those that have no keys of the schema."""
        if get_origin(hint) in (Annotated, Required):
            return self._choose_finder(get_args(hint)[0])
        if get_origin(hint) in (Union, UnionType):
            members = [member for member in get_args(hint) if member is not NoneType]
            return self._choose_finder(members[0]) if len(members) == 1 else None
        if is_typeddict(hint):
            return None if hint in self._skipped else partial(self._find_in_object, hint)
        if get_origin(hint) is list and (inner := self._choose_finder(get_args(hint)[0])) is not None:
            return partial(_find_in_list, inner)
        if get_origin(hint) is dict and is_typeddict(get_args(hint)[1]):
            return partial(_find_in_map, partial(self._find_in_object, get_args(hint)[1]))
        return None


def _find_in_list(inner: _Finder, value: Any, path: str, paths: list[str]) -> None:
    for index, entry in enumerate(value if isinstance(value, list) else ()):
        inner(entry, f"{path}[{index}]", paths)


def _find_in_map(inner: _Finder, value: Any, path: str, paths: list[str]) -> None:
    for key, entry in value.items() if isinstance(value, dict) else ():
        inner(entry, f"{path}.{key:.{_MAX_KEY_CHARS}}", paths)


def _is_empty(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str | list | dict) and not value)
