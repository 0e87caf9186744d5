"""Token counts as chat upstreams report them. They differ in where the details are."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from translation.decoding import logprobs
from translation.decoding.usage_counts import clamp_part, read_count
from translation.representation.events import Usage
from translation.representation.json_types import Json


def read_logprobs(choice: Json) -> list[Json] | None:
    """The tokens of a choice's text in the full Responses form; `None` where none were sent."""
    reported = choice.get("logprobs")
    if not isinstance(reported, dict):
        return None
    return logprobs.read_logprobs(reported.get("content") or reported.get("refusal"))


_COUNT_PATHS: Final = (
    ("input", "prompt_tokens", None),
    ("input", "input_tokens", None),
    ("output", "completion_tokens", None),
    ("output", "output_tokens", None),
    ("cache_read", "prompt_tokens_details", "cached_tokens"),
    ("cache_read", "prompt_cache_hit_tokens", None),  # DeepSeek
    ("cache_read", "cached_tokens", None),  # Moonshot
    ("cache_read", "cache_read_input_tokens", None),  # Anthropic's name, kept by some gateways
    ("cache_write", "prompt_tokens_details", "cache_write_tokens"),
    ("cache_write", "prompt_tokens_details", "created_cache_tokens"),  # vLLM
    ("cache_write", "cache_creation_input_tokens", None),
    ("reasoning", "completion_tokens_details", "reasoning_tokens"),
    ("reasoning", "reasoning_tokens", None),
)
"""Field of Usage; where upstreams put it: a key, and the key in the object there. The first that is a number counts."""

_NO_COUNTS: Final[dict[str, int | None]] = dict.fromkeys(("input", "output", "cache_read", "cache_write", "reasoning"))

_SUBCOUNTS: Final = (("cache_read", "input"), ("cache_write", "input"), ("reasoning", "output"))
"""Fields of Usage that are part of another."""


def read_usage(reported: Json, before: Usage | None = None) -> Usage:
    """Make sense of a `usage` object, given what the same stream reported before it.

    Counts never fall and are never negative, and no part is larger than its whole. `raw` is the object as it came.
    """
    counts: dict[str, int | None] = _NO_COUNTS.copy()
    places, parts = _paths_in(*reported)
    for name, key, inner in places:
        if counts[name] is not None:
            continue
        found: Any = reported[key]
        if inner is not None:
            found = found.get(inner) if isinstance(found, dict) else None
        counts[name] = read_count(found)
    if before is not None:
        for name, count in counts.items():
            earlier = getattr(before, name)
            counts[name] = earlier if count is None else max(count, earlier or 0)
    for part, whole in parts if before is None else _SUBCOUNTS:
        counts[part] = clamp_part(counts[part], counts[whole])
    return Usage(
        counts["input"], counts["output"], counts["cache_read"], counts["cache_write"], counts["reasoning"], reported
    )


@lru_cache(64)
def _paths_in(*keys: str) -> tuple[Sequence[tuple[str, str, str | None]], Sequence[tuple[str, str]]]:
    """Those that an object with these keys has, and the parts that are in them. An upstream's objects all have the same
    keys, or nearly."""
    places = tuple(place for place in _COUNT_PATHS if place[1] in keys)
    named = {name for name, _, _ in places}
    return places, tuple(each for each in _SUBCOUNTS if each[0] in named)
