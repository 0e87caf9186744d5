"""Parses and checks query parameters. Error messages follow the wording that the APIs use for bodies."""

import re
from collections.abc import Collection, Iterator
from typing import Final, get_args

from starlette.datastructures import QueryParams

from translation.errors import InvalidRequest
from translation.responses.client.item_view import GATEWAY_REPORT
from translation.responses.schema.parts import Includable

_BRACKETED: Final = re.compile(r"(include|metadata)\[")
_INTEGER: Final = re.compile(r"[0-9]{1,9}")
_BOOLEANS: Final = {"true": True, "false": False}
_INCLUDABLE: Final = get_args(Includable)
_MAX_QUOTED: Final = 80

_MAX_ENTRIES: Final = 16
"""The most entries of the metadata of an object."""

_IGNORED_PARAMS: Final = frozenset({"beta"})
"""Parameters that official clients add to every path of an API, and that have no effect."""


def check_param_names(query: QueryParams, known: Collection[str]) -> None:
    """Raises InvalidRequest for a parameter that is not in `known`.

    `include[]` and `metadata[a]` count as `include` and `metadata`.
    """
    for key in query:
        name = _base_name(key)
        if name not in known and name not in _IGNORED_PARAMS:
            raise InvalidRequest(
                f"Unknown parameter: '{key:.{_MAX_QUOTED}}'.", param=key[:_MAX_QUOTED], code="unknown_parameter"
            )


def read_single_value(query: QueryParams, name: str) -> str | None:
    """Returns the value of a parameter, None if it is absent. Raises InvalidRequest if it is given more than once."""
    values = query.getlist(name)
    if len(values) > 1:
        raise InvalidRequest(f"Invalid value for '{name}': it is given {len(values)} times.", param=name)
    return values[0] if values else None


def parse_integer(query: QueryParams, name: str, *, minimum: int, maximum: int) -> int | None:
    """Returns a parameter as a whole number from `minimum` to `maximum`, both included; None if it is absent.

    Raises InvalidRequest for any other value.
    """
    text = read_single_value(query, name)
    if text is None:
        return None
    if not _INTEGER.fullmatch(text):
        raise InvalidRequest(
            f"Invalid type for '{name}': expected an integer, but got '{text:.{_MAX_QUOTED}}' instead.",
            param=name,
            code="invalid_type",
        )
    number = int(text)
    if not minimum <= number <= maximum:
        rule = f"at least {minimum}" if number < minimum else f"at most {maximum}"
        raise InvalidRequest(f"Invalid value for '{name}': it must be {rule}, but got {number}.", param=name)
    return number


def parse_boolean(query: QueryParams, name: str) -> bool:
    """Returns a parameter that is `true` or `false`; False if it is absent. Raises InvalidRequest for other values."""
    text = read_single_value(query, name)
    if text is None:
        return False
    if text not in _BOOLEANS:
        raise InvalidRequest(
            f"Invalid type for '{name}': expected a boolean, but got '{text:.{_MAX_QUOTED}}' instead.",
            param=name,
            code="invalid_type",
        )
    return _BOOLEANS[text]


def parse_include(query: QueryParams, *, of_response: bool = False) -> frozenset[str]:
    """Returns the values of `include`, which is about items, or with `of_response` also about their response.

    Raises InvalidRequest unless the API knows all of them.
    """
    known = _INCLUDABLE if of_response else [name for name in _INCLUDABLE if name != GATEWAY_REPORT]
    values = [value for key, value in query.multi_items() if _base_name(key) == "include"]
    for value in values:
        if value not in known:
            expected = ", ".join(f"'{name}'" for name in known)
            raise InvalidRequest(
                f"Invalid value for 'include': '{value:.{_MAX_QUOTED}}'. Expected one of {expected}.", param="include"
            )
    return frozenset(values)


def parse_entries(query: QueryParams, name: str) -> Iterator[tuple[str, str]]:
    """Yields `("a", "b")` for every parameter of the form `name[a]=b`.

    Raises InvalidRequest for a malformed name, a key that is given twice, and more entries than an object may have:
    each costs a condition of the search in the database.
    """
    count = 0
    for key in query:
        if _base_name(key) != name:
            continue
        count += 1
        if count > _MAX_ENTRIES:
            raise InvalidRequest(f"Invalid value for '{name}': at most {_MAX_ENTRIES} entries are allowed.", param=name)
        match = re.fullmatch(r"\[([^\[\]]+)\]", key.removeprefix(name))
        values = query.getlist(key)
        if match is None or len(values) > 1:
            raise InvalidRequest(f"Invalid value for '{name}': write {name}[key]=value, once for each key.", param=name)
        yield match.group(1), values[0]


def _base_name(key: str) -> str:
    """Returns `include` for `include[]` and `metadata` for `metadata[a]`. Other parameters have no bracketed form."""
    match = _BRACKETED.match(key)
    return match.group(1) if match else key
