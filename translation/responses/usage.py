"""Token counts in the Responses API's shape."""

from translation.decoding.usage_counts import clamp_part, read_count
from translation.representation.events import Usage
from translation.representation.json_types import Json


def read_usage(reported: Json | None) -> Usage | None:
    """An upstream's own `usage` object. No count is negative, and no part larger than its whole."""
    if not reported:
        return None
    read_from = reported.get("input_tokens_details") or {}
    written = reported.get("output_tokens_details") or {}
    input_tokens, output_tokens = read_count(reported.get("input_tokens")), read_count(reported.get("output_tokens"))
    return Usage(
        input=input_tokens,
        output=output_tokens,
        cache_read=clamp_part(read_count(read_from.get("cached_tokens")), input_tokens),
        cache_write=clamp_part(read_count(read_from.get("cache_write_tokens")), input_tokens),
        reasoning=clamp_part(read_count(written.get("reasoning_tokens")), output_tokens),
        raw=reported,
    )


def write_usage(usage: Usage | None, upstream: Json | None = None) -> Json | None:
    """The `usage` object of a response, or None when the upstream counted nothing.

    The API requires every count, so what the upstream left out reads 0. `upstream` is its own `usage` in this shape, if
    it has one: the keys it adds are kept.
    """
    if usage is None or (usage.input is None and usage.output is None):
        return None
    input_tokens, output_tokens = usage.input or 0, usage.output or 0
    read_from = {"cached_tokens": usage.cache_read or 0, "cache_write_tokens": usage.cache_write or 0}
    written = {"reasoning_tokens": usage.reasoning or 0}
    counts = {
        "input_tokens": input_tokens,
        "input_tokens_details": read_from,
        "output_tokens": output_tokens,
        "output_tokens_details": written,
        "total_tokens": input_tokens + output_tokens,
    }
    if not upstream:
        return counts
    counts["input_tokens_details"] = {**(upstream.get("input_tokens_details") or {}), **read_from}
    counts["output_tokens_details"] = {**(upstream.get("output_tokens_details") or {}), **written}
    return {**upstream, **counts}
