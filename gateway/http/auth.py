"""API keys: finds the principal that a request's key belongs to. Knows no paths and no models."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.config.auth_settings import ANONYMOUS_NAME, AuthSettings
from gateway.errors import NotAuthenticated


@dataclass(frozen=True, slots=True)
class Principal:
    """The owner of an API key: its name in the config, and the patterns of models and servers that it may use.

    `mcp_servers` are the patterns of labels of the operator's MCP servers. `is_admin`: it may change these servers.
    """

    name: str
    models: tuple[str, ...]
    mcp_servers: tuple[str, ...] = ("*",)
    is_admin: bool = False


GOOGLE_KEY_HEADER: Final = b"x-goog-api-key"
"""The header for keys of clients made for Gemini's API."""

ANONYMOUS = Principal(ANONYMOUS_NAME, ("*",))

_CHALLENGE = {"www-authenticate": "Bearer"}


class Authenticator:
    """Looks up keys by their SHA-256 hash, so that the time a lookup takes reveals nothing about the keys."""

    def __init__(self, auth: AuthSettings | None) -> None:
        keys = auth.keys if auth else ()
        self._principals = {
            _digest(key.secret.encode()): Principal(key.name, key.models, key.mcp_servers, key.admin) for key in keys
        }

    def authenticate(self, headers: Mapping[bytes, bytes]) -> Principal:
        """Returns the principal of the key in `Authorization: Bearer KEY`, or else in `x-api-key` or
        `x-goog-api-key`.

        If no keys are configured, everyone is `ANONYMOUS`. Raises NotAuthenticated for a missing or unknown key.
        """
        if not self._principals:
            return ANONYMOUS
        key = find_key(headers)
        if not key:
            message = "no API key: send it as 'Authorization: Bearer KEY' or as 'x-api-key: KEY'"
            raise NotAuthenticated(message, headers=_CHALLENGE)
        principal = self._principals.get(_digest(key))
        if principal is None:
            raise NotAuthenticated("this server does not know the API key", headers=_CHALLENGE)
        return principal


def find_key(headers: Mapping[bytes, bytes]) -> bytes:
    """Returns the API key of a request's headers. It is empty if they have none."""
    scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
    bearer_key = key.strip() if scheme.lower() == b"bearer" else b""
    # Clients made for Anthropic's API send x-api-key. A proxy may add its own `Authorization: Basic`.
    return bearer_key or headers.get(b"x-api-key", b"").strip() or headers.get(GOOGLE_KEY_HEADER, b"").strip()


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
