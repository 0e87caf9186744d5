"""A guarded block ends when its client leaves or the server's time is over, wherever it waits."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from dataplane.http_protocol import ClientWriter as Sender
from gateway.errors import ShuttingDown
from gateway.http.guard import ClientDisconnected, DrainState, RequestGuard
from tests.polling import reach


class Client:
    """The `receive` of a request whose body was read: it waits until the client leaves."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.watched = asyncio.Event()

    async def __call__(self) -> dict[str, Any]:
        self.watched.set()
        await self.left.wait()
        return {"type": "http.disconnect"}


async def guarded(client: Client, drain: DrainState, sender: Sender | None = None) -> None:
    """Waits in a guarded block for ever."""
    with RequestGuard(client, drain, sender):
        await asyncio.Event().wait()


async def test_a_client_that_leaves_ends_the_block() -> None:
    client, drain = Client(), DrainState()
    client.left.set()
    with pytest.raises(ClientDisconnected):
        await guarded(client, drain)
    assert len(drain) == 0
    await asyncio.sleep(0)  # nothing of the cancellation is left over


async def test_an_empty_message_is_no_leave() -> None:
    messages = iter([{"type": "http.request", "body": b"", "more_body": False}])
    more = asyncio.Event()

    async def receive() -> dict[str, Any]:
        for message in messages:
            return message
        more.set()
        await asyncio.Event().wait()
        return {}

    with RequestGuard(receive, DrainState()):
        await more.wait()


async def test_the_end_of_draining_ends_every_block() -> None:
    drain = DrainState()
    clients = [Client(), Client()]
    loop = asyncio.get_running_loop()
    blocks = [loop.create_task(guarded(client, drain)) for client in clients]
    for client, block in zip(clients, blocks, strict=True):
        await reach(client.watched, block)
    drain.begin()
    await asyncio.sleep(0)
    assert len(drain) == 2, "they may go on until the time is over"
    drain.expire()
    ends = await asyncio.gather(*blocks, return_exceptions=True)
    assert [type(end) for end in ends] == [ShuttingDown, ShuttingDown]


async def test_a_block_that_begins_after_draining_ends_at_once() -> None:
    drain = DrainState()
    drain.expire()
    with pytest.raises(ShuttingDown):
        await guarded(Client(), drain)


async def test_the_first_reason_counts() -> None:
    client, drain = Client(), DrainState()

    async def end_twice() -> None:
        with RequestGuard(client, drain):
            drain.expire()
            client.left.set()
            await asyncio.Event().wait()

    with pytest.raises(ShuttingDown):
        await end_twice()


async def test_a_block_that_ends_by_itself_is_left_alone() -> None:
    client, drain = Client(), DrainState()
    with RequestGuard(client, drain):
        await client.watched.wait()
    client.left.set()
    drain.expire()
    await asyncio.sleep(0)
    assert len(drain) == 0


async def test_exceptions_of_the_block_are_raised() -> None:
    with pytest.raises(ZeroDivisionError), RequestGuard(Client(), DrainState()):
        raise ZeroDivisionError


async def test_a_cancellation_from_outside_stays_one() -> None:
    client = Client()
    task = asyncio.get_running_loop().create_task(guarded(client, DrainState()))
    await reach(client.watched, task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_listeners_are_notified_of_draining_once() -> None:
    drain = DrainState()
    received: list[str] = []
    with drain.notify_on_begin(lambda: received.append("a")):
        with drain.notify_on_begin(lambda: received.append("b")):
            assert received == []
        drain.begin()
    assert received == ["a"]
    with drain.notify_on_begin(lambda: received.append("late")):
        assert received == ["a", "late"]


class Flow(FlowControl):
    """The flow control of a connection whose reading was paused."""

    def __init__(self) -> None:
        self.read_paused = True
        self.write_paused = False

    def resume_reading(self) -> None:
        self.read_paused = False


def sender_over(flow: Flow) -> Sender:
    cycle: Any = SimpleNamespace(flow=flow, transport=asyncio.Transport())
    return Sender(cycle, asyncio.get_running_loop(), -1)


async def test_a_server_that_reports_disconnects_is_not_polled() -> None:
    client, flow = Client(), Flow()
    sender = sender_over(flow)
    asyncio.get_running_loop().call_later(0.01, sender.on_disconnect)
    with pytest.raises(ClientDisconnected):
        await guarded(client, DrainState(), sender)
    assert not client.watched.is_set()
    assert not flow.read_paused, "who does not read does not hear"


async def test_a_client_that_left_before_the_block_ends_it_at_once() -> None:
    sender = sender_over(Flow())
    sender.on_disconnect()
    with pytest.raises(ClientDisconnected):
        await guarded(Client(), DrainState(), sender)


async def test_a_client_that_leaves_after_the_block_ends_nothing() -> None:
    sender = sender_over(Flow())
    with RequestGuard(Client(), DrainState(), sender):
        pass
    sender.on_disconnect()
    await asyncio.sleep(0)
