"""Fast streams are read every few milliseconds, all of them at once, so that each read brings several deltas.

Network cards coalesce interrupts for the same reason: at full speed a read, a write and an acknowledgement cost more
than what is done with a delta (docs/adr/0025).
"""

import asyncio
from collections.abc import Callable


class Coalescing:
    """Who is not read before the next moment at which all of them are."""

    def __init__(self, seconds: float) -> None:
        """`seconds`: how long a moment is waited for, once there is anybody; 0: there is to be nobody."""
        self.seconds = seconds
        self._held: list[Callable[[], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def hold(self, release: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """Have the running `loop` call `release` at that moment; it must not raise."""
        if not self._held or loop is not self._loop:
            # Of a loop that has ended nothing is left to release.
            self._held, self._loop = [], loop
            loop.call_later(self.seconds, self._release)
        self._held.append(release)

    def _release(self) -> None:
        held, self._held = self._held, []
        for release in held:
            release()
