"""Reads token counts that upstreams report."""

from typing import Any, Final

_MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON parser represents exactly."""


_NUMBER_TYPES: Final = (int, float)
"""Created once, because `int | float` in the call would create a type each time."""


def read_count(reported: Any) -> int | None:
    """Returns a reported token count as an integer of at least 0; None for a non-number or a number over 2**53 - 1."""
    if type(reported) is int and 0 <= reported <= _MAX_SAFE_INTEGER:
        return reported  # nearly all counts
    if isinstance(reported, bool) or not isinstance(reported, _NUMBER_TYPES) or reported > _MAX_SAFE_INTEGER:
        return None
    return max(int(reported), 0)


def clamp_part(part: int | None, whole: int | None) -> int | None:
    """Returns `part`, but at most `whole`. An unknown (None) part or whole changes nothing."""
    return part if part is None or whole is None else min(part, whole)
