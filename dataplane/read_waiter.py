"""Lets a task wait for a socket, no longer than a time, and resumes it in the call stack of the read."""

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from time import monotonic
from typing import Any, Final

TIMER_STEP_S: Final = 0.001
"""uvloop's timers count whole milliseconds, so one may fire this much before its time by the clock."""


class ReadWaiter:
    """One wait of one task, which resumes inside `notify`. With a Future it would resume in the loop's next iteration.

    If deltas arrive one by one, that iteration and its poll cost a tenth of their CPU time. Since the task runs inside
    `notify`, that call must be the last thing its caller does. Tasks wait for it by the protocol that they use for
    futures (`_asyncio_future_blocking`).
    """

    __slots__ = ("_asyncio_future_blocking", "_cancelled", "_context", "_loop", "_step", "done")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.done = False
        self._asyncio_future_blocking = False
        self._cancelled = False
        self._loop = loop
        self._step: Callable[[Any], object] | None = None
        self._context: Context | None = None

    def notify(self) -> None:
        """Resumes the task at once. Only the first call has an effect."""
        if self.done:
            return
        self.done = True
        if self._step is not None and self._context is not None:
            self._context.run(self._step, self)

    def __await__(self) -> Generator["ReadWaiter", None, None]:
        if not self.done:
            self._asyncio_future_blocking = True
            yield self  # the task calls `result` before it resumes

    def result(self) -> None:
        """Raises CancelledError if the wait was cancelled."""
        if self._cancelled:
            raise asyncio.CancelledError

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, step: Callable[[Any], object], *, context: Context) -> None:
        self._step = step
        self._context = context

    def cancel(self, msg: object = None) -> bool:
        """Called when the waiting task is cancelled: the task resumes in the loop's next iteration, as with a Future.

        Returns False if the wait is over already.
        """
        if self.done:
            return False
        self.done = self._cancelled = True
        if self._step is not None:
            self._loop.call_soon(self._step, self, context=self._context)
        return True


class SilenceTimer:
    """Limits the waits of one connection to `seconds` of silence; None means no limit.

    One timer serves all waits, of any reply: to set and cancel one for each wait would cost more. So `on_due` is called
    when a wait may have lasted too long. If it is still going on, `wait_longer` says whether it has.
    """

    __slots__ = ("_due_at", "_loop", "_on_due", "_timer", "_waiting_since", "seconds")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_due: Callable[[], object]) -> None:
        self.seconds: float | None = None
        self._loop = loop
        self._on_due = on_due
        self._waiting_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._due_at = 0.0

    def begin_wait(self) -> None:
        if self.seconds is None:
            return
        self._waiting_since = now = monotonic()
        if self._timer is None or now + self.seconds < self._due_at:
            self._schedule(self.seconds)

    def wait_longer(self, read_at: float) -> bool:
        """Sets the timer again, unless the current wait has lasted too long. Returns whether it did.

        `read_at` is the time of the last read on the monotonic clock, which may be before the wait.
        """
        if self.seconds is None:
            return True
        left = max(self._waiting_since, read_at) + self.seconds - monotonic()
        if left <= 0.001:  # the resolution of timers
            return False
        self._schedule(left)
        return True

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self, seconds: float) -> None:
        self.stop()
        self._due_at = monotonic() + seconds
        self._timer = self._loop.call_later(seconds, self._run_callback)

    def _run_callback(self) -> None:
        self._timer = None
        self._on_due()
