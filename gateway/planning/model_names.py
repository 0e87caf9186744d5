"""Suggests models to a client that requested one which does not exist."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_MAX_NAME_CHARS: Final = 100
_MAX_NAMES: Final = 300
"""Comparing takes quadratic time in the length of the names, and some upstreams list thousands."""

_MIN_SIMILARITY: Final = 0.6
_MAX_SUGGESTIONS: Final = 3


def suggest_models(name: str, known: Iterable[str]) -> str:
    """Returns the end of an error message: the models of `known` with a similar name, or where to find all of them."""
    names = {known_name.lower(): known_name for _, known_name in zip(range(_MAX_NAMES), known, strict=False)}
    is_comparable = len(name) <= _MAX_NAME_CHARS
    near = get_close_matches(name.lower(), names, n=_MAX_SUGGESTIONS, cutoff=_MIN_SIMILARITY) if is_comparable else []
    if not near:
        return "GET /v1/models lists those that do"
    return f"did you mean {' or '.join(names[match] for match in near)}?"
