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


_COUNTS: Final = ("input", "output", "cache_read", "cache_write", "reasoning")
"""The counts of Usage, in their order there."""

_INPUT, _OUTPUT, _CACHE_READ, _CACHE_WRITE, _REASONING = range(len(_COUNTS))

_COUNT_PATHS: Final = (
    (_INPUT, "prompt_tokens", None),
    (_INPUT, "input_tokens", None),
    (_OUTPUT, "completion_tokens", None),
    (_OUTPUT, "output_tokens", None),
    (_CACHE_READ, "prompt_tokens_details", "cached_tokens"),
    (_CACHE_READ, "prompt_cache_hit_tokens", None),  # DeepSeek
    (_CACHE_READ, "cached_tokens", None),  # Moonshot
    (_CACHE_READ, "cache_read_input_tokens", None),  # Anthropic's name, which some gateways pass on
    (_CACHE_WRITE, "prompt_tokens_details", "cache_write_tokens"),
    (_CACHE_WRITE, "prompt_tokens_details", "created_cache_tokens"),  # vLLM
    (_CACHE_WRITE, "cache_creation_input_tokens", None),
    (_REASONING, "completion_tokens_details", "reasoning_tokens"),
    (_REASONING, "reasoning_tokens", None),
)
"""(place of a count, key in `usage`, key in the object under that key or None). The first number found is used."""

_CACHE_KEYS: Final = frozenset({"cache_read_input_tokens", "cache_creation_input_tokens", "cached_tokens"})
"""Keys of cached tokens that some upstreams do not count as input."""

_SUBCOUNTS: Final = ((_CACHE_READ, _INPUT), (_CACHE_WRITE, _INPUT), (_REASONING, _OUTPUT))
"""(place of a count, place of the count that includes it)."""


def read_usage(reported: Json, before: Usage | None = None) -> Usage:
    """Returns the counts of a `usage` object. `before` is what the same stream reported earlier.

    Counts never fall below those in `before`, are never negative, and no part is larger than its whole. The output
    includes the reasoning, also where an upstream counts it separately. `raw` is the upstream's object, unchanged.
    """
    counts: list[int | None] = [None] * len(_COUNTS)
    paths, subcounts = _paths_in(*reported)
    for place, key, inner in paths:
        if counts[place] is not None:
            continue
        value: Any = reported[key]
        if inner is not None:
            value = value.get(inner) if isinstance(value, dict) else None
        counts[place] = read_count(value)
    if (total := reported.get("total_tokens")) is not None:
        _include_reasoning(counts, read_count(total), counts_caches_apart=not _CACHE_KEYS.isdisjoint(reported))
    if before is not None:
        subcounts = _SUBCOUNTS
        for place, name in enumerate(_COUNTS):
            earlier, count = getattr(before, name), counts[place]
            counts[place] = earlier if count is None else max(count, earlier or 0)
    for place, whole in subcounts:
        counts[place] = clamp_part(counts[place], counts[whole])
    total_input, output, cache_read, cache_write, reasoning = counts
    return Usage(total_input, output, cache_read, cache_write, reasoning, reported)


def _include_reasoning(counts: list[int | None], total: int | None, *, counts_caches_apart: bool) -> None:
    """Adds the reasoning to the output, in place, if the upstream counts it beside the output, as its total tells.

    xAI does so: https://docs.x.ai/docs/key-information/consumption-and-rate-limits. Gemini's chat API does not even
    name the reasoning: only its total has it. Cached tokens that are counted apart may be in a total too.
    """
    total_input, output, reasoning = counts[_INPUT], counts[_OUTPUT], counts[_REASONING]
    if total is None or output is None:
        return
    missing = total - (total_input or 0) - output
    is_unnamed = reasoning is None and total_input is not None and not counts_caches_apart
    if missing > 0 and (missing == reasoning or is_unnamed):
        counts[_OUTPUT] = output + missing


@lru_cache(64)
def _paths_in(*keys: str) -> tuple[Sequence[tuple[int, str, str | None]], Sequence[tuple[int, int]]]:
    """Returns the rows of `_COUNT_PATHS` for an object with these keys, and the rows of `_SUBCOUNTS` they can fill.

    The result is cached, because the usage objects of one upstream nearly always have the same keys.
    """
    paths = tuple(path for path in _COUNT_PATHS if path[1] in keys)
    places = {place for place, _, _ in paths}
    return paths, tuple(subcount for subcount in _SUBCOUNTS if subcount[0] in places)
