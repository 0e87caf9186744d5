"""Histograms as plain numbers: values are counted by their size. Metrics report them."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

SECONDS_BOUNDS: Final = tuple(0.01 * 2**power for power in range(14))
"""The upper bounds of times at upstreams, in seconds: 0.01 to 81.92."""

OVERHEAD_BOUNDS: Final = tuple(0.0005 * 2**power for power in range(11))
"""The upper bounds of times in the gateway itself, in seconds: 0.0005 to 0.512."""


class Histogram:
    """The number of values up to each of its bounds, and their sum. `counts` has one more: the values above all."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS_BOUNDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_all(self, values: list[float]) -> None:
        """Counts several values, and sorts their list. That takes less time than `observe` for each."""
        if len(values) < len(self.bounds):
            for value in values:
                self.observe(value)
            return
        values.sort()
        below = 0
        for place, bound in enumerate(self.bounds):
            up_to = bisect_right(values, bound)
            self.counts[place] += up_to - below
            below = up_to
        self.counts[-1] += len(values) - below
        self.total += sum(values)
