"""Reads the header `Idempotency-Key`, and limits the keys that an owner has stored."""

import time
from collections.abc import Callable
from hashlib import sha256
from typing import Final

import orjson

from gateway.errors import TooManyKeys
from gateway.state.idempotency import KeyedRequest, KeyStore
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss

KEY_HEADER: Final = b"idempotency-key"

KEY_IGNORED: Final = Loss("Idempotency-Key", "ignored")
"""The loss of a response that is not stored: if its request is sent again, it is run again."""

_MAX_KEY_CHARS: Final = 255
_FORM_PARAMS: Final = frozenset({"stream", "stream_options"})
"""Parameters that change how a response is sent, but not its content."""

_COUNT_S: Final = 60.0
"""Seconds for which a count is used. Other processes store keys meanwhile, so the bound is not exact."""

_FULL_COUNT_S: Final = 1.0
"""Seconds for which a count that has reached the limit is used: keys expire, and responses are deleted."""


def read_keyed_request(header: bytes, body: Json) -> KeyedRequest:
    """Returns the key of a request with the digest of its body. Raises InvalidRequest for a malformed key.

    Whether the response is streamed makes no difference: clients whose stream broke request the same response as JSON.
    """
    key = header.decode("latin-1")
    if not (key.isascii() and key.isprintable() and 0 < len(key) <= _MAX_KEY_CHARS):
        raise InvalidRequest(
            f"Idempotency-Key must be 1 to {_MAX_KEY_CHARS} printable ASCII characters, such as a UUID",
            param="Idempotency-Key",
        )
    content = {name: value for name, value in body.items() if name not in _FORM_PARAMS}
    return KeyedRequest(key=key, digest=sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest())


class KeyQuota:
    """Limits the keys that each owner has stored, without counting them for each request.

    Owners are the names of configured keys, so there are few.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._counts: dict[str, tuple[int, float]] = {}
        """Owner -> number of keys, and the time at which they were counted in the database."""

    async def reserve(self, store: KeyStore, owner: str, own_limit: int | None = None) -> None:
        """Counts one more key of the owner.

        Raises TooManyKeys if the owner has reached the limit, or `own_limit` if its API key has one.
        """
        limit = self._limit if own_limit is None else own_limit
        count, counted_at = self._counts.get(owner, (0, -_COUNT_S))
        if self._clock() - counted_at >= (_COUNT_S if count < limit else _FULL_COUNT_S):
            count, counted_at = await store.count_keys(owner, limit), self._clock()
        self._counts[owner] = (min(count + 1, limit), counted_at)
        if count >= limit:
            raise TooManyKeys(limit)
