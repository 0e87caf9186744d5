"""Measures how the time of a function grows with the length of its text."""

import gc
import time
from collections.abc import Callable
from typing import Final

GROWTH: Final = 4
_MAX_RATIO: Final = 9
"""A text that is 4 times as long takes 4 times as long in linear time, and 16 times in quadratic time."""

_BRIEF_S: Final = 0.004
"""Times below it are of no interest: a function with such a time for thousands of characters is fast."""


_FEW: Final = 5


def find_superlinear_time(run: Callable[[int], object], size: int) -> str:
    """Returns the times of `run` for a size and 4 times as much, if they grow faster than the size; else nothing.

    It is the CPU time of this thread, so that other processes do not count. A time that looks too long is measured
    twice again.
    """
    # An exponential or cubic time shows at a small size, where it is still short.
    for each in (_FEW, size // 16, size // 4, size):
        times = ""
        for _ in range(3):
            short, long = _measure(run, each), _measure(run, GROWTH * each)
            if long < _BRIEF_S or long < _MAX_RATIO * short:
                break
            times = f"{each}: {short * 1000:.1f} ms, {GROWTH * each}: {long * 1000:.1f} ms"
        else:
            return times
    return ""


def _measure(run: Callable[[int], object], size: int) -> float:
    """Returns the seconds of `run`, without the collection of garbage, whose time grows with all other objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        start = time.thread_time()
        run(size)
        return time.thread_time() - start
    finally:
        if was_enabled:
            gc.enable()
