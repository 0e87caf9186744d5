"""Waits for conditions without an event: actions of other processes, lines of a log, rows of a database."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar, overload

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT_S = 60.0
"""A deadline that no test is about. A busy machine takes its time."""
PROMPT_S = 10.0
"""What follows at once happens within this time, however busy the machine is."""

_PAUSE_S = 0.01


@overload
async def wait_until(condition: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **named: P.kwargs) -> T: ...


@overload
async def wait_until(condition: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T: ...


async def wait_until(condition: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> object:
    """Waits until the condition is true, and returns its value. It may be a coroutine function.

    What a condition found may be different a moment later: use the value, and do not evaluate the condition again.
    Raises TimeoutError after `TIMEOUT_S`.
    """
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            result = condition(*arguments, **named)
            if inspect.isawaitable(result):
                result = await result
            if result:
                return result
            await asyncio.sleep(_PAUSE_S)


async def wait_briefly(condition: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Waits for what follows at once, as `wait_until` does. Raises TimeoutError after `PROMPT_S`."""
    async with asyncio.timeout(PROMPT_S):
        return await wait_until(condition, *arguments, **named)


async def comes_before_end(event: asyncio.Event, task: "asyncio.Task[Any]") -> bool:
    """Waits for an event to which a task leads. Returns False if the task ends without it.

    Raises TimeoutError after `TIMEOUT_S`.
    """
    waiting = asyncio.create_task(event.wait())
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    return event.is_set()


async def reach(event: asyncio.Event, task: "asyncio.Task[Any]") -> None:
    """Waits for an event to which a task leads. Fails with the result of the task if it ends without it.

    To wait for the event alone would take until the deadline of the test, which does not say why.
    """
    if not await comes_before_end(event, task):
        raise AssertionError(f"the task ended before the event: {task.result()!r}")


async def read_until(read: Callable[[], Awaitable[T]], is_wanted: Callable[[T], bool]) -> T:
    """Reads until the result is a wanted one, and returns it. Raises TimeoutError after `TIMEOUT_S`."""
    async with asyncio.timeout(TIMEOUT_S):
        while not is_wanted(result := await read()):  # noqa: ASYNC110  # what is read belongs to another process
            await asyncio.sleep(_PAUSE_S)
    return result


def block_until(condition: Callable[[], T], message: str = "", *, timeout_s: float = TIMEOUT_S) -> T:
    """Waits until the condition is true, in a test without an event loop, and returns its value.

    Fails with the message after `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        assert time.monotonic() < deadline, message or "the condition did not become true in time"
        time.sleep(_PAUSE_S)
    return result
