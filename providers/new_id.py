"""Random ids for items and calls."""

import os
from struct import Struct
from typing import Final

_POOL_BLOCK: Final = Struct("24s" * 64)

_random_pool: list[bytes] = []
"""Random bits that are in no id yet. Drawn for many ids at once: asking the system takes longer than all else that is
done for one."""

os.register_at_fork(after_in_child=_random_pool.clear)  # or parent and child would give the same ids


def random_hex() -> str:
    """192 random bits in hex, which nobody else is given."""
    try:
        return _random_pool.pop().hex()
    except IndexError:
        first, *others = _POOL_BLOCK.unpack(os.urandom(_POOL_BLOCK.size))
        _random_pool.extend(others)
        return bytes.hex(first)


def new_id(prefix: str, /) -> str:
    """`prefix`, an underscore and 192 random bits in hex: unguessable, as long as OpenAI's own."""
    return f"{prefix}_{random_hex()}"
