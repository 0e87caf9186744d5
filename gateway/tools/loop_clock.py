"""The time that a response with hosted tools may take."""

import asyncio
from math import inf


class LoopClock:
    """Measures the time of one response from `start`. `seconds` is None if it has no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = inf if seconds is None else seconds
        self._ends_at = inf

    def start(self) -> None:
        """Starts the clock."""
        self._ends_at = asyncio.get_running_loop().time() + self._seconds

    @property
    def seconds_left(self) -> float:
        """The time that is left; not positive if it is over."""
        return inf if self._ends_at == inf else self._ends_at - asyncio.get_running_loop().time()
