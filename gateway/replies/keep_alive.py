"""Fills the silence of a stream, so that no proxy closes its connection."""

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, TypeAlias

SendFrame: TypeAlias = Callable[[bytes], Coroutine[Any, Any, None]]

_EARLY_SHARE = 0.999
"""Timers of the event loop may fire a little early."""


class KeepAlive:
    """Sends a keep-alive frame each time that nothing was sent to a client for `interval_s` seconds.

    It never does if that is 0.
    """

    def __init__(self, interval_s: float, build_frame: Callable[[], bytes]) -> None:
        self.last_sent = 0.0
        """When the stream itself last sent something."""
        self.is_running = False
        self._interval_s = interval_s
        self._build_frame = build_frame
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, loop: asyncio.AbstractEventLoop, find_last_sent: Callable[[], float], send: SendFrame) -> None:
        """Begins now. `find_last_sent` returns when anybody last sent something, and `send` sends a frame."""
        self.last_sent = monotonic()
        self.is_running = True
        if self._interval_s:
            self._timer = loop.call_later(self._interval_s, self._check_idle, loop, find_last_sent, send)

    def send_now(self, loop: asyncio.AbstractEventLoop, send: SendFrame) -> None:
        """Sends a frame although the interval is not over, unless there are none."""
        if self._interval_s and self.is_running:
            self._task = loop.create_task(send(self._build_frame()))

    def stop(self) -> None:
        self.is_running = False
        if self._timer is not None:
            self._timer.cancel()

    def _check_idle(
        self, loop: asyncio.AbstractEventLoop, find_last_sent: Callable[[], float], send: SendFrame
    ) -> None:
        """Sends a frame if nothing was sent for the interval, and schedules the next check."""
        idle_s = monotonic() - find_last_sent()
        if idle_s >= self._interval_s * _EARLY_SHARE:
            self._task = loop.create_task(send(self._build_frame()))
            idle_s = 0.0
        delay_s = max(self._interval_s - idle_s, 0.001)
        self._timer = loop.call_later(delay_s, self._check_idle, loop, find_last_sent, send)
