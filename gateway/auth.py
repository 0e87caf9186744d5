"""Key to principal."""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from gateway.errors import NotAuthenticated
from gateway.settings import AuthSettings


class Principal(NamedTuple):
    """Who asks, and which model names (patterns) they may use."""

    name: str
    models: tuple[str, ...]


ANONYMOUS = Principal("anonymous", ("*",))


class Authenticator:
    """Looks keys up by their hash, so that how long it takes says nothing about the keys."""

    def __init__(self, auth: AuthSettings | None) -> None:
        self._principals = {_digest(key.secret): Principal(key.name, key.models) for key in (auth.keys if auth else ())}

    def authenticate(self, headers: Mapping[str, str]) -> Principal:
        """`Authorization: Bearer KEY`. Without configured keys everyone is `anonymous`. Raises NotAuthenticated."""
        if not self._principals:
            return ANONYMOUS
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise NotAuthenticated("no API key: send it as 'Authorization: Bearer KEY'")
        principal = self._principals.get(_digest(key.strip()))
        if principal is None:
            raise NotAuthenticated("the API key is not one of this server's")
        return principal


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
