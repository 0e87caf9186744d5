"""Streams that bring more again and again are read a little later, together; all others as it comes."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from unittest.mock import Mock

import httpx
import pytest

from providers import connection as connections
from providers.coalescing import Coalescing
from providers.config import ProviderConfig
from providers.connection import Connection
from providers.receiver import Receiver
from providers.transport import Limits, PooledTransport, Target
from providers.transports import transport_of
from tests.unit.sinks import FakeSink
from tests.upstream.script import Exchange
from tests.upstream.server import ScriptedUpstream

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
DELTA = b"5\r\ndelta\r\n"
END = b"0\r\n\r\n"
MS = 1 / 1024
"""Nearly; sums of it are exact."""
SOON_MS, APART_MS = 4, 8


@dataclass
class Socket(asyncio.Transport):
    """What a connection does with its transport."""

    reads: bool = True
    closing: bool = False
    resumed: int = 0
    tls: bool = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self if self.tls and name == "ssl_object" else default

    def write(self, data: object) -> None:
        """A request."""

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        assert not self.closing
        self.reads = True
        self.resumed += 1

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True


class Moments(Coalescing):
    """Those that a test says have come."""

    def __init__(self, seconds: float = APART_MS * MS) -> None:
        super().__init__(seconds)
        self.count = 0

    def hold(self, release: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        self.count += 1
        self._held.append(release)

    def come(self) -> None:
        self._release()


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Stream:
    """A reply that is being read. Its chunks go past the parser, or `pushed` are parsed."""

    clock: Clock
    moments: Moments = field(default_factory=Moments)
    pushed: bool = False
    socket: Socket = field(default_factory=Socket)
    came: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connection = Connection(self.moments)
        self.connection.connection_made(self.socket)

    async def begin(self) -> None:
        sending = asyncio.ensure_future(self.connection.send(b"", 60.0))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(self.connection.data_received, HEAD)
        await sending
        self.connection.arrival(FakeSink(self._push, None if self.pushed else self._pass))

    def read(self, after_ms: float, deltas: int = 1) -> bool:
        """Some have come; whether the next will be read as soon as it does."""
        assert self.socket.reads
        self.clock.now += after_ms * MS
        self.connection.data_received(DELTA * deltas)
        return self.socket.reads

    def _push(self, read: bytes) -> bool:
        self.came.append(read)
        return bool(read)

    def _pass(self, data: bytes) -> int:
        self.came.append(data)
        return 0 if data == END else len(data)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (connections, sys.modules[Receiver.__module__]):
        monkeypatch.setattr(module, "monotonic", clock)
    return clock


async def fast(clock: Clock, *, pushed: bool = False) -> Stream:
    """One that is not read until the next moment."""
    stream = Stream(clock, pushed=pushed)
    await stream.begin()
    while stream.read(after_ms=1):
        pass
    return stream


@pytest.mark.parametrize("pushed", [False, True], ids=["passed", "pushed"])
async def test_a_fast_stream_is_read_at_the_next_moment(clock: Clock, pushed: bool) -> None:
    began = clock.now
    stream = await fast(clock, pushed=pushed)
    assert clock.now - began == (1 + 4 * SOON_MS) * MS
    for _ in range(3):
        clock.now += APART_MS * MS
        stream.moments.come()
        assert stream.socket.reads
        assert not stream.read(after_ms=0, deltas=APART_MS)
    assert len(b"".join(stream.came).replace(b"5\r\n", b"").replace(b"\r\n", b"")) == 5 * (17 + 3 * APART_MS)


async def test_a_stream_at_the_pace_of_models_is_read_as_it_comes(clock: Clock) -> None:
    stream = Stream(clock)
    await stream.begin()
    assert all(stream.read(after_ms=SOON_MS) for _ in range(100))


async def test_a_burst_that_is_over_soon_is_read_as_it_comes(clock: Clock) -> None:
    stream = Stream(clock)
    await stream.begin()
    for _ in range(20):
        assert stream.read(after_ms=50)
        assert all(stream.read(after_ms=1) for _ in range(15))


async def test_a_stream_that_slows_down_is_read_as_it_comes_again(clock: Clock) -> None:
    stream = await fast(clock)
    clock.now += APART_MS * MS
    stream.moments.come()
    assert stream.read(after_ms=SOON_MS)
    assert stream.read(after_ms=1)


@pytest.mark.parametrize("rhythm_ms", [SOON_MS, SOON_MS + 1, APART_MS - 1, APART_MS, APART_MS + 1])
async def test_a_burst_before_the_pace_of_models_is_forgotten(clock: Clock, rhythm_ms: int) -> None:
    stream = await fast(clock)
    at, burst_ended = 0, clock.now
    for _ in range(100):
        # The next come in that rhythm, read or not.
        first = at + rhythm_ms
        if not stream.socket.reads:
            clock.now += APART_MS * MS
            stream.moments.come()
        passed_ms = round((clock.now - burst_ended) / MS)
        at = max(first, passed_ms // rhythm_ms * rhythm_ms)
        clock.now = burst_ended + max(at, passed_ms) * MS
        stream.read(after_ms=0, deltas=(at - first) // rhythm_ms + 1)
    assert stream.moments.count <= 2


async def test_the_next_reply_on_a_connection_is_not_fast_yet(clock: Clock) -> None:
    stream = await fast(clock)
    stream.moments.come()
    stream.connection.data_received(END)
    assert stream.connection.take() == b""
    assert stream.connection.rest()
    await stream.begin()
    assert all(stream.read(after_ms=1) for _ in range(10))


async def test_nothing_is_read_for_a_reader_that_has_fallen_behind(clock: Clock) -> None:
    stream = await fast(clock)
    stream.connection.data_received(b"50000\r\n" + b"x" * 0x50000 + b"\r\n")
    stream.connection.waiter = None
    stream.connection.data_received(b"50000\r\n" + b"x" * 0x50000 + b"\r\n")
    stream.moments.come()
    assert not stream.socket.reads
    stream.connection.take()
    assert stream.socket.reads


@pytest.mark.parametrize("lost", [False, True])
async def test_one_that_has_gone_is_left_alone(clock: Clock, lost: bool) -> None:
    stream = await fast(clock)
    if lost:
        stream.socket.closing = True
    else:
        stream.connection.close()
    stream.moments.come()
    assert stream.socket.resumed == 0


async def test_what_comes_with_the_end_of_a_reply_does_not_put_the_next_off(clock: Clock) -> None:
    stream = Stream(clock, pushed=True)
    await stream.begin()
    while clock.now < 1000 + 4 * SOON_MS * MS:
        stream.read(after_ms=1)
    clock.now += MS
    stream.connection.data_received(DELTA * 1000 + END)
    stream.connection.take()
    assert stream.connection.rest()
    assert stream.socket.reads


async def test_nothing_is_put_off_behind_tls(clock: Clock) -> None:
    # uvloop drops what an SSL transport that is paused has read, when the server hangs up.
    stream = Stream(clock, socket=Socket(tls=True))
    await stream.begin()
    assert all(stream.read(after_ms=1) for _ in range(100))


async def test_zero_reads_everything_as_it_comes(clock: Clock) -> None:
    stream = Stream(clock, Moments(0))
    await stream.begin()
    assert all(stream.read(after_ms=0) for _ in range(100))


def test_all_that_wait_are_released_at_one_moment_and_the_next_is_another() -> None:
    released: list[str] = []
    moments, loop = Coalescing(0.006), Mock()
    for name in ("one", "two"):
        moments.hold(partial(released.append, name), loop)
    [(seconds, come)] = [call.args for call in loop.call_later.call_args_list]
    assert seconds == 0.006
    come()
    assert released == ["one", "two"]
    moments.hold(partial(released.append, "three"), loop)
    assert loop.call_later.call_count == 2
    come()
    assert released == ["one", "two", "three"]


def test_a_loop_that_ended_holds_nobody_in_the_next() -> None:
    released: list[str] = []
    moments, ended, loop = Coalescing(0.006), Mock(), Mock()
    moments.hold(partial(released.append, "lost"), ended)
    moments.hold(partial(released.append, "held"), loop)
    [(_, come)] = [call.args for call in loop.call_later.call_args_list]
    come()
    assert released == ["held"]


async def test_a_provider_reads_as_its_configuration_says(monkeypatch: pytest.MonkeyPatch) -> None:
    held, apart = asyncio.Event(), []
    hold = Coalescing.hold

    def noted(self: Coalescing, release: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        apart.append(self.seconds)
        hold(self, release, loop)
        held.set()

    async def until_it_is_held(exchange: Exchange) -> None:
        await exchange.send(HEAD)
        while not held.is_set():
            await exchange.send(DELTA)
            await asyncio.sleep(0)
        await exchange.send(DELTA + END)

    monkeypatch.setattr(Coalescing, "hold", noted)
    async with ScriptedUpstream() as server, asyncio.timeout(30):
        server.script(until_it_is_held)
        config = ProviderConfig(type="vllm", base_url=server.url, coalesce_ms=20)
        transport = transport_of(config, server.url)
        assert isinstance(transport, PooledTransport)
        body = await transport.ask(Target.of("POST", httpx.URL(server.url), []), b"{}", Limits())
        while not body.ended:
            await body.arrival(FakeSink(bool))
            assert body.take()
        await body.close()
        await transport.aclose()
    assert set(apart) == {0.02}
