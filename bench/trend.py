"""Whether something grows: the slope of a noisy series, how sure it is, and what that means."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import fmean
from typing import Literal

Verdict = Literal["flat", "grows", "filled", "too noisy to say"]

_BLOCKS = 10
"""Neighbouring samples depend on each other, so that their number says little; means of so many stretches hardly do."""
_T = 2.306
"""Student's t for 95 % on both sides and the 8 degrees of freedom that ten points leave a line."""

_GROWS, _FLAT = 0.01, 0.15
"""Of the level, over the whole series: growth that is surely more counts, growth that is surely less does not."""


@dataclass(frozen=True)
class Trend:
    """A line through a series. `slope` ± `margin` per second holds the true one with 95 %; `later_slope` is that of the
    second half by itself: what leaks goes on, what fills does not."""

    level: float
    slope: float
    margin: float
    seconds: float
    later_slope: float

    @property
    def verdict(self) -> Verdict:
        scale = self.seconds / max(self.level, 1.0)
        if (self.slope - self.margin) * scale > _GROWS:
            return "grows" if self.later_slope * scale > _GROWS else "filled"
        return "flat" if (self.slope + self.margin) * scale < _FLAT else "too noisy to say"


def trend(times: Sequence[float], values: Sequence[float]) -> Trend:
    """Of samples in the order of their times. Raises ValueError for fewer than one a stretch."""
    if len(times) < _BLOCKS:
        raise ValueError(f"{len(times)} samples are too few for a trend: {_BLOCKS} are needed")
    x, y = _blocks(times), _blocks(values)
    slope = _slope(x, y)
    middle, level = fmean(x), fmean(y)
    errors = [value - level - slope * (at - middle) for at, value in zip(x, y, strict=True)]
    deviation = sqrt(sum(error**2 for error in errors) / (_BLOCKS - 2))
    margin = _T * deviation / sqrt(sum((at - middle) ** 2 for at in x))
    half = _BLOCKS // 2
    return Trend(level, slope, margin, times[-1] - times[0], _slope(x[half:], y[half:]))


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the line with the least squares."""
    middle, level = fmean(x), fmean(y)
    spread = sum((at - middle) ** 2 for at in x)
    return sum((at - middle) * (value - level) for at, value in zip(x, y, strict=True)) / spread


def _blocks(values: Sequence[float]) -> list[float]:
    """Means of equal stretches."""
    edges = [round(at * len(values) / _BLOCKS) for at in range(_BLOCKS + 1)]
    return [fmean(values[begin:end]) for begin, end in pairwise(edges)]
