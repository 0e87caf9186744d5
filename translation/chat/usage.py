"""Reads token counts and log probabilities from chat upstreams, which put the details of a count in different fields.

Does not know whether they come from a stream or from a whole reply.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from translation.decoding.usage import clamp_part, read_count, read_token_logprobs
from translation.representation.events import Usage
from translation.representation.json_types import Json


def read_logprobs(choice: Json) -> list[Json] | None:
    """Returns the log probabilities of a choice's text or refusal in the full Responses form, `None` without any."""
    reported = choice.get("logprobs")
    if not isinstance(reported, dict):
        return None
    return read_token_logprobs(reported.get("content") or reported.get("refusal"))


_COUNT_PATHS: Final = (
    ("input", "prompt_tokens", None),
    ("input", "input_tokens", None),
    ("output", "completion_tokens", None),
    ("output", "output_tokens", None),
    ("cache_read", "prompt_tokens_details", "cached_tokens"),
    ("cache_read", "prompt_cache_hit_tokens", None),  # DeepSeek
    ("cache_read", "cached_tokens", None),  # Moonshot
    ("cache_read", "cache_read_input_tokens", None),  # Anthropic's name, which some gateways pass on
    ("cache_write", "prompt_tokens_details", "cache_write_tokens"),
    ("cache_write", "prompt_tokens_details", "created_cache_tokens"),  # vLLM
    ("cache_write", "cache_creation_input_tokens", None),
    ("reasoning", "completion_tokens_details", "reasoning_tokens"),
    ("reasoning", "reasoning_tokens", None),
)
"""(field of Usage, key in `usage`, key in the object under that key or None). The first number found is used."""

_NO_COUNTS: Final[dict[str, int | None]] = dict.fromkeys(("input", "output", "cache_read", "cache_write", "reasoning"))

_SUBCOUNTS: Final = (("cache_read", "input"), ("cache_write", "input"), ("reasoning", "output"))
"""(field of Usage, the field whose count includes it)."""


def read_usage(reported: Json, before: Usage | None = None) -> Usage:
    """Returns the counts of a `usage` object. `before` is what the same stream reported earlier.

    Counts never fall below those in `before`, are never negative, and no part is larger than its whole. `raw` is the
    upstream's object, unchanged.
    """
    counts: dict[str, int | None] = _NO_COUNTS.copy()
    paths, subcounts = _paths_in(*reported)
    for name, key, inner in paths:
        if counts[name] is not None:
            continue
        value: Any = reported[key]
        if inner is not None:
            value = value.get(inner) if isinstance(value, dict) else None
        counts[name] = read_count(value)
    if before is not None:
        for name, count in counts.items():
            earlier = getattr(before, name)
            counts[name] = earlier if count is None else max(count, earlier or 0)
    for name, whole in subcounts if before is None else _SUBCOUNTS:
        counts[name] = clamp_part(counts[name], counts[whole])
    return Usage(
        counts["input"], counts["output"], counts["cache_read"], counts["cache_write"], counts["reasoning"], reported
    )


@lru_cache(64)
def _paths_in(*keys: str) -> tuple[Sequence[tuple[str, str, str | None]], Sequence[tuple[str, str]]]:
    """Returns the rows of `_COUNT_PATHS` for an object with these keys, and the rows of `_SUBCOUNTS` they can fill.

    The result is cached, because the usage objects of one upstream nearly always have the same keys.
    """
    paths = tuple(path for path in _COUNT_PATHS if path[1] in keys)
    names = {name for name, _, _ in paths}
    return paths, tuple(subcount for subcount in _SUBCOUNTS if subcount[0] in names)
