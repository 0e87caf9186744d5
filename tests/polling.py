"""Waits for conditions without an event: actions of other processes, lines of a log, rows of a database."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT_S = 20.0
_PAUSE_S = 0.01


async def wait_until(condition: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> float:
    """Waits until the condition is true, and returns how long that took, in seconds. It may be a coroutine function.

    Raises TimeoutError after `TIMEOUT_S`.
    """
    began = time.monotonic()
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            result = condition(*arguments, **named)
            if await result if inspect.isawaitable(result) else result:
                return time.monotonic() - began
            await asyncio.sleep(_PAUSE_S)


async def read_until(read: Callable[[], Awaitable[T]], is_wanted: Callable[[T], bool]) -> T:
    """Reads until the result is a wanted one, and returns it. Raises TimeoutError after `TIMEOUT_S`."""
    async with asyncio.timeout(TIMEOUT_S):
        while not is_wanted(result := await read()):  # noqa: ASYNC110  # what is read belongs to another process
            await asyncio.sleep(_PAUSE_S)
    return result


def block_until(condition: Callable[[], object], message: str = "", *, timeout_s: float = TIMEOUT_S) -> None:
    """Waits until the condition is true, in a test without an event loop. Fails with the message after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, message or "the condition did not become true in time"
        time.sleep(_PAUSE_S)
