"""Decides whether a figure changed by more than its scatter. A figure is given by the rounds of one run."""

from collections.abc import Sequence
from statistics import median
from typing import Literal

ChangeVerdict = Literal["", "better", "worse"]

_MIN_CHANGE = 0.05
"""A smaller relative change is never marked, however certain it is."""
_ROUNDS = 3
_MIN_CHANGE_FEW_ROUNDS = 0.25
"""With fewer than `_ROUNDS` rounds the scatter is not known, so only a change larger than this is marked."""


def relative_change(before: Sequence[float], after: Sequence[float]) -> float:
    """Returns the change of the medians, relative to the old one; 0 if both are equal, also if both are 0."""
    old, new = median(before), median(after)
    if old == new:
        return 0.0
    return (new - old) / old if old else float("inf")


def judge_change(before: Sequence[float], after: Sequence[float]) -> ChangeVerdict:
    """Returns whether a figure got better (smaller) or worse.

    It is marked only if the rounds of the two runs do not overlap, and their medians differ enough.
    """
    few = min(len(before), len(after)) < _ROUNDS
    if abs(relative_change(before, after)) <= (_MIN_CHANGE_FEW_ROUNDS if few else _MIN_CHANGE):
        return ""
    if min(after) > max(before):
        return "worse"
    if max(after) < min(before):
        return "better"
    return ""
