"""Idempotency keys: names that clients give to requests, so that one that is sent again is not run again."""

from dataclasses import dataclass
from typing import Protocol


class KeyTaken(Exception):
    """Another request with the same key has begun meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRequest:
    """A request with an idempotency key.

    `digest` is that of its body. `replaces` is the response that had the key and no longer holds it, if there is one.
    """

    key: str
    digest: str
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """What is stored of a key: the digest of its request, the response to it, and when that began (epoch seconds)."""

    digest: str
    response_id: str
    created_at: float


class KeyStore(Protocol):
    """Stores the keys of requests. The transaction that creates a response stores the key of its request."""

    async def load_key(self, owner: str, key: str) -> StoredKey | None:
        """Return what is stored of a key, or None for an unknown one."""
        ...

    async def count_keys(self, owner: str, limit: int) -> int:
        """Count the keys of an owner, up to `limit`."""
        ...
