"""Suggests models to a client that requested one which does not exist."""

from collections.abc import Iterable
from heapq import nlargest
from itertools import islice
from typing import Final

_MAX_NAME_CHARS: Final = 100
_MAX_NAMES: Final = 300
"""The number of names that are compared. Some upstreams list thousands, and clients may repeat the request."""

_MIN_SIMILARITY: Final = 0.6
_MAX_SUGGESTIONS: Final = 3


def suggest_models(name: str, known: Iterable[str]) -> str:
    """Returns the end of an error message: the models of `known` with a similar name, or where to find all of them."""
    requested = _pairs_of(name)
    scores = {known_name: _similarity(requested, _pairs_of(known_name)) for known_name in islice(known, _MAX_NAMES)}
    near = [
        best for best in nlargest(_MAX_SUGGESTIONS, scores, key=scores.__getitem__) if scores[best] >= _MIN_SIMILARITY
    ]
    return f"did you mean {' or '.join(near)}?" if near else "GET /v1/models lists those that do"


def _pairs_of(name: str) -> set[str]:
    """Returns the pairs of neighbouring characters of a name, in lower case; none of a name that is too long."""
    name = name.lower()
    return {name[start : start + 2] for start in range(len(name) - 1)} if len(name) <= _MAX_NAME_CHARS else set()


def _similarity(pairs: set[str], other_pairs: set[str]) -> float:
    """Returns the share of pairs that two names have in common, from 0 to 1. Unlike an edit distance it takes linear
    time."""
    return 2 * len(pairs & other_pairs) / ((len(pairs) + len(other_pairs)) or 1)
