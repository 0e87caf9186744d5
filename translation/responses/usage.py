"""Reads and builds token counts in the Responses API's shape."""

from typing import Final

from translation.decoding.usage import clamp_part, read_count
from translation.representation.events import Usage
from translation.representation.json_types import Json, mapping_or_empty

_REQUIRED_DETAILS: Final = {
    "input_tokens_details": ("cached_tokens", "cache_write_tokens"),
    "output_tokens_details": ("reasoning_tokens",),
}
"""Key of the details of a count -> the counts that it must have."""


def read_usage(reported: Json | None) -> Usage | None:
    """Returns the counts of an upstream's `usage` object, `None` without one.

    No count is negative, and no part is larger than its whole. `raw` is the upstream's object.
    """
    if not reported:
        return None
    input_details = mapping_or_empty(reported.get("input_tokens_details"))
    output_details = mapping_or_empty(reported.get("output_tokens_details"))
    input_tokens, output_tokens = read_count(reported.get("input_tokens")), read_count(reported.get("output_tokens"))
    return Usage(
        input=input_tokens,
        output=output_tokens,
        cache_read=clamp_part(read_count(input_details.get("cached_tokens")), input_tokens),
        cache_write=clamp_part(read_count(input_details.get("cache_write_tokens")), input_tokens),
        reasoning=clamp_part(read_count(output_details.get("reasoning_tokens")), output_tokens),
        raw=reported,
    )


def fill_counts(reported: object) -> object:
    """Returns an upstream's `usage` object with the details that the API requires, 0 where the upstream has none.

    Older servers do not report all of them, and strict clients refuse a response without them. The same object is
    returned if nothing is missing, or if there are no counts at all.
    """
    if not isinstance(reported, dict) or not reported:
        return reported
    filled = reported
    for name, counts in _REQUIRED_DETAILS.items():
        details = reported.get(name) or {}
        if not isinstance(details, dict) or any(details.get(count) is None for count in counts):
            known = details if isinstance(details, dict) else {}
            present = {count: value for count, value in known.items() if value is not None}
            filled = {**filled, name: {**dict.fromkeys(counts, 0), **present}}
    return filled


def write_usage(usage: Usage | None, upstream: Json | None = None) -> Json | None:
    """Returns the `usage` object of a response, `None` if the upstream reported neither input nor output tokens.

    The API requires every count, so a count that the upstream did not report is 0. `upstream` is the upstream's own
    `usage` in this shape, if it has one: its additional keys are kept.
    """
    if usage is None or (usage.input is None and usage.output is None):
        return None
    input_tokens, output_tokens = usage.input or 0, usage.output or 0
    input_details = {"cached_tokens": usage.cache_read or 0, "cache_write_tokens": usage.cache_write or 0}
    output_details = {"reasoning_tokens": usage.reasoning or 0}
    counts = {
        "input_tokens": input_tokens,
        "input_tokens_details": input_details,
        "output_tokens": output_tokens,
        "output_tokens_details": output_details,
        "total_tokens": input_tokens + output_tokens,
    }
    if not upstream:
        return counts
    counts["input_tokens_details"] = {**(upstream.get("input_tokens_details") or {}), **input_details}
    counts["output_tokens_details"] = {**(upstream.get("output_tokens_details") or {}), **output_details}
    return {**upstream, **counts}


def build_tool_usage(searches: int) -> Json:
    """Returns `tool_usage` of a response whose tools searched the web so many times. Other tools count as not used."""
    no_tokens = {"image_tokens": 0, "text_tokens": 0}
    image_gen = {
        "input_tokens": 0,
        "input_tokens_details": no_tokens,
        "output_tokens": 0,
        "output_tokens_details": no_tokens,
        "total_tokens": 0,
    }
    return {"image_gen": image_gen, "web_search": {"num_requests": searches}}
