"""Values of rows: ids of stored objects, and times."""

import time
from typing import Final

_MAX_CHARS: Final = 255


def is_valid_id(text: str) -> bool:
    """Returns whether a row can have this id. Any other id is unknown, and no query is sent for it.

    PostgreSQL's text cannot hold NUL, and neither database accepts a lone surrogate.
    """
    return 0 < len(text) <= _MAX_CHARS and "\0" not in text and text.isprintable()


def read_clock_us() -> int:
    """Returns the time of this machine in epoch microseconds.

    It is for rows whose replicas need not agree to the second. Leases use the clock of the database instead.
    """
    return time.time_ns() // 1000
