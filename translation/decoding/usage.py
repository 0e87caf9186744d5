"""Reads what upstreams report about tokens: counts, the usage of the Messages API, and log probabilities."""

from typing import Any, Final

from translation.representation.events import Usage
from translation.representation.json_types import Json

_MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON parser represents exactly."""

_COUNT_ENDINGS: Final = ("tokens", "count")
_QUOTED_CHARS: Final = 40

_NUMBER_TYPES: Final = (int, float)
"""Created once, because `int | float` in the call would create a type each time."""

_MESSAGE_INPUT_KEYS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""The keys whose sum is the input: the `input_tokens` of the Messages API exclude tokens of the prefix cache."""

_ESTIMATED_KEY: Final = _MESSAGE_INPUT_KEYS[0]
"""The key that may have an estimate first. Source: `StreamConverter` in anthropic/anthropic.go of Ollama."""


def read_count(reported: Any) -> int | None:
    """Returns a reported token count as an integer; None for a value that cannot be one: no number, a negative number,
    or one over 2**53 - 1. No count is made up of it."""
    if type(reported) is int and 0 <= reported <= _MAX_SAFE_INTEGER:
        return reported  # nearly all counts
    if isinstance(reported, bool) or not isinstance(reported, _NUMBER_TYPES):
        return None
    return int(reported) if 0 <= reported <= _MAX_SAFE_INTEGER else None


def list_impossible_counts(reported: Json) -> dict[str, str]:
    """Returns the token counts of a usage object that cannot be counts, by their keys, as short texts."""
    return {
        key: str(value)[:_QUOTED_CHARS]
        for key, value in reported.items()
        if key.lower().endswith(_COUNT_ENDINGS)
        and not (value is None or isinstance(value, (dict, list)) or read_count(value) is not None)
    }


def clamp_part(part: int | None, whole: int | None) -> int | None:
    """Returns `part`, but at most `whole`. An unknown (None) part or whole changes nothing."""
    return part if part is None or whole is None else min(part, whole)


def read_message_usage(reported: Any, before: Usage | None = None) -> Usage | None:
    """Returns the counts of a `usage` object of the Messages API, added to `before`, the earlier ones of the reply.

    Counts never fall, except that of the input, which may begin as an estimate. Zero is no count of an input. Tokens of
    thinking are part of the output. `raw` has every key that was reported, with its latest value. Returns `before` if
    `reported` is not an object.
    """
    if not isinstance(reported, dict):
        return before
    raw: Json = dict(before.raw or {}) if before else {}
    for key, value in reported.items():
        earlier, count = read_count(raw.get(key)), read_count(value)
        is_counted = key == _ESTIMATED_KEY and bool(count)
        if value is not None and (earlier is None or count is None or count > earlier or is_counted):
            raw[key] = value
    uncached, written, read = (read_count(raw.get(key)) for key in _MESSAGE_INPUT_KEYS)
    total = None if uncached is None else uncached + (written or 0) + (read or 0)
    output, details = read_count(raw.get("output_tokens")), raw.get("output_tokens_details")
    thinking = read_count(details.get("thinking_tokens")) if isinstance(details, dict) else None
    return Usage(
        input=total,
        output=output,
        cache_read=clamp_part(read, total),
        cache_write=clamp_part(written, total),
        reasoning=clamp_part(thinking, output),
        raw=raw,
    )


def read_token_logprobs(reported: Any) -> list[Json] | None:
    """Returns an entry with token, logprob, bytes and top_logprobs per token, the full form of the Responses API;
    `None` if none were reported.

    Upstreams may send null for `bytes`, which Responses does not allow: it becomes the token's UTF-8 bytes. Entries
    without a string `token` or a numeric `logprob` are left out.
    """
    tokens = [
        {
            **_token_entry(entry),
            "top_logprobs": [_token_entry(alternative) for alternative in _valid_entries(entry.get("top_logprobs"))],
        }
        for entry in _valid_entries(reported)
    ]
    return tokens or None


def _valid_entries(reported: Any) -> list[Json]:
    entries = reported if isinstance(reported, list) else []
    return [
        entry
        for entry in entries
        if isinstance(entry, dict)
        and isinstance(entry.get("token"), str)
        and isinstance(entry.get("logprob"), int | float)
    ]


def _token_entry(entry: Json) -> Json:
    utf8_bytes = entry.get("bytes")
    if not isinstance(utf8_bytes, list):
        utf8_bytes = list(entry["token"].encode())
    return {"token": entry["token"], "logprob": entry["logprob"], "bytes": utf8_bytes}
