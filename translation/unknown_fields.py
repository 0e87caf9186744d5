"""Finds the keys of a request that its schema does not have: they are no errors, and what they say may be lost.

Schemas are the typed dictionaries of `translation.validation`. One walk visits what the validator visits: objects,
lists, and the members of unions that the validator would choose. A body without unknown keys costs it one look at the
keys of each object. Objects wait in a list until they are examined, so that the walk is as deep as a body may be.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import Discriminator, Tag
from pydantic.fields import FieldInfo
from typing_extensions import is_typeddict

from translation.representation.json_types import Json
from translation.representation.loss import UnknownKey

MAX_KEY_CHARS: Final = 50
"""The longest name of a key in a path. Longer names are cut."""

_OTHER_TAG: Final = "other"
"""The tag of union members that stand for all types which a schema does not list: their keys are not known."""


_Waiting: TypeAlias = "list[tuple[_ObjectFinder, dict[str, Any], str]]"
"""The objects that are not examined yet, each with its finder and its path. The next one is the last."""

_Finder: TypeAlias = Callable[[Any, str, _Waiting], None]
"""Adds the objects of a value, whose own path is the second argument, to those that wait."""


class UnknownFields:
    """Finds the unknown keys in valid bodies of one schema.

    An object may have any keys if the schema does not describe it, or if its class is `skipped`. Keys in `ignored` say
    nothing anywhere. Unless `indexed`, paths have no positions in lists, so that a key which many messages have is one.
    """

    def __init__(
        self, schema: type, skipped: Collection[type] = (), *, ignored: Iterable[str] = (), indexed: bool = True
    ) -> None:
        self._skipped = frozenset(skipped)
        self._ignored = frozenset(ignored)
        self._indexed = indexed
        self._finders: dict[type, _ObjectFinder] = {}
        self._root = self._finder_of(schema)

    @property
    def members(self) -> frozenset[str]:
        """The fields of a body that hold objects with keys of the schema."""
        return self._root.members

    def find(self, body: Json) -> list[str]:
        """Returns the paths of the unknown keys inside the fields of a body. Those of the body itself are left out.

        A key is left out too if its value says nothing (see `is_empty`), because then nothing is lost.
        """
        return list(dict.fromkeys(entry.path for entry in self.find_keys(body)))

    def find_keys(self, body: Json) -> list[UnknownKey]:
        """Returns the unknown keys of which `find` returns the paths, each with the object that has it."""
        keys: list[UnknownKey] = []
        waiting: _Waiting = []
        self._root.add_members(body, "", waiting)
        while waiting:
            finder, value, path = waiting.pop()
            finder.examine(value, path, waiting, keys)
        return keys

    def _finder_of(self, schema: type) -> "_ObjectFinder":
        finder = self._finders.get(schema)
        if finder is None:
            # Schemas contain themselves, so the finder is known before those of its fields are chosen.
            finder = self._finders[schema] = _ObjectFinder()
            hints = get_type_hints(schema, include_extras=True)
            members = {name: self._choose_finder(hint) for name, hint in hints.items()}
            finder.learn(self._ignored.union(hints), members)
        return finder

    def _choose_finder(self, hint: Any) -> _Finder | None:
        """Returns the finder for values of a type; None for those that have no keys of the schema."""
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            choose = _find_discriminator(arguments[1:])
            return self._choose_finder(arguments[0]) if choose is None else self._build_choice(arguments[0], choose)
        if origin in (Required, NotRequired):
            return self._choose_finder(arguments[0])
        if origin in (Union, UnionType):
            return self._join_finders(arguments)
        if is_typeddict(hint):
            return None if hint in self._skipped else self._finder_of(hint)
        if origin is list and (inner := self._choose_finder(arguments[0])) is not None:
            return _ListFinder(inner, indexed=self._indexed)
        if origin is dict and (inner := self._choose_finder(arguments[1])) is not None:
            return _MapFinder(inner)
        return None

    def _join_finders(self, members: Iterable[Any]) -> _Finder | None:
        """Returns the finder of a union without tags: of its list, and of its object unless another object is free."""
        members = [member for member in members if member is not NoneType]
        finders = [finder for member in members if (finder := self._choose_finder(member)) is not None]
        is_free = sum(map(_is_object, members)) > 1
        chosen = [finder for finder in finders if not (is_free and isinstance(finder, _ObjectFinder))]
        return _join(chosen)

    def _build_choice(self, union: Any, choose: Callable[[Any], Any]) -> _Finder | None:
        """Returns the finder of a union whose members have tags."""
        finders: dict[str, _Finder | None] = {}
        others: list[_Finder] = []
        members = get_args(union) if get_origin(union) in (Union, UnionType) else (union,)
        for member in members:
            tags = _list_tags(member, choose)
            finder = self._choose_finder(member)
            finders |= dict.fromkeys(tags, finder)
            if not tags and finder is not None:
                others.append(finder)
        finders[_OTHER_TAG] = None

        def find(value: Any, path: str, waiting: _Waiting) -> None:
            chosen = finders.get(choose(value))
            if chosen is not None:
                chosen(value, path, waiting)

        return _join([find, *others]) if any(finders.values()) else _join(others)


class _ObjectFinder:
    """Finds the unknown keys in an object."""

    __slots__ = ("_finders", "_known")

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()
        self._finders: Mapping[str, _Finder] = {}

    def learn(self, known: frozenset[str], members: Mapping[str, _Finder | None]) -> None:
        self._known = known
        self._finders = {name: finder for name, finder in members.items() if finder is not None}

    @property
    def members(self) -> frozenset[str]:
        """The keys whose values may have keys of the schema."""
        return frozenset(self._finders)

    def __call__(self, value: Any, path: str, waiting: _Waiting) -> None:
        if type(value) is dict:
            waiting.append((self, value, path))

    def examine(self, value: dict[str, Any], path: str, waiting: _Waiting, keys: list[UnknownKey]) -> None:
        """Appends the object's own unknown keys to `keys`, and adds the objects in it to those that wait."""
        if not self._known.issuperset(value):
            keys += [
                UnknownKey(f"{path}.{key:.{MAX_KEY_CHARS}}", key, value)
                for key, inner in value.items()
                if key not in self._known and not is_empty(inner)
            ]
        self.add_members(value, f"{path}.", waiting)

    def add_members(self, value: dict[str, Any], prefix: str, waiting: _Waiting) -> None:
        """Adds the objects in an object to those that wait, so that they are examined in their order."""
        count = len(waiting)
        for name in filter(self._finders.__contains__, value):
            inner = value[name]
            if type(inner) is dict or type(inner) is list:
                self._finders[name](inner, prefix + name, waiting)
        if len(waiting) - count > 1:
            waiting[count:] = reversed(waiting[count:])


