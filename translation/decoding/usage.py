"""Reads token counts that upstreams report, and the usage of the Messages API, which three packages read."""

from typing import Any, Final

from translation.representation.events import Usage
from translation.representation.json_types import Json

_MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON parser represents exactly."""

_NUMBER_TYPES: Final = (int, float)
"""Created once, because `int | float` in the call would create a type each time."""

_MESSAGE_INPUT_KEYS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""The keys whose sum is the input: the `input_tokens` of the Messages API exclude tokens of the prefix cache."""


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


def read_message_usage(reported: Any, before: Usage | None = None) -> Usage | None:
    """Returns the counts of a `usage` object of the Messages API, added to `before`, the earlier ones of the reply.

    Counts never fall. Tokens of thinking are part of the output, and the API does not report their number. `raw` has
    every key that was reported, with its latest value. Returns `before` if `reported` is not an object.
    """
    if not isinstance(reported, dict):
        return before
    raw: Json = dict(before.raw or {}) if before else {}
    for key, value in reported.items():
        earlier, count = read_count(raw.get(key)), read_count(value)
        if value is not None and (earlier is None or count is None or count > earlier):
            raw[key] = value
    uncached, written, read = (read_count(raw.get(key)) for key in _MESSAGE_INPUT_KEYS)
    total = None if uncached is None else uncached + (written or 0) + (read or 0)
    return Usage(
        input=total,
        output=read_count(raw.get("output_tokens")),
        cache_read=clamp_part(read, total),
        cache_write=clamp_part(written, total),
        raw=raw,
    )
