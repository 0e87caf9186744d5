"""API keys: finds the principal that a request's key belongs to. Knows no paths and no models."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from starlette.types import Scope

from gateway.config.auth_settings import ANONYMOUS_NAME, ApiKeySettings, AuthSettings, LimitSettings
from gateway.errors import NotAuthenticated
from gateway.http.headers import headers_of
from gateway.logs import MAX_LOGGED_CHARS, bind_fields


@dataclass(frozen=True, slots=True)
class Principal:
    """The client of a request: the owner of its API key, and the patterns of models and servers that it may use.

    `owner` owns what is stored; several keys may have the same one. `mcp_servers` are the patterns of labels of the
    operator's MCP servers. `is_admin`: it may change these servers. `key_name` is the name of the key in the
    configuration; it is empty for a job that is resumed, whose key is not known.
    """

    owner: str
    models: tuple[str, ...]
    mcp_servers: tuple[str, ...] = ("*",)
    is_admin: bool = False
    key_name: str = ""
    limits: LimitSettings | None = None
    """The limits of a key that has its own; None for those of the configuration."""


GOOGLE_KEY_HEADER: Final = b"x-goog-api-key"
"""The header for keys of clients made for Gemini's API."""

ANONYMOUS = Principal(ANONYMOUS_NAME, ("*",), key_name=ANONYMOUS_NAME)

_DEFAULT_LIMITS: Final = LimitSettings()

_CHALLENGE = {"www-authenticate": "Bearer"}

_HINT_CHARS: Final = 4
"""The last characters of an unknown key that a log line shows."""

_MIN_HINTED_CHARS: Final = 20
"""The shortest key of which characters are shown."""


class _KnownKey(NamedTuple):
    digest: bytes
    principal: Principal
    settings: ApiKeySettings


class Authenticator:
    """Looks up keys by their SHA-256 hashes.

    The time that a lookup takes reveals nothing about the keys: nobody can choose the hash of a key, the table compares
    hashes only if their seeded 64-bit hashes are equal, and the last comparison takes constant time.
    """

    def __init__(self, auth: AuthSettings | None, limits: LimitSettings = _DEFAULT_LIMITS) -> None:
        """`limits` are those of keys that have none of their own."""
        self._keys = {
            key.digest: _KnownKey(key.digest, _build_principal(key, limits), key) for key in (auth.keys if auth else ())
        }

    def authenticate(self, headers: Mapping[bytes, bytes]) -> Principal:
        """Returns the principal of the key in `Authorization: Bearer KEY`, or else in `x-api-key` or
        `x-goog-api-key`.

        If no keys are configured, everyone is `ANONYMOUS`. Raises NotAuthenticated for a key that is missing, unknown
        or expired.
        """
        if not self._keys:
            return ANONYMOUS
        key = find_key(headers)
        if not key:
            message = "no API key: send it as 'Authorization: Bearer KEY' or as 'x-api-key: KEY'"
            raise NotAuthenticated(message, hint=_describe_missing_key(headers), headers=_CHALLENGE)
        digest = hashlib.sha256(key).digest()
        known = self._keys.get(digest)
        if known is None or not hmac.compare_digest(known.digest, digest):
            raise NotAuthenticated(
                "this server does not know the API key", hint=_describe_unknown_key(key), headers=_CHALLENGE
            )
        if known.settings.expires_at is not None and known.settings.has_expired(datetime.now(UTC)):
            message = f"the API key expired at {known.settings.expires_at.isoformat()}: ask the operator for a new one"
            raise NotAuthenticated(message, hint=f"{known.settings.name}, expired", headers=_CHALLENGE)
        return known.principal


def find_key(headers: Mapping[bytes, bytes]) -> bytes:
    """Returns the API key of a request's headers. It is empty if they have none."""
    scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
    bearer_key = key.strip() if scheme.lower() == b"bearer" else b""
    # Clients made for Anthropic's API send x-api-key. A proxy may add its own `Authorization: Basic`.
    return bearer_key or headers.get(b"x-api-key", b"").strip() or headers.get(GOOGLE_KEY_HEADER, b"").strip()


def bind_refused_key(scope: Scope, hint: str) -> None:
    """Adds to the log line of a request who sent it without a valid key: its address, and a hint at the key."""
    client = scope.get("client")
    fields: dict[str, object] = {"key_hint": hint, "address": client[0] if client else "unknown"}
    if (forwarded := headers_of(scope).get(b"x-forwarded-for")) is not None:
        # Behind a proxy the address is that of the proxy. Anybody may send this header, so it has a field of its own.
        fields["forwarded_for"] = forwarded.decode("latin-1")[:MAX_LOGGED_CHARS]
    bind_fields(**fields)


def _build_principal(key: ApiKeySettings, limits: LimitSettings) -> Principal:
    own_limits = limits.replace_by(key.limits)
    return Principal(key.owner_name, key.models, key.mcp_servers, key.admin, key.name, own_limits)


def _describe_missing_key(headers: Mapping[bytes, bytes]) -> str:
    return "none, the authorization header is not Bearer" if headers.get(b"authorization") else "none"


def _describe_unknown_key(key: bytes) -> str:
    """Returns enough of an unknown key to find it among those of the clients, and too little to use it.

    It may be a valid key with a slip of the pen, or the key of another server.
    """
    text = key.decode("utf-8", "replace")
    if len(text) < _MIN_HINTED_CHARS:
        return f"{len(text)} characters"
    ending = "".join(character if character.isprintable() else "?" for character in text[-_HINT_CHARS:])
    return f"...{ending}, {len(text)} characters"
