"""Ids for responses, items and calls, which cannot be guessed."""

import os
import time
from struct import Struct
from typing import Final

_POOL_BLOCK: Final = Struct("24s" * 64)

_TIME_BYTES: Final = 6

_random_pool: list[bytes] = []
"""Random bytes for the next ids. They are drawn for many ids at once, because the system call takes longer than all
other work for one id."""

os.register_at_fork(after_in_child=_random_pool.clear)  # else parent and child would create the same ids


def random_hex() -> str:
    """Returns 192 random bits in hex."""
    return draw_random_bytes().hex()


def new_id(prefix: str, /) -> str:
    """Returns `prefix`, an underscore, the time in milliseconds as 12 hex digits, and 144 random bits in hex.

    Such an id cannot be guessed, and is as long as OpenAI's. Ids that are created one after another are neighbours in a
    database's indexes: a commit writes the last page of an index then, and not a random page for each id.
    """
    milliseconds = time.time_ns() // 1_000_000
    # All digits at once: to format a number takes as long as everything else here.
    return f"{prefix}_{(milliseconds.to_bytes(_TIME_BYTES) + draw_random_bytes()[_TIME_BYTES:]).hex()}"


def draw_random_bytes() -> bytes:
    """Returns 24 random bytes."""
    try:
        return _random_pool.pop()
    except IndexError:
        first: bytes
        first, *others = _POOL_BLOCK.unpack(os.urandom(_POOL_BLOCK.size))
        _random_pool.extend(others)
        return first
