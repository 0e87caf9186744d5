"""A busy reply is read by the coalescer of its provider, until it must be read on its own."""

import asyncio
import sys
from dataclasses import dataclass, field

import httpx
import pytest

from dataplane.coalescing import READS_PER_JOIN_CHECK, CoalescedStream, ReadCoalescer
from dataplane.connection import UpstreamConnection
from dataplane.transport import PooledTransport, RequestDeadlines, RequestTarget
from providers.config import ProviderConfig
from providers.http.transports import build_transport
from tests.unit.dataplane.sinks import FakeSink
from tests.upstream.script import Exchange
from tests.upstream.server import ScriptedUpstream

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="epoll(7) is Linux's")

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
DELTA = b"5\r\ndelta\r\n"
END = b"0\r\n\r\n"
MUCH = b"50000\r\n" + b"x" * 0x50000 + b"\r\n"
HEAD_UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\n"
NUMBER = 77
APART_S = 0.004


@dataclass
class Socket(asyncio.Transport):
    """The transport of a connection, which records calls."""

    reads: bool = True
    closing: bool = False
    tls: bool = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self if name == "socket" or (self.tls and name == "ssl_object") else default

    def fileno(self) -> int:
        return NUMBER

    def write(self, data: object) -> None:
        """A request."""

    def pause_reading(self) -> None:
        assert not self.closing
        self.reads = False

    def resume_reading(self) -> None:
        assert not self.closing
        self.reads = True

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True


class Together(ReadCoalescer):
    """A coalescer for which joining always pays, and which reads nothing."""

    def __init__(self, seconds: float = APART_S) -> None:
        super().__init__(seconds)
        self.members: list[tuple[int, CoalescedStream]] = []
        self.is_full = False
        self.waits = 0

    def next_stagger(self) -> int:
        return self.waits

    def should_join(self, loop: asyncio.AbstractEventLoop) -> bool:
        return True

    def join(self, number: int, stream: CoalescedStream, loop: asyncio.AbstractEventLoop) -> None:
        if self.is_full:
            raise OSError("too many open files")
        self.members.append((number, stream))

    def leave(self, number: int, stream: CoalescedStream) -> None:
        self.members.remove((number, stream))


@dataclass
class Reply:
    """A reply that is being read. Its chunks bypass the parser; `pushed` are parsed."""

    together: Together = field(default_factory=Together)
    pushed: bool = False
    socket: Socket = field(default_factory=Socket)
    came: list[bytes] = field(default_factory=list)
    takes: bool = True
    takes_nothing: bool = False

    def __post_init__(self) -> None:
        self.connection = UpstreamConnection(self.together)
        self.connection.connection_made(self.socket)

    async def begin(self, head: bytes = HEAD) -> None:
        sending = asyncio.ensure_future(self.connection.send(b"", 60.0))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(self.connection.data_received, head)
        await sending
        self.connection.wait_for_read(FakeSink(self._push, None if self.pushed else self._pass))

    def read(self, data: bytes = DELTA) -> bool:
        """Delivers a read. Returns whether the next one is read on its own."""
        self.connection.data_received(data)
        assert self.socket.closing or self.socket.reads == (not self.together.members)
        return self.socket.reads

    def _push(self, read: bytes) -> bool:
        self.came.append(read)
        return self.takes_nothing or (bool(read) and self.takes)

    def _pass(self, data: bytes) -> int:
        if not self.takes or data.replace(DELTA, b""):
            return 0
        self.came.append(data)
        return len(data)


async def flowing(*, pushed: bool = False) -> Reply:
    """Returns a reply that is read together with others."""
    reply = Reply(pushed=pushed)
    await reply.begin()
    while reply.read():
        pass
    return reply


@pytest.mark.parametrize("pushed", [False, True], ids=["passed", "pushed"])
async def test_a_reply_joins_with_its_fourth_read_and_leaves_with_its_end(pushed: bool) -> None:
    reply = Reply(pushed=pushed)
    await reply.begin()
    assert [reply.read() for _ in range(READS_PER_JOIN_CHECK)] == [True, True, True, False]
    assert reply.together.members == [(NUMBER, reply.connection)]
    assert not reply.read()
    assert reply.read(END)
    assert reply.connection.reply.is_complete
    assert b"".join(reply.came).count(b"delta") == READS_PER_JOIN_CHECK + 1


@pytest.mark.parametrize("pushed", [False, True], ids=["passed", "pushed"])
async def test_a_reply_whose_reader_has_to_be_woken_leaves(pushed: bool) -> None:
    reply = await flowing(pushed=pushed)
    reply.takes = False
    assert reply.read()


async def test_a_reply_without_a_waiting_reader_leaves() -> None:
    reply = await flowing()
    reply.connection.waiter = None
    assert reply.read()


async def test_a_reply_whose_reader_falls_behind_leaves_and_is_not_read() -> None:
    reply = await flowing(pushed=True)
    reply.takes_nothing = True
    reply.connection.data_received(MUCH)
    assert not reply.together.members
    assert not reply.socket.reads
    reply.connection.take()
    assert reply.socket.reads


