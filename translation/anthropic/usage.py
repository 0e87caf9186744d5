"""Token counts as the Messages API reports them: what came from the cache or went into it is not in `input_tokens`."""

from typing import Any, Final

from translation.decoding.usage_counts import clamp_part, read_count
from translation.representation.events import Usage
from translation.representation.json_types import Json

_INPUT_KEYS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def read_usage(reported: Any, before: Usage | None = None) -> Usage | None:
    """Make sense of a `usage` object, given what the same reply reported before it: counts only grow.

    Thinking is inside the output, and not counted by itself. `raw` is all that was reported.
    """
    if not isinstance(reported, dict):
        return before
    raw: Json = dict(before.raw or {}) if before else {}
    for key, value in reported.items():
        earlier, count = read_count(raw.get(key)), read_count(value)
        if value is not None and (earlier is None or count is None or count > earlier):
            raw[key] = value
    fresh, written, read = (read_count(raw.get(key)) for key in _INPUT_KEYS)
    total = None if fresh is None else fresh + (written or 0) + (read or 0)
    return Usage(
        input=total,
        output=read_count(raw.get("output_tokens")),
        cache_read=clamp_part(read, total),
        cache_write=clamp_part(written, total),
        raw=raw,
    )
