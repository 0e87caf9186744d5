"""An event stream promises nothing before there is content, never falls silent, and ends once."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from dataplane.http_protocol import CLIENT
from dataplane.source import ReadTemplate, Sink, Source
from gateway.errors import ShuttingDown, StoreUnavailable
from gateway.http.guard import Drain
from gateway.http.middleware import ReplySender
from gateway.replies.event_stream import EventStreamReply
from providers.errors import UpstreamBroken, UpstreamRateLimited

Step = bytes | Exception | asyncio.Event

OPENING, CONTENT, END = b"opening\n\n", b"content\n\n", b"end\n\n"
FAILED = b"failed: %b\n\n"
ALIVE = b": keep-alive\n\n"
NEVER = 60.0


class FakeWire:
    """Plays steps: frames to send, events to wait for, failures. `content` frames are what a retry would repeat."""

    _is_concluded = False

    def __init__(self, *steps: Step) -> None:
        self.has_content = False
        self.closed = False
        self.ended = False
        self._steps = steps
        self._end = b""

    async def frames(self) -> AsyncGenerator[bytes, None]:
        try:
            for step in self._steps:
                if isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, Exception):
                    raise step
                else:
                    self.has_content = self.has_content or step.startswith(CONTENT)
                    self.ended = step.endswith(END)
                    self._end = END if self.ended else b""
                    yield step.removesuffix(END)
        finally:
            self.closed = True

    def fail(self, error: Exception) -> bytes:
        if not self._is_concluded:
            self.ended, self._end = True, FAILED % type(error).__name__.encode()
        return b""

    def result(self) -> dict[str, Any]:
        return {"ended": self.ended}

    def conclude(self) -> bytes:
        assert self.ended
        end, self._end, self._is_concluded = self._end, b"", True
        return end


class Client:
    """An ASGI client: what it got, and whether it reads and stays."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.body = b""
        self.done = False
        self.left = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self.is_sent_to = asyncio.Event()
        self._got_more = asyncio.Condition()

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            assert self.status is None
            self.status = message["status"]
            return
        assert self.status is not None
        assert not self.done
        self.is_sent_to.set()
        await self.reads.wait()
        async with self._got_more:
            self.body += message["body"]
            self.done = not message["more_body"]
            self._got_more.notify_all()

    async def has(self, mark: bytes) -> None:
        async with asyncio.timeout(5), self._got_more:
            await self._got_more.wait_for(lambda: mark in self.body)


def streaming(wire: FakeWire, client: Client, *, drain: Drain | None = None, keepalive_s: float = NEVER) -> Any:
    drain = Drain() if drain is None else drain
    stream = EventStreamReply(wire, drain, keepalive_s=keepalive_s, headers={})
    return stream({"type": "http"}, client.receive, client.send)


