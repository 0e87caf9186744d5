"""Token counts as upstreams report them."""

from typing import Any, Final

_MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest whole number every JSON reader keeps."""


_NUMBER_TYPES: Final = (int, float)
"""Made once: `int | float` where it is asked makes a type each time."""


def read_count(reported: Any) -> int | None:
    """None for what is no number, and for numbers that count nothing."""
    if type(reported) is int and 0 <= reported <= _MAX_SAFE_INTEGER:
        return reported  # as nearly all are
    if isinstance(reported, bool) or not isinstance(reported, _NUMBER_TYPES) or reported > _MAX_SAFE_INTEGER:
        return None
    return max(int(reported), 0)


def clamp_part(part: int | None, whole: int | None) -> int | None:
    """No part is larger than its whole."""
    return part if part is None or whole is None else min(part, whole)
