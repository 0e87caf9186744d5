"""Measures how long an event loop stands still.

A stall is measured as processor time of the process between two turns of the loop, so that neither a slow machine nor a
test that runs beside this one counts, but a thread that holds the interpreter's lock does.
"""

import asyncio
import time


class StallWatch:
    """Measures the longest time between two turns of the running loop, in processor time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.longest_s = 0.0
        self._turn_s = time.process_time()
        self._take_turn()

    def _take_turn(self) -> None:
        now = time.process_time()
        self.longest_s, self._turn_s = max(self.longest_s, now - self._turn_s), now
        self._loop.call_later(0.001, self._take_turn)
