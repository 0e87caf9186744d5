"""Keeps the event loop free of large bodies: work that takes long because of a body's size runs in threads."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Final, ParamSpec, TypeVar

from dataplane.body_weight import INLINE_BYTES
from dataplane.sharing.fair_turns import OwnerQueue, current_owner
from dataplane.sharing.work_pool import run_in_pool

_FREE_BYTES: Final = 8 * 1024
"""Bodies up to this weight are processed at once. Of heavier ones, one is processed per iteration of the event loop."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class LoopSlots:
    """Gives each iteration of the event loop to one caller. Owners are served in rotation.

    Other callbacks that are ready run between two callers.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop whose current iteration is taken."""
        self._waiters = OwnerQueue()

    async def wait_for_slot(self) -> None:
        """Waits until no other caller has the current iteration. The caller has it until it awaits something."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._waiters.clear()  # they waited on a loop that has ended
        else:
            waiter = self._waiters.append(current_owner.get())
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._pass_on()
                raise
        self._loop = loop
        loop.call_soon(self._pass_on)

    def _pass_on(self) -> None:
        if not self._waiters.wake_next():
            self._loop = None


class LargeBodyPool:
    """Decides where the work on a body is done: at once, in an iteration of the event loop, or in a thread."""

    def __init__(self) -> None:
        self.free_weight: Final = _FREE_BYTES
        """The weight up to which work on a body is done at once: it needs neither a thread nor its turn on the loop."""
        self._slots = LoopSlots()

    async def call_weighed(self, weight: int, function: Callable[_P, _R], *args: _P.args, **named: _P.kwargs) -> _R:
        """Calls `function` for a body of this weight (see `weigh_body`): here if it is light, else in a thread.

        Bodies of medium weight wait for an iteration of the event loop, so that many of them do not delay other
        requests. While a thread works, the interpreter lets the event loop run every few milliseconds. Fields that the
        function binds are in the request's log line too.
        """
        if weight <= INLINE_BYTES:
            if weight > _FREE_BYTES:
                await self._slots.wait_for_slot()
            return function(*args, **named)
        return await self.call_apart(function, *args, **named)

    async def call_apart(self, function: Callable[_P, _R], *args: _P.args, **named: _P.kwargs) -> _R:
        """Calls a function that takes long in a thread, as `call_weighed` does for a heavy body."""
        return await run_in_pool(partial(copy_context().run, partial(function, *args, **named)))
