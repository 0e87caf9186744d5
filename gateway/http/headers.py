"""HTTP headers as bytes: looks up headers of a request, and encodes headers of a reply."""

from collections.abc import Mapping
from typing import Final

from starlette.types import Scope

from dataplane.bounded_protocol import HEADERS

UPSTREAM_HEADER: Final = "x-gateway-upstream"
ATTEMPTS_HEADER: Final = "x-gateway-attempts"


def build_upstream_headers(upstream: str | None, attempts: int) -> dict[str, str]:
    """Returns the headers that name the upstream that was asked last, and say how many attempts there were."""
    headers = {ATTEMPTS_HEADER: str(attempts)}
    return headers if upstream is None else {UPSTREAM_HEADER: upstream, **headers}


def headers_of(scope: Scope) -> Mapping[bytes, bytes]:
    """Returns the request's headers by lower-case name. If a name occurs several times, the first value counts."""
    headers: Mapping[bytes, bytes] | None = scope.get(HEADERS)
    if headers is None:
        headers = scope[HEADERS] = dict(reversed(scope["headers"]))  # another server did not build them
    return headers


def set_header(scope: Scope, name: bytes, value: bytes) -> None:
    """Gives a request a header, as if its client had sent it. `name` is in lower case."""
    scope[HEADERS] = {**headers_of(scope), name: value}


def encode_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Returns a reply's headers in ASGI form, encoded as Latin-1. Their names must be in lower case."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
