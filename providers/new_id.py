"""Random ids for items and calls."""

import os
from struct import Struct
from typing import Final

_IDS: Final = Struct("24s" * 64)

_drawn: list[bytes] = []
"""Random bits that are in no id yet. Drawn for many ids at once: asking the system takes longer than all else that is
done for one."""

os.register_at_fork(after_in_child=_drawn.clear)  # or parent and child would give the same ids


def random_bits() -> str:
    """192 random bits in hex, which nobody else is given."""
    try:
        return _drawn.pop().hex()
    except IndexError:
        first, *others = _IDS.unpack(os.urandom(_IDS.size))
        _drawn.extend(others)
        return bytes.hex(first)


def new_id(prefix: str, /) -> str:
    """`prefix`, an underscore and 192 random bits in hex: unguessable, as long as OpenAI's own."""
    return f"{prefix}_{random_bits()}"
