"""Keeps the event loop free of large bodies: what takes long because of a body's size runs in threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, ParamSpec, TypeVar

from gateway.logs import adopt_fields

INLINE_BYTES: Final = 64 * 1024
"""Bodies up to this size are parsed and planned on the event loop: most take less than a millisecond, the worst some
20 ms. In a thread each body takes 0.1 ms more, and waits for its turns."""

_THREADS = 2
"""Threads share the interpreter's lock with the event loop, so each of them takes a share of its time."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class LargeBodyThreads:
    """The threads of one server process for work on large bodies. They start when first used."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="large-body")

    async def run(self, size: int, function: Callable[_P, _R], *args: _P.args, **named: _P.kwargs) -> _R:
        """Calls `function` for a body of `size` bytes: here if it is small, else in a thread.

        In a thread, the interpreter gives the event loop its turns every few milliseconds. Fields that the function
        binds for the request's log line are bound for the caller too.
        """
        if size <= INLINE_BYTES:
            return function(*args, **named)
        context = copy_context()
        call = partial(context.run, partial(function, *args, **named))
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, call)
        finally:
            adopt_fields(context)

    def close(self) -> None:
        """Starts no further work. Running work ends by itself."""
        self._executor.shutdown(wait=False, cancel_futures=True)
