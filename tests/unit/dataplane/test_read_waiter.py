"""The read waiter resumes inside `arrive`, without a turn of the loop, and otherwise behaves like a Future."""

import asyncio
from contextvars import ContextVar

import pytest

from dataplane.read_waiter import ReadWaiter

who: ContextVar[str] = ContextVar("who", default="nobody")


async def test_the_waiter_resumes_before_arrive_returns() -> None:
    arrival = ReadWaiter(asyncio.get_running_loop())
    output: list[str] = []

    async def wait() -> None:
        await arrival
        output.append("waiter")

    def notify_waiter() -> None:
        arrival.notify()
        output.append("caller")

    waiting = asyncio.ensure_future(wait())
    asyncio.get_running_loop().call_soon(notify_waiter)
    await waiting
    assert output == ["waiter", "caller"]


async def test_the_waiter_resumes_in_its_own_context() -> None:
    arrival = ReadWaiter(asyncio.get_running_loop())

    async def wait() -> str:
        who.set("waiter")
        await arrival
        return who.get()

    waiting = asyncio.ensure_future(wait())
    asyncio.get_running_loop().call_soon(arrival.notify)
    assert await waiting == "waiter"
    assert who.get() == "nobody"


async def test_a_read_that_has_arrived_is_not_waited_for() -> None:
    arrival = ReadWaiter(asyncio.get_running_loop())
    arrival.notify()
    arrival.notify()
    await arrival


async def test_a_cancelled_waiter_gets_the_cancellation_and_no_later_read() -> None:
    arrival = ReadWaiter(asyncio.get_running_loop())

    async def wait() -> None:
        await arrival

    waiting = asyncio.ensure_future(wait())
    asyncio.get_running_loop().call_soon(waiting.cancel)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    arrival.notify()
    assert arrival.cancel() is False


async def test_a_wait_may_have_a_deadline() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await ReadWaiter(asyncio.get_running_loop())
