"""Decides whether a noisy series grows: computes its slope, the confidence interval and a verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import fmean
from typing import Literal

TrendVerdict = Literal["flat", "grows", "filled", "too noisy to say"]

_BLOCKS = 10
"""The number of blocks whose means are fitted. Neighbouring samples are correlated, the means of blocks hardly."""
_STUDENT_T = 2.306
"""Student's t for 95 %, two-sided, with the 8 degrees of freedom of a line through ten points."""

_MIN_GROWTH, _MAX_FLAT_GROWTH = 0.01, 0.15
"""Growth over the whole series, relative to the level. `grows` is surely more than the first value, `flat` is surely
less than the second."""


@dataclass(frozen=True)
class Trend:
    """A line through a series.

    `slope` ± `margin` per second is the 95 % confidence interval of the slope. `later_slope` is the slope of the second
    half alone: a leak goes on growing, a cache that fills does not.
    """

    level: float
    slope: float
    margin: float
    seconds: float
    later_slope: float

    @property
    def verdict(self) -> TrendVerdict:
        """Whether the series grows. `filled` means that it grew in the first half only."""
        scale = self.seconds / max(self.level, 1.0)
        if (self.slope - self.margin) * scale > _MIN_GROWTH:
            return "grows" if self.later_slope * scale > _MIN_GROWTH else "filled"
        return "flat" if (self.slope + self.margin) * scale < _MAX_FLAT_GROWTH else "too noisy to say"


def fit_trend(times: Sequence[float], values: Sequence[float]) -> Trend:
    """Fits a line to samples in the order of their times. Raises ValueError for fewer than ten samples."""
    if len(times) < _BLOCKS:
        raise ValueError(f"{len(times)} samples are too few for a trend: {_BLOCKS} are needed")
    x, y = _average_blocks(times), _average_blocks(values)
    slope = _fit_slope(x, y)
    middle, level = fmean(x), fmean(y)
    errors = [value - level - slope * (at - middle) for at, value in zip(x, y, strict=True)]
    deviation = sqrt(sum(error**2 for error in errors) / (_BLOCKS - 2))
    margin = _STUDENT_T * deviation / sqrt(sum((at - middle) ** 2 for at in x))
    half = _BLOCKS // 2
    return Trend(level, slope, margin, times[-1] - times[0], _fit_slope(x[half:], y[half:]))


def _fit_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Returns the slope of the least-squares line."""
    middle, level = fmean(x), fmean(y)
    spread = sum((at - middle) ** 2 for at in x)
    return sum((at - middle) * (value - level) for at, value in zip(x, y, strict=True)) / spread


def _average_blocks(values: Sequence[float]) -> list[float]:
    """Returns the means of blocks of equal length."""
    edges = [round(at * len(values) / _BLOCKS) for at in range(_BLOCKS + 1)]
    return [fmean(values[begin:end]) for begin, end in pairwise(edges)]
