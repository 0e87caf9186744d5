"""Headers as they are sent: a request's, and a reply's."""

from collections.abc import Mapping
from typing import Final

from starlette.types import Scope

_SCOPE_KEY: Final = "gateway.headers"
"""Scope key."""


def headers_of(scope: Scope) -> Mapping[bytes, bytes]:
    """By name in lower case. Of several with one name, the first."""
    headers: Mapping[bytes, bytes] | None = scope.get(_SCOPE_KEY)
    if headers is None:
        headers = scope[_SCOPE_KEY] = dict(reversed(scope["headers"]))
    return headers


def encode_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """A reply's; the names are in lower case."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
