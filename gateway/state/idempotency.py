"""Idempotency keys: names that clients give to requests, so that one that is sent again is not run again."""

from dataclasses import dataclass
from typing import Protocol


class KeyTaken(Exception):
    """Another request with the same key has begun meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRequest:
    """A request with an idempotency key.

    `digest` is the digest of its body. `replaces` is the response that had the key before, if the key may be reused.
    """

    key: str
    digest: str
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """The record of a key: the digest of its request, its response, and when the response began (epoch seconds)."""

    digest: str
    response_id: str
    created_at: float


class KeyStore(Protocol):
    """Stores the keys of requests. The transaction that creates a response stores the key of its request."""

    async def load_key(self, owner: str, key: str) -> StoredKey | None:
        """Returns the record of a key, or None for an unknown key."""
        ...

    async def count_keys(self, owner: str, limit: int) -> int:
        """Counts the keys of an owner, up to `limit`."""
        ...
