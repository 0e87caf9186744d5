"""Streams that bring more again and again are read a little later, together; all others as it comes."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

from providers import connection as connections
from providers.coalescing import Coalescing
from providers.connection import Connection
from providers.receiver import Receiver
from tests.unit.sinks import FakeSink

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
        self.held: list[Callable[[], None]] = []

    def hold(self, release: Callable[[], None]) -> None:
        self.held.append(release)

    def come(self) -> None:
        held, self.held = self.held, []
        for release in held:
            release()


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

    def read(self, after_ms: float) -> bool:
        """A delta comes; whether the next will be read as soon as it does."""
        assert self.socket.reads
        self.clock.now += after_ms * MS
        self.connection.data_received(DELTA)
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
    stream.moments.come()
    assert stream.socket.reads
    assert not stream.read(after_ms=1)
    assert len(stream.came) == 18


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


async def test_the_time_that_it_was_left_alone_does_not_make_it_slow(clock: Clock) -> None:
    stream = await fast(clock)
    clock.now += 10 * APART_MS * MS
    stream.moments.come()
    assert not stream.read(after_ms=1)


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


async def test_zero_reads_everything_as_it_comes(clock: Clock) -> None:
    stream = Stream(clock, Moments(0))
    await stream.begin()
    assert all(stream.read(after_ms=0) for _ in range(100))


async def test_all_that_wait_are_released_at_one_moment_and_the_next_is_another() -> None:
    released: list[str] = []
    moments, done = Coalescing(MS), asyncio.Event()
    for name in ("one", "two"):
        moments.hold(partial(released.append, name))
    moments.hold(done.set)
    await done.wait()
    assert released == ["one", "two"]
    done.clear()
    moments.hold(done.set)
    await done.wait()
    assert released == ["one", "two"]
