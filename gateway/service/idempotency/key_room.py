"""Bounds the idempotency keys that an owner has stored, without counting them for each request."""

import time
from collections.abc import Callable
from typing import Final

from gateway.errors import TooManyKeys
from gateway.state.idempotency import KeyStore

_COUNT_S: Final = 60.0
"""Seconds for which a count is used. Other processes store keys meanwhile, so the bound is not exact."""

_FULL_COUNT_S: Final = 1.0
"""Seconds for which a count that leaves no room is used: keys expire, and responses are deleted."""


class KeyRoom:
    """Knows how many keys each owner has stored. The owners are those of the configuration, so they are few."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._counts: dict[str, tuple[int, float]] = {}
        """Owner -> number of keys, and the time at which they were counted in the database."""

    async def take(self, store: KeyStore, owner: str) -> None:
        """Counts one key more. Raises TooManyKeys if the owner has as many as the limit allows."""
        count, counted_at = self._counts.get(owner, (0, -_COUNT_S))
        if self._clock() - counted_at >= (_COUNT_S if count < self._limit else _FULL_COUNT_S):
            count, counted_at = await store.count_keys(owner, self._limit), self._clock()
        self._counts[owner] = (min(count + 1, self._limit), counted_at)
        if count >= self._limit:
            raise TooManyKeys(self._limit)
