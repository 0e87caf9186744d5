"""Checks the URL of the store, and suggests the right one for URLs of other programs."""

from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

SQLITE_PREFIX: Final = "sqlite+aiosqlite:///"
POSTGRESQL_PREFIX: Final = "postgresql+asyncpg://"

_POSTGRESQL_SCHEMES: Final = frozenset(
    {"postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg2", "postgresql+asyncpg"}
)

_HIDDEN: Final = "PASSWORD"


def find_url_problem(url: str) -> str | None:
    """Returns the advice for a URL that cannot be used, without its password; None if it can be used."""
    if url.startswith(SQLITE_PREFIX):
        # Each connection to an in-memory database would have a database of its own.
        if url.removeprefix(SQLITE_PREFIX).partition("?")[0] not in ("", ":memory:"):
            return None
    elif url.startswith(POSTGRESQL_PREFIX) and "sslmode" not in dict(parse_qsl(urlsplit(url).query)):
        return None
    suggestion = _suggest_url(url)
    return f"write {suggestion}" if suggestion else f"write {SQLITE_PREFIX}FILE, {POSTGRESQL_PREFIX}... or null"


def _suggest_url(url: str) -> str | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme == "sqlite" and url.startswith("sqlite:///") and parts.path.strip("/") not in ("", ":memory:"):
        return SQLITE_PREFIX + url.removeprefix("sqlite:///")
    if parts.scheme not in _POSTGRESQL_SCHEMES or not parts.hostname:
        return None
    # The driver's name for libpq's `sslmode` is `ssl`.
    query = [("ssl" if name == "sslmode" else name, value) for name, value in parse_qsl(parts.query)]
    credentials, at, host = parts.netloc.rpartition("@")
    user, colon, _ = credentials.partition(":")
    hidden = f"{user}{colon}{_HIDDEN if colon else ''}{at}"
    return f"{POSTGRESQL_PREFIX}{hidden}{host}{parts.path}{'?' + urlencode(query) if query else ''}"
