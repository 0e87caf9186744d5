"""When a figure differs from another by more than its own scatter. Figures are the rounds of one run."""

from collections.abc import Sequence
from statistics import median
from typing import Literal

Verdict = Literal["", "better", "worse"]

_MATTERS = 0.05
"""Less than this share is not worth a mark, however sure."""
_ROUNDS = 3
_BY_CHANCE = 0.25
"""With fewer rounds their scatter is not known: only what is this much apart is marked."""


def change(before: Sequence[float], after: Sequence[float]) -> float:
    """Of the medians, as a share of the old one; nothing where both are nothing."""
    old, new = median(before), median(after)
    if old == new:
        return 0.0
    return (new - old) / old if old else float("inf")


def verdict(before: Sequence[float], after: Sequence[float]) -> Verdict:
    """Less is better. Only where no round of the one lies among the rounds of the other, and the medians are apart."""
    few = min(len(before), len(after)) < _ROUNDS
    if abs(change(before, after)) <= (_BY_CHANCE if few else _MATTERS):
        return ""
    if min(after) > max(before):
        return "worse"
    if max(after) < min(before):
        return "better"
    return ""
