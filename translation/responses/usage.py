"""Token counts in the Responses API's shape."""

from translation.events import Usage
from translation.json_types import Json


def write(usage: Usage | None, upstream: Json | None = None) -> Json | None:
    """The `usage` object of a response, or None when the upstream counted nothing.

    The API requires every count, so what the upstream left out reads 0. `upstream` is its own `usage` in this shape, if
    it has one: the keys it adds are kept.
    """
    if usage is None or (usage.input is None and usage.output is None):
        return None
    upstream = upstream or {}
    input_tokens, output_tokens = usage.input or 0, usage.output or 0
    return {
        **upstream,
        "input_tokens": input_tokens,
        "input_tokens_details": {
            **(upstream.get("input_tokens_details") or {}),
            "cached_tokens": usage.cache_read or 0,
            "cache_write_tokens": usage.cache_write or 0,
        },
        "output_tokens": output_tokens,
        "output_tokens_details": {
            **(upstream.get("output_tokens_details") or {}),
            "reasoning_tokens": usage.reasoning or 0,
        },
        "total_tokens": input_tokens + output_tokens,
    }
