"""Reads that are pushed into an event stream, in the call stack of the upstream's socket."""

import asyncio
from typing import Any

import pytest

from dataplane.http_protocol import CLIENT
from gateway.http.guard import DrainState
from gateway.http.middleware import ReplySender
from gateway.replies.event_stream import EventStreamReply
from providers.errors import UpstreamBroken, UpstreamRateLimited
from providers.request_ids import RequestIds
from tests.unit.gateway.replies.event_stream_client import (
    ALIVE,
    CONTENT,
    END,
    FAILED,
    NEVER,
    OPENING,
    Client,
    PushedWire,
    Silences,
    run_alongside,
)


class Writer:
    """A client writer that bypasses the server's `send`. Its client reads, and never leaves."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.sent_at = 0.0
        self.loop = asyncio.get_running_loop()

    @property
    def ready(self) -> bool:
        return self._client.reads.is_set()

    def write_piece(self, piece: bytes) -> bool:
        assert piece
        if not self.ready:
            return False
        self._client.body += piece
        self.sent_at = asyncio.get_running_loop().time()
        return True

    def begin_stream(self, headers: object, piece: bytes, *, last: bool) -> bool:
        if not self.ready:
            return False
        assert (self._client.status, last) == (None, False)
        self._client.status = 200
        self._client.body = piece
        return True

    def end_stream(self, piece: bytes) -> bool:
        if piece and not self.write_piece(piece):
            return False
        self._client.done = True
        return True

    def watch(self, tell: object) -> None:
        pass


def pushing(wire: PushedWire, client: Client, keepalive_s: float = NEVER) -> Any:
    stream = EventStreamReply(wire, DrainState(), keepalive_s=keepalive_s, headers={})
    return stream({"type": "http", CLIENT: Writer(client)}, client.receive, client.send)


async def test_reads_of_a_stream_that_has_begun_are_sent_in_the_same_call() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.deliver(CONTENT)
        assert client.body == CONTENT
        assert await wire.deliver(b"")
        assert not await wire.deliver(END)

    await run_alongside(pushing(wire, client), act)
    assert (client.body, client.done, wire.closed) == (CONTENT + END, True, True)


async def test_reads_without_frames_do_not_end_a_silence() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        async with asyncio.timeout(60):
            while ALIVE not in client.body:
                assert await wire.deliver(b"")
                await asyncio.sleep(0)
        await wire.deliver(END)

    await run_alongside(pushing(wire, client, keepalive_s=0.02), act)
    assert client.body.replace(ALIVE, b"") == END
    assert ALIVE in client.body


async def test_reads_of_a_delta_run_are_forwarded_without_being_decoded() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.deliver_run(OPENING, CONTENT)
        assert await wire.deliver_run(OPENING, b"")
        assert client.body == CONTENT
        assert await wire.deliver_run(OPENING, None)
        assert client.body == CONTENT + OPENING
        assert not await wire.deliver_run(END, None)

    await run_alongside(pushing(wire, client), act)
    assert client.body == CONTENT + OPENING + END


async def test_reads_of_a_delta_run_are_decoded_if_the_client_is_not_ready() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        await wire.awaited.wait()
        client.reads.clear()
        assert not await wire.deliver_run(OPENING, CONTENT)
        client.reads.set()
        await client.has(OPENING)
        await wire.deliver(END)

    await run_alongside(pushing(wire, client), act)
    assert client.body == OPENING + END


def beginning(wire: PushedWire, client: Client) -> Any:
    """A stream that has sent nothing, and may begin without the server's `send`."""
    wire.has_content = False
    stream = EventStreamReply(wire, DrainState(), keepalive_s=NEVER, headers={})
    writer: Any = Writer(client)
    return stream(
        {"type": "http", CLIENT: writer}, client.receive, ReplySender(client.send, writer, RequestIds("req_1"))
    )


async def test_frames_before_content_are_buffered_and_begin_the_stream() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.deliver(OPENING)
        assert await wire.deliver(b"")
        assert client.body == b""
        wire.has_content = True
        assert await wire.deliver(CONTENT)
        assert client.body == OPENING + CONTENT
        assert await wire.deliver(CONTENT)
        assert not await wire.deliver(END)

    await run_alongside(beginning(wire, client), act)
    assert (client.status, client.body, client.done) == (200, OPENING + CONTENT + CONTENT + END, True)


async def test_the_end_is_sent_in_the_same_call() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        await wire.deliver(CONTENT)
        wire.deliver_to_sink(END)
        assert (client.body, client.done) == (CONTENT + END, True)
        wire.wake()

    await run_alongside(pushing(wire, client), act)
    assert client.body == CONTENT + END


async def test_a_stream_begins_when_its_reader_is_ready() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.deliver(OPENING)
        wire.has_content = True
        client.reads.clear()
        assert not await wire.deliver(CONTENT)
        for _ in range(5):  # turns of the loop, in which nothing may be sent
            await asyncio.sleep(0)
        assert client.body == b""
        client.reads.set()
        await client.has(CONTENT)
        assert not await wire.deliver(END)

    await run_alongside(beginning(wire, client), act)
    assert (client.status, client.body) == (200, OPENING + CONTENT + END)


async def test_a_stream_that_ends_without_content_is_sent_when_it_ends() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.deliver(OPENING)
        assert not await wire.deliver(END)

    wire.has_content = False
    await run_alongside(pushing(wire, client), act)
    assert (client.body, client.done) == (OPENING + END, True)


async def test_a_failure_that_arrives_before_content_is_raised() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.deliver(OPENING)
        assert not await wire.deliver(UpstreamRateLimited("slow"))

    with pytest.raises(ExceptionGroup) as raised:
        await run_alongside(beginning(wire, client), act)
    assert raised.group_contains(UpstreamRateLimited)
    assert (client.status, wire.closed) == (None, True)


async def test_no_keep_alive_waits_for_a_client_beyond_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    client, wire, silences = Client(), PushedWire(), Silences(monkeypatch)

    async def act() -> None:
        await wire.deliver(CONTENT)
        client.reads.clear()
        for _ in range(3):
            await silences.end()
        assert not client.is_sent_to.is_set()
        client.reads.set()
        wire.deliver_to_sink(END)
        wire.wake()

    await run_alongside(pushing(wire, client), act)
    assert (client.body, client.done) == (CONTENT + END, True)


async def test_a_stream_that_waits_for_its_reader_is_checked_once_per_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    client, wire, silences = Client(), PushedWire(), Silences(monkeypatch)

    async def act() -> None:
        client.reads.clear()
        assert not await wire.deliver(CONTENT)
        for _ in range(3):
            await silences.end()
        assert silences.delays == [NEVER] * 4
        client.reads.set()
        await client.has(CONTENT)
        await wire.deliver(END)

    async with asyncio.timeout(60):
        await run_alongside(pushing(wire, client), act)


async def test_reads_wait_for_a_client_that_is_not_ready() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.deliver(CONTENT)
        client.reads.clear()
        assert not await wire.deliver(OPENING)
        for _ in range(5):  # turns of the loop, in which nothing may be sent
            await asyncio.sleep(0)
        assert client.body == CONTENT
        client.reads.set()
        await client.has(OPENING)
        await wire.deliver(END)

    await run_alongside(pushing(wire, client), act)
    assert client.body == CONTENT + OPENING + END


async def test_a_failure_within_a_read_is_the_last_event() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.deliver(CONTENT)
        assert not await wire.deliver(UpstreamBroken("cut"))

    await run_alongside(pushing(wire, client), act)
    assert client.body == CONTENT + FAILED % b"UpstreamBroken"
    assert (client.done, wire.closed) == (True, True)
