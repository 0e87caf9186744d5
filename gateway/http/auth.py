"""Key to principal."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.config.settings import AuthSettings
from gateway.errors import NotAuthenticated


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks, and which model names (patterns) they may use."""

    name: str
    models: tuple[str, ...]


ANONYMOUS = Principal("anonymous", ("*",))

_CHALLENGE = {"www-authenticate": "Bearer"}


class Authenticator:
    """Looks keys up by their hash, so that how long it takes says nothing about the keys."""

    def __init__(self, auth: AuthSettings | None) -> None:
        keys = auth.keys if auth else ()
        self._principals = {_digest(key.secret.encode()): Principal(key.name, key.models) for key in keys}

    def authenticate(self, headers: Mapping[bytes, bytes]) -> Principal:
        """`Authorization: Bearer KEY`. Without configured keys everyone is `anonymous`. Raises NotAuthenticated."""
        if not self._principals:
            return ANONYMOUS
        scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not (key := key.strip()):
            raise NotAuthenticated("no API key: send it as 'Authorization: Bearer KEY'", headers=_CHALLENGE)
        principal = self._principals.get(_digest(key))
        if principal is None:
            raise NotAuthenticated("the API key is not one of this server's", headers=_CHALLENGE)
        return principal


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
