"""Measures how long an event loop stands still.

A stall is what lies between two turns of the loop, and neither a slow machine nor a test that runs beside this one may
add to it. Two figures hold all of a stall, and something of the machine's load each: the processor time of the process,
to which other threads add while the loop's thread waits for a processor, and the time of the clock without those waits,
to which a thread adds that waits for a processor itself while it holds the interpreter's lock. The smaller one counts.
"""

import asyncio
import os
import time
import weakref
from contextlib import suppress
from typing import Final, NamedTuple

_SCHEDULER: Final = "/proc/thread-self/schedstat"


class _Moment(NamedTuple):
    process_s: float
    """The processor time of the process so far."""
    unhindered_s: float
    """The time so far in which this thread did not wait for a processor."""


class StallWatch:
    """Measures the longest time between two turns of the running loop, in whose thread it is made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._scheduler: int | None = None
        with suppress(OSError):  # not every system tells
            self._scheduler = os.open(_SCHEDULER, os.O_RDONLY)
            weakref.finalize(self, os.close, self._scheduler)
        self.longest_s = 0.0
        self._turn = self._read_moment()
        self._take_turn()

    def _take_turn(self) -> None:
        now = self._read_moment()
        stall_s = min(now.process_s - self._turn.process_s, now.unhindered_s - self._turn.unhindered_s)
        self.longest_s, self._turn = max(self.longest_s, stall_s), now
        self._loop.call_later(0.001, self._take_turn)

    def _read_moment(self) -> _Moment:
        waited_s = 0.0
        if self._scheduler is not None:
            waited_s = int(os.pread(self._scheduler, 100, 0).split()[1]) / 1e9
        return _Moment(time.process_time(), time.monotonic() - waited_s)
