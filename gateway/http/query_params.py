"""Query parameters: known ones only, each given once, in the words the APIs use for bodies."""

import re
from collections.abc import Collection, Iterator
from typing import Final, get_args

from starlette.datastructures import QueryParams

from translation.errors import InvalidRequest
from translation.responses.schema.parts import Includable

_BRACKETED: Final = re.compile(r"(include|metadata)\[")
_INTEGER: Final = re.compile(r"[0-9]{1,9}")
_BOOLEANS: Final = {"true": True, "false": False}
_INCLUDABLE: Final = get_args(Includable)
_MAX_QUOTED: Final = 80

_IGNORED_PARAMS: Final = frozenset({"beta"})
"""What official clients add to every path of an API."""


def check_param_names(query: QueryParams, known: Collection[str]) -> None:
    """Raise InvalidRequest for a parameter that is not known. `include[]` and `metadata[a]` go by their
    names."""
    for key in query:
        name = _base_name(key)
        if name not in known and name not in _IGNORED_PARAMS:
            raise InvalidRequest(
                f"Unknown parameter: '{key:.{_MAX_QUOTED}}'.", param=key[:_MAX_QUOTED], code="unknown_parameter"
            )


def single_value(query: QueryParams, name: str) -> str | None:
    """The value of a parameter that may be given once."""
    values = query.getlist(name)
    if len(values) > 1:
        raise InvalidRequest(f"Invalid value for '{name}': it is given {len(values)} times.", param=name)
    return values[0] if values else None


def parse_integer(query: QueryParams, name: str, *, minimum: int, maximum: int) -> int | None:
    """A whole number between `least` and `most`, both allowed."""
    text = single_value(query, name)
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
    """`true` or `false`, which is also what it is when left out."""
    text = single_value(query, name)
    if text is None:
        return False
    if text not in _BOOLEANS:
        raise InvalidRequest(
            f"Invalid type for '{name}': expected a boolean, but got '{text:.{_MAX_QUOTED}}' instead.",
            param=name,
            code="invalid_type",
        )
    return _BOOLEANS[text]


def check_include(query: QueryParams) -> None:
    """Raise InvalidRequest unless every `include` is one that the API has. They add nothing: what is kept is whole."""
    for key, value in query.multi_items():
        if _base_name(key) == "include" and value not in _INCLUDABLE:
            expected = ", ".join(f"'{name}'" for name in _INCLUDABLE)
            raise InvalidRequest(
                f"Invalid value for 'include': '{value:.{_MAX_QUOTED}}'. Expected one of {expected}.", param="include"
            )


def parse_entries(query: QueryParams, name: str) -> Iterator[tuple[str, str]]:
    """`metadata[a]=b` as `("a", "b")`, for every such parameter."""
    for key in query:
        if _base_name(key) != name:
            continue
        found = re.fullmatch(r"\[([^\[\]]+)\]", key.removeprefix(name))
        values = query.getlist(key)
        if found is None or len(values) > 1:
            raise InvalidRequest(f"Invalid value for '{name}': write {name}[key]=value, once for each key.", param=name)
        yield found.group(1), values[0]


def _base_name(key: str) -> str:
    """`include` of `include[]`, `metadata` of `metadata[a]`; others are written without brackets."""
    found = _BRACKETED.match(key)
    return found.group(1) if found else key