async def test_a_reply_whose_reader_is_behind_does_not_join() -> None:
    reply = Reply(pushed=True, takes_nothing=True)
    await reply.begin()
    for _ in range(READS_PER_JOIN_CHECK):
        reply.connection.data_received(MUCH)
    assert not reply.together.members


async def test_a_reply_that_cannot_join_is_read_as_it_arrives() -> None:
    reply = Reply()
    reply.together.is_full = True
    await reply.begin()
    assert all(reply.read() for _ in range(2 * READS_PER_JOIN_CHECK))
    reply.together.is_full = False
    assert [reply.read() for _ in range(READS_PER_JOIN_CHECK)] == [True, True, True, False]


@pytest.mark.parametrize("until_close", [False, True])
async def test_a_reply_that_failed_is_not_whole(until_close: bool) -> None:
    noted: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noted.append(str(context["exception"])))
    reply = Reply(pushed=True)
    await reply.begin(HEAD_UNTIL_CLOSE if until_close else HEAD)
    while reply.read():
        pass
    waiter = reply.connection.waiter
    reply.connection.fail(ValueError("a defect"))
    assert noted == ["a defect"]
    assert not reply.together.members
    assert waiter is not None
    assert waiter.done
    reply.connection.connection_lost(None)
    with pytest.raises(httpx.ReadError, match="in the middle of its reply"):
        reply.connection.take()
    assert not reply.connection.end_request()


async def test_a_reset_is_nothing_to_log() -> None:
    noted: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noted.append(context))
    reply = await flowing()
    reply.connection.fail(ConnectionResetError())
    assert not noted
    with pytest.raises(httpx.ReadError):
        reply.connection.take()


async def test_a_reply_with_invalid_http_leaves_before_its_socket_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reply = await flowing()
    left_open: list[bool] = []

    def leave(number: int, stream: CoalescedStream) -> None:
        left_open.append(not reply.socket.closing)

    monkeypatch.setattr(reply.together, "leave", leave)
    reply.connection.data_received(b"no chunk")
    assert left_open == [True]
    assert reply.socket.closing


async def test_an_abandoned_reply_leaves() -> None:
    reply = await flowing()
    reply.connection.close()
    assert not reply.together.members


async def test_a_reply_that_is_returned_to_its_pool_leaves() -> None:
    reply = await flowing()
    assert not reply.connection.end_request()
    assert not reply.together.members
    assert reply.socket.reads


async def test_a_connection_that_is_lost_leaves() -> None:
    reply = await flowing()
    reply.socket.closing = True
    reply.connection.connection_lost(None)
    assert not reply.together.members


async def test_the_first_request_of_each_reply_may_be_later() -> None:
    together = Together()
    together.waits = 2
    reply = Reply(together)
    for _ in range(2):
        await reply.begin()
        assert [reply.read() for _ in range(READS_PER_JOIN_CHECK + 2)] == [True] * (READS_PER_JOIN_CHECK + 1) + [False]
        reply.read(END)
        assert reply.connection.take() == b""
        assert reply.connection.end_request()


async def test_the_next_reply_of_a_connection_does_not_join_at_once() -> None:
    reply = Reply()
    await reply.begin()
    assert all(reply.read() for _ in range(READS_PER_JOIN_CHECK - 1))
    reply.read(END)
    assert reply.connection.take() == b""
    assert reply.connection.end_request()
    await reply.begin()
    assert all(reply.read() for _ in range(READS_PER_JOIN_CHECK - 1))


@pytest.mark.parametrize(("tls", "seconds"), [(True, APART_S), (False, 0)], ids=["tls", "coalesce_ms 0"])
async def test_some_replies_are_always_read_as_they_arrive(tls: bool, seconds: float) -> None:
    reply = Reply(Together(seconds), socket=Socket(tls=tls))
    await reply.begin()
    assert all(reply.read() for _ in range(10 * READS_PER_JOIN_CHECK))


async def test_coalescing_follows_the_configuration_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    joined, apart = asyncio.Event(), []
    join = ReadCoalescer.join

    def noted(self: ReadCoalescer, number: int, stream: CoalescedStream, loop: asyncio.AbstractEventLoop) -> None:
        apart.append(self.seconds)
        join(self, number, stream, loop)
        joined.set()

    async def send_until_joined(exchange: Exchange) -> None:
        await exchange.send(HEAD)
        while not joined.is_set():
            await exchange.send(DELTA)
            await asyncio.sleep(0)
        await exchange.send(DELTA + END)

    monkeypatch.setattr(ReadCoalescer, "join", noted)
    async with ScriptedUpstream() as server, asyncio.timeout(60):
        server.script(send_until_joined)
        config = ProviderConfig(type="vllm", base_url=server.url, coalesce_ms=20)
        transport = build_transport(config, server.url)
        assert isinstance(transport, PooledTransport)
        body = await transport.send(RequestTarget.of("POST", httpx.URL(server.url), []), b"{}", RequestDeadlines())
        while not body.ended:
            await body.wait_for_read(FakeSink(bool))
            assert body.take()
        await body.close()
        await transport.aclose()
    assert apart == [0.02]
