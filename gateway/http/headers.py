"""Headers as they are sent: a request's, and a reply's."""

from collections.abc import Mapping
from typing import Final

from starlette.types import Scope

_HEADERS: Final = "gateway.headers"
"""Scope key."""


def headers_of(scope: Scope) -> Mapping[bytes, bytes]:
    """By name in lower case. Of several with one name, the first."""
    found: Mapping[bytes, bytes] | None = scope.get(_HEADERS)
    if found is None:
        found = scope[_HEADERS] = dict(reversed(scope["headers"]))
    return found


def raw_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """A reply's; the names are in lower case."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