async def alongside(stream: Awaitable[None], act: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(stream)  # type: ignore[arg-type]
        await act()


async def test_a_stream_is_sent_as_it_comes() -> None:
    client, wire = Client(), FakeWire(OPENING, CONTENT, END)
    await streaming(wire, client)
    assert (client.status, client.body, client.done) == (200, OPENING + CONTENT + END, True)
    assert wire.closed


def test_proxies_are_told_not_to_hold_it_back() -> None:
    stream = EventStreamReply(FakeWire(), Drain(), keepalive_s=NEVER, headers={"x-gateway-loss": "seed=dropped"})
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.headers["cache-control"] == "no-cache, no-transform"
    assert stream.headers["x-accel-buffering"] == "no"
    assert stream.headers["x-gateway-loss"] == "seed=dropped"


async def test_nothing_is_promised_before_content() -> None:
    client, content = Client(), asyncio.Event()

    async def act() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        assert client.status is None
        content.set()
        await client.has(END)

    await alongside(streaming(FakeWire(OPENING, content, CONTENT, END), client), act)
    assert client.body == OPENING + CONTENT + END


async def test_a_stream_without_content_is_sent_when_it_ends() -> None:
    client = Client()
    await streaming(FakeWire(OPENING, END), client)
    assert (client.status, client.body) == (200, OPENING + END)


@pytest.mark.parametrize("error", [UpstreamRateLimited("slow"), ValueError("a bug")], ids=["upstream", "here"])
async def test_a_failure_before_content_is_raised(error: Exception) -> None:
    client, wire = Client(), FakeWire(OPENING, error)
    with pytest.raises(type(error)):
        await streaming(wire, client)
    assert client.status is None
    assert wire.closed


@pytest.mark.parametrize("error", [UpstreamBroken("cut"), ValueError("a bug")], ids=["upstream", "here"])
async def test_a_failure_after_content_is_the_last_event(error: Exception) -> None:
    client = Client()
    await streaming(FakeWire(CONTENT, error), client)
    assert client.body == CONTENT + FAILED % type(error).__name__.encode()
    assert client.done


async def test_a_failure_after_the_end_adds_nothing() -> None:
    client = Client()
    await streaming(FakeWire(CONTENT, END, UpstreamBroken("cut")), client)
    assert client.body == CONTENT + END
    assert client.done


async def test_silence_before_content_is_filled_and_commits_to_success() -> None:
    client, more = Client(), asyncio.Event()

    async def act() -> None:
        await client.has(ALIVE + ALIVE)
        assert client.status == 200
        assert client.body.startswith(OPENING)
        more.set()

    await alongside(streaming(FakeWire(OPENING, more, UpstreamRateLimited("slow")), client, keepalive_s=0.01), act)
    assert client.body.endswith(ALIVE + FAILED % b"UpstreamRateLimited")
    assert client.done


async def test_silence_after_content_is_filled() -> None:
    client, more = Client(), asyncio.Event()

    async def act() -> None:
        await client.has(CONTENT + ALIVE)
        more.set()

    await alongside(streaming(FakeWire(CONTENT, more, END), client, keepalive_s=0.01), act)
    assert client.body.replace(ALIVE, b"") == CONTENT + END


async def test_a_client_that_does_not_read_holds_the_upstream_back() -> None:
    client = Client()
    client.reads.clear()
    wire = FakeWire(CONTENT, CONTENT, END)

    async def act() -> None:
        await client.is_sent_to.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        assert client.body == b""
        assert not wire.closed
        client.reads.set()

    await alongside(streaming(wire, client), act)
    assert client.body == CONTENT + CONTENT + END


async def test_no_comment_is_sent_into_a_frame_that_waits_for_its_reader() -> None:
    client = Client()
    client.reads.clear()

    async def act() -> None:
        await client.is_sent_to.wait()
        await asyncio.sleep(0.05)  # nothing tells that no comment was sent: five times the pause before one
        client.reads.set()

    await alongside(streaming(FakeWire(CONTENT, END), client, keepalive_s=0.01), act)
    assert client.body == CONTENT + END


async def test_the_end_of_draining_ends_a_stream_in_one_failure() -> None:
    client, drain = Client(), Drain()

    async def act() -> None:
        await client.has(CONTENT)
        drain.expire()

    wire = FakeWire(CONTENT, asyncio.Event())
    await alongside(streaming(wire, client, drain=drain), act)
    assert client.body == CONTENT + FAILED % b"ShuttingDown"
    assert client.done
    assert wire.closed


async def test_the_end_of_draining_before_content_is_a_status() -> None:
    drain = Drain()
    drain.expire()
    with pytest.raises(ShuttingDown):
        await streaming(FakeWire(OPENING, asyncio.Event()), Client(), drain=drain)


async def test_what_its_reader_was_not_ready_for_is_sent_before_the_failure() -> None:
    client, drain = Client(), Drain()
    client.reads.clear()

    async def act() -> None:
        await client.is_sent_to.wait()
        drain.expire()
        await asyncio.sleep(0)
        client.reads.set()

    await alongside(streaming(FakeWire(CONTENT, END), client, drain=drain), act)
    assert client.body == CONTENT + FAILED % b"ShuttingDown"


async def test_a_client_that_leaves_closes_the_upstream_and_is_told_nothing() -> None:
    client, wire = Client(), FakeWire(CONTENT, asyncio.Event())

    async def act() -> None:
        await client.has(CONTENT)
        client.left.set()

    await alongside(streaming(wire, client), act)
    assert wire.closed
    assert client.body == CONTENT


class FakeRecording:
    """Keeps a reply, or fails to; `tried`: what the client had when it was asked to."""

    def __init__(self, client: Client, failure: Exception | None = None, until: asyncio.Event | None = None) -> None:
        self.begun = False
        self.trying = asyncio.Event()
        self.tried: list[bytes] = []
        self.abandoned: list[Any] = []
        self._client = client
        self._failure = failure
        self._until = until

    def begin(self) -> None:
        self.begun = True

    def begin_unsent(self) -> None:
        raise NotImplementedError

    async def finish(self, result: Any) -> None:
        assert result == {"ended": True}
        self.tried.append(self._client.body)
        self.trying.set()
        if self._until is not None:
            await self._until.wait()
        if self._failure is not None:
            raise self._failure

    async def abandon(self, unfinished: Any) -> None:
        self.abandoned.append(unfinished)


def recorded(wire: FakeWire, client: Client, recording: FakeRecording, drain: Drain | None = None) -> Any:
    stream = EventStreamReply(
        wire, Drain() if drain is None else drain, keepalive_s=NEVER, headers={}, recorder=recording
    )
    return stream({"type": "http"}, client.receive, client.send)


async def test_the_end_is_told_once_it_is_kept() -> None:
    client = Client()
    recording = FakeRecording(client)
    await recorded(FakeWire(CONTENT, END), client, recording)
    assert (recording.begun, recording.tried, recording.abandoned) == (True, [CONTENT], [])
    assert client.body == CONTENT + END


async def test_silence_while_the_end_is_kept_is_filled_and_not_the_end() -> None:
    client, wire, kept = Client(), PushedWire(), asyncio.Event()
    wire.has_content = False
    recording = FakeRecording(client, until=kept)
    stream = EventStreamReply(wire, Drain(), keepalive_s=0.01, headers={}, recorder=recording)

    async def act() -> None:
        assert not await wire.come(END)
        await client.has(ALIVE)
        kept.set()

    await alongside(stream({"type": "http"}, client.receive, client.send), act)
    assert client.body.replace(ALIVE, b"") == END
    assert client.done


async def test_an_end_that_cannot_be_kept_becomes_a_failure() -> None:
    client = Client()
    recording = FakeRecording(client, StoreUnavailable("no"))
    await recorded(FakeWire(CONTENT, END), client, recording)
    assert client.body == CONTENT + FAILED % b"StoreUnavailable"
    assert client.done
    assert len(recording.tried) == 1


async def test_an_end_that_cannot_be_kept_before_content_was_sent_is_a_status() -> None:
    client = Client()
    with pytest.raises(StoreUnavailable):
        await recorded(FakeWire(END), client, FakeRecording(client, StoreUnavailable("no")))
    assert client.status is None


async def test_the_end_of_draining_while_the_end_is_kept_is_a_failure() -> None:
    client, drain = Client(), Drain()
    recording = FakeRecording(client, until=asyncio.Event())

    async def act() -> None:
        await client.has(CONTENT)
        await recording.trying.wait()
        drain.expire()

    await alongside(recorded(FakeWire(CONTENT, END), client, recording, drain), act)
    assert client.body == CONTENT + FAILED % b"ShuttingDown"


@pytest.mark.parametrize("failure", [None, StoreUnavailable("no")], ids=["kept", "not kept"])
async def test_a_failure_is_told_whether_it_can_be_kept_or_not(failure: Exception | None) -> None:
    client = Client()
    recording = FakeRecording(client, failure)
    await recorded(FakeWire(CONTENT, UpstreamBroken("cut")), client, recording)
    assert client.body == CONTENT + FAILED % b"UpstreamBroken"
    assert recording.tried == [CONTENT]


class PushedWire(Source[bytes]):
    """Plays what a test has `come`, as a socket would: to the push of whoever waits."""

    ended = False

    def __init__(self) -> None:
        self.closed = False
        self.has_content = True
        self.made_alike: bytes | None = None
        self.template: ReadTemplate[bytes] | None = self
        self.awaited = asyncio.Event()
        self._came: bytes | Exception = b""
        self._end = b""
        self._sink: Sink | None = None
        self._arrived = asyncio.Event()

    def frames(self) -> AsyncGenerator[bytes, None]:
        return self.iterate()

    def take(self) -> bytes:
        came, self._came = self._came, b""
        if isinstance(came, Exception):
            raise came
        self.ended = came.endswith(END)
        self._end = END if self.ended else b""
        return came.removesuffix(END)

    def take_read(self, read: bytes) -> bytes:
        assert read == self._came
        return self.take()

    def encode_read(self, read: bytes) -> bytes | None:
        return self.made_alike

    async def wait_for_read(self, sink: Sink | None = None) -> None:
        self._sink = sink
        self._arrived.clear()
        self.awaited.set()
        await self._arrived.wait()

    async def close(self, *, whole: bool = False) -> None:
        self.closed = True

    async def come_alike(self, what: bytes, alike: bytes | None) -> bool:
        """`come`, offered to the push as bytes that make the frames `alike`."""
        self.made_alike = alike
        return await self.come(what, offered=what)

    async def come(self, what: bytes | Exception, offered: bytes = b"") -> bool:
        """Whether it was pushed on at once."""
        await self.awaited.wait()
        if self.offer(what, offered):
            return True
        self.wake()
        return False

    def offer(self, what: bytes | Exception, offered: bytes = b"") -> bool:
        """`come`, for who waits already; it is not woken."""
        self._came = what
        assert self._sink is not None
        return self._sink.push(offered)

    def wake(self) -> None:
        self.awaited.clear()
        self._arrived.set()

    def fail(self, error: Exception) -> bytes:
        self.ended, self._end = True, FAILED % type(error).__name__.encode()
        return b""

    def result(self) -> dict[str, Any]:
        return {"ended": self.ended}

    def conclude(self) -> bytes:
        assert self.ended
        end, self._end = self._end, b""
        return end


class Writer:
    """Writes past the server's `send`, while its client reads; who never leaves."""

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
    stream = EventStreamReply(wire, Drain(), keepalive_s=keepalive_s, headers={})
    return stream({"type": "http", CLIENT: Writer(client)}, client.receive, client.send)


async def test_what_comes_once_a_stream_has_begun_is_sent_on_the_spot() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.come(CONTENT)
        assert client.body == CONTENT
        assert await wire.come(b"")
        assert not await wire.come(END)

    await alongside(pushing(wire, client), act)
    assert (client.body, client.done, wire.closed) == (CONTENT + END, True, True)


async def test_what_comes_and_says_nothing_keeps_no_stream_alive() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        async with asyncio.timeout(5):
            while ALIVE not in client.body:
                assert await wire.come(b"")
                await asyncio.sleep(0)
        await wire.come(END)

    await alongside(pushing(wire, client, keepalive_s=0.02), act)
    assert client.body == ALIVE + END


async def test_what_is_like_the_last_is_sent_without_being_taken() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.come_alike(OPENING, CONTENT)
        assert await wire.come_alike(OPENING, b"")
        assert client.body == CONTENT
        assert await wire.come_alike(OPENING, None)
        assert client.body == CONTENT + OPENING
        assert not await wire.come_alike(END, None)

    await alongside(pushing(wire, client), act)
    assert client.body == CONTENT + OPENING + END


async def test_what_is_like_the_last_is_taken_where_its_reader_is_not_ready() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        await wire.awaited.wait()
        client.reads.clear()
        assert not await wire.come_alike(OPENING, CONTENT)
        client.reads.set()
        await client.has(OPENING)
        await wire.come(END)

    await alongside(pushing(wire, client), act)
    assert client.body == OPENING + END


def beginning(wire: PushedWire, client: Client) -> Any:
    """A stream that has said nothing and may begin past the server's `send`."""
    wire.has_content = False
    stream = EventStreamReply(wire, Drain(), keepalive_s=NEVER, headers={})
    writer: Any = Writer(client)
    return stream({"type": "http", CLIENT: writer}, client.receive, ReplySender(client.send, writer, "req_1"))


async def test_what_comes_before_content_is_held_back_on_the_spot_and_begins_the_stream_with_it() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.come(OPENING)
        assert await wire.come(b"")
        assert client.body == b""
        wire.has_content = True
        assert await wire.come(CONTENT)
        assert client.body == OPENING + CONTENT
        assert await wire.come(CONTENT)
        assert not await wire.come(END)

    await alongside(beginning(wire, client), act)
    assert (client.status, client.body, client.done) == (200, OPENING + CONTENT + CONTENT + END, True)


async def test_the_end_is_sent_on_the_spot() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        await wire.come(CONTENT)
        wire.offer(END)
        assert (client.body, client.done) == (CONTENT + END, True)
        wire.wake()

    await alongside(pushing(wire, client), act)
    assert client.body == CONTENT + END


async def test_a_stream_begins_when_its_reader_is_ready() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.come(OPENING)
        wire.has_content = True
        client.reads.clear()
        assert not await wire.come(CONTENT)
        for _ in range(5):
            await asyncio.sleep(0)
        assert client.body == b""
        client.reads.set()
        await client.has(CONTENT)
        assert not await wire.come(END)

    await alongside(beginning(wire, client), act)
    assert (client.status, client.body) == (200, OPENING + CONTENT + END)


async def test_a_stream_that_ends_without_content_is_sent_when_it_ends() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.come(OPENING)
        assert not await wire.come(END)

    wire.has_content = False
    await alongside(pushing(wire, client), act)
    assert (client.body, client.done) == (OPENING + END, True)


async def test_a_failure_that_comes_before_content_is_raised() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.come(OPENING)
        assert not await wire.come(UpstreamRateLimited("slow"))

    with pytest.raises(ExceptionGroup) as raised:
        await alongside(beginning(wire, client), act)
    assert raised.group_contains(UpstreamRateLimited)
    assert (client.status, wire.closed) == (None, True)


async def test_no_comment_waits_for_a_reader_beyond_the_end() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        await wire.come(CONTENT)
        client.reads.clear()
        # Several silences long, and enough for one that waits to be sent.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.is_sent_to.wait()
        client.reads.set()
        wire.offer(END)
        wire.wake()

    await alongside(pushing(wire, client, keepalive_s=0.01), act)
    assert (client.body, client.done) == (CONTENT + END, True)


async def test_a_stream_that_waits_for_its_reader_is_checked_once_per_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    client, wire = Client(), PushedWire()
    loop, keepalive_s = asyncio.get_running_loop(), 0.01
    delays: asyncio.Queue[float] = asyncio.Queue()
    call_later = loop.call_later

    def note_delay(delay: float, callback: Any, *args: Any) -> Any:
        if getattr(callback, "__func__", None) is EventStreamReply._check_idle:
            delays.put_nowait(delay)
        return call_later(delay, callback, *args)

    async def act() -> None:
        monkeypatch.setattr(loop, "call_later", note_delay)
        client.reads.clear()
        assert not await wire.come(CONTENT)
        # The first check since the last write may find a part of an interval left.
        assert [await delays.get() for _ in range(5)][2:] == [keepalive_s] * 3
        client.reads.set()
        await client.has(CONTENT)
        await wire.come(END)

    async with asyncio.timeout(5):
        await alongside(pushing(wire, client, keepalive_s), act)


async def test_what_comes_while_its_reader_is_not_ready_waits_for_it() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.come(CONTENT)
        client.reads.clear()
        assert not await wire.come(OPENING)
        for _ in range(5):
            await asyncio.sleep(0)
        assert client.body == CONTENT
        client.reads.set()
        await client.has(OPENING)
        await wire.come(END)

    await alongside(pushing(wire, client), act)
    assert client.body == CONTENT + OPENING + END


async def test_a_failure_in_what_comes_is_the_last_event() -> None:
    client, wire = Client(), PushedWire()

    async def act() -> None:
        assert await wire.come(CONTENT)
        assert not await wire.come(UpstreamBroken("cut"))

    await alongside(pushing(wire, client), act)
    assert client.body == CONTENT + FAILED % b"UpstreamBroken"
    assert (client.done, wire.closed) == (True, True)