class _ListFinder:
    def __init__(self, inner: _Finder, *, indexed: bool) -> None:
        self._inner = inner
        self._indexed = indexed

    def __call__(self, value: Any, path: str, waiting: _Waiting) -> None:
        if type(value) is not list:
            return
        find = self._inner
        if self._indexed:
            for index, entry in enumerate(value):
                find(entry, f"{path}[{index}]", waiting)
        else:
            for entry in value:
                find(entry, path, waiting)


class _MapFinder:
    def __init__(self, inner: _Finder) -> None:
        self._inner = inner

    def __call__(self, value: Any, path: str, waiting: _Waiting) -> None:
        if type(value) is dict:
            for key, entry in value.items():
                self._inner(entry, f"{path}.{key:.{MAX_KEY_CHARS}}", waiting)


def _join(finders: list[_Finder]) -> _Finder | None:
    if len(finders) < 2:
        return finders[0] if finders else None

    def find(value: Any, path: str, waiting: _Waiting) -> None:
        for finder in finders:
            finder(value, path, waiting)

    return find


def _is_object(hint: Any) -> bool:
    return hint is Any or is_typeddict(hint) or get_origin(hint) is dict


def _find_discriminator(metadata: Iterable[Any]) -> Callable[[Any], Any] | None:
    """Returns the function that returns the tag of a value, for a union with tags."""
    for entry in metadata:
        chosen = entry.discriminator if isinstance(entry, Discriminator | FieldInfo) else None
        if isinstance(chosen, Discriminator):
            chosen = chosen.discriminator
        if isinstance(chosen, str):
            return _KeyOf(chosen)
        if chosen is not None:
            return chosen
    return None


class _KeyOf:
    """Returns the value of one key, by which a union chooses among its members."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, value: Any) -> Any:
        tag = value.get(self.key) if type(value) is dict else None
        return tag if isinstance(tag, str) else None


def _list_tags(member: Any, choose: Callable[[Any], Any]) -> tuple[str, ...]:
    while get_origin(member) is Annotated:
        if tags := tuple(entry.tag for entry in get_args(member)[1:] if isinstance(entry, Tag)):
            return tags
        member = get_args(member)[0]
    if not (isinstance(choose, _KeyOf) and is_typeddict(member)):
        return ()
    hint = get_type_hints(member).get(choose.key)
    values = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(tag for value in values if get_origin(value) is Literal for tag in get_args(value))


def is_empty(value: Any) -> bool:
    """Whether nothing is lost with a key that has this value: null, or an empty text or list.

    Clients write keys without a value in these three ways. `false` turns off what may be on by default, and `{}` turns
    on what has no options, so both say something, as every number does.
    """
    return value is None or (isinstance(value, str | list) and not value)
