"""Waiting for a socket without a turn of the event loop between what came and who waits for it."""

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any


class ReadWaiter:
    """One wait of one task. Unlike a Future's, its waiter goes on inside `arrive`, not in the next turn of the loop.

    Where deltas come one by one that turn, and the poll it costs, is a tenth of their CPU. So `arrive` must be the last
    thing its caller does. Tasks wait for it by the protocol they wait for futures with (`_asyncio_future_blocking`).
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
        """Let the waiter go on, now. Once; later calls do nothing."""
        if self.done:
            return
        self.done = True
        if self._step is not None and self._context is not None:
            self._context.run(self._step, self)

    def __await__(self) -> Generator["ReadWaiter", None, None]:
        if not self.done:
            self._asyncio_future_blocking = True
            yield self  # whose task asks for the `result` before it goes on

    def result(self) -> None:
        """Raises CancelledError when the waiter was cancelled."""
        if self._cancelled:
            raise asyncio.CancelledError

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, step: Callable[[Any], object], *, context: Context) -> None:
        self._step = step
        self._context = context

    def cancel(self, msg: object = None) -> bool:
        """Called when the waiting task is cancelled: it goes on in the next turn, as with a Future."""
        if self.done:
            return False
        self.done = self._cancelled = True
        if self._step is not None:
            self._loop.call_soon(self._step, self, context=self._context)
        return True
