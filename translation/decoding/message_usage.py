"""Reads token counts of the Messages API. Its `input_tokens` excludes tokens read from the cache or written to it."""

from typing import Any, Final

from translation.decoding.usage_counts import clamp_part, read_count
from translation.representation.events import Usage
from translation.representation.json_types import Json

_INPUT_KEYS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def read_usage(reported: Any, before: Usage | None = None) -> Usage | None:
    """Returns the counts of a `usage` object, added to those in `before`, which the same reply reported earlier.

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
    uncached, written, read = (read_count(raw.get(key)) for key in _INPUT_KEYS)
    total = None if uncached is None else uncached + (written or 0) + (read or 0)
    return Usage(
        input=total,
        output=read_count(raw.get("output_tokens")),
        cache_read=clamp_part(read, total),
        cache_write=clamp_part(written, total),
        raw=raw,
    )
