"""Describes one case of a request field."""

from typing import NamedTuple

from translation.representation.json_types import Json


class Case(NamedTuple):
    """`asked` is `plain` with the field, or with another value of it. `place` is the field's in the request, without
    indices; `value` what an upstream that is told of it must find, where it can be looked for."""

    place: str
    plain: Json
    asked: Json
    value: str | None = None
