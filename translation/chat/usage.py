"""Token counts as chat upstreams report them. They differ in where the details are."""

from typing import Any, Final

from translation.counts import at_most, read_count
from translation.events import Usage
from translation.json_types import Json

_PATHS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "input": (("prompt_tokens",), ("input_tokens",)),
    "output": (("completion_tokens",), ("output_tokens",)),
    "cache_read": (
        ("prompt_tokens_details", "cached_tokens"),
        ("prompt_cache_hit_tokens",),  # DeepSeek
        ("cached_tokens",),  # Moonshot
        ("cache_read_input_tokens",),  # Anthropic's name, kept by some gateways
    ),
    "cache_write": (
        ("prompt_tokens_details", "cache_write_tokens"),
        ("prompt_tokens_details", "created_cache_tokens"),  # vLLM
        ("cache_creation_input_tokens",),
    ),
    "reasoning": (("completion_tokens_details", "reasoning_tokens"), ("reasoning_tokens",)),
}
"""Field of Usage -> where upstreams put it; the first that is a number counts."""


def read_usage(reported: Json, before: Usage | None = None) -> Usage:
    """Make sense of a `usage` object, given what the same stream reported before it.

    Counts never fall and are never negative, and no part is larger than its whole. `raw` is the object as it came.
    """
    counts = {name: _first(reported, paths) for name, paths in _PATHS.items()}
    if before is not None:
        for name, count in counts.items():
            earlier = getattr(before, name)
            counts[name] = earlier if count is None else max(count, earlier or 0)
    for part, whole in (("cache_read", "input"), ("cache_write", "input"), ("reasoning", "output")):
        counts[part] = at_most(counts[part], counts[whole])
    return Usage(**counts, raw=reported)


def _first(reported: Json, paths: tuple[tuple[str, ...], ...]) -> int | None:
    for key, *rest in paths:
        found: Any = reported.get(key)
        for inner in rest:
            found = found.get(inner) if isinstance(found, dict) else None
        if found is not None and (counted := read_count(found)) is not None:
            return counted
    return None
