"""An event stream promises nothing before there is content, never falls silent, and ends once."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from gateway.errors import ShuttingDown, StoreUnavailable
from gateway.http.guard import DrainState
from gateway.replies.event_stream import EventStreamReply
from providers.errors import UpstreamBroken, UpstreamRateLimited
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
    take_turns,
)

Step = bytes | Exception | asyncio.Event


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


def streaming(wire: FakeWire, client: Client, *, drain: DrainState | None = None, keepalive_s: float = NEVER) -> Any:
    drain = DrainState() if drain is None else drain
    stream = EventStreamReply(wire, drain, keepalive_s=keepalive_s, headers={})
    return stream({"type": "http"}, client.receive, client.send)


async def test_a_stream_is_sent_as_it_arrives() -> None:
    client, wire = Client(), FakeWire(OPENING, CONTENT, END)
    await streaming(wire, client)
    assert (client.status, client.body, client.done) == (200, OPENING + CONTENT + END, True)
    assert wire.closed


def test_proxies_are_asked_not_to_buffer_a_stream() -> None:
    stream = EventStreamReply(FakeWire(), DrainState(), keepalive_s=NEVER, headers={"x-gateway-loss": "seed=dropped"})
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.headers["cache-control"] == "no-cache, no-transform"
    assert stream.headers["x-accel-buffering"] == "no"
    assert stream.headers["x-gateway-loss"] == "seed=dropped"


async def test_no_status_is_sent_before_content() -> None:
    client, content = Client(), asyncio.Event()

    async def act() -> None:
        for _ in range(5):  # turns of the loop, in which nothing may be sent
            await asyncio.sleep(0)
        assert client.status is None
        content.set()
        await client.has(END)

    await run_alongside(streaming(FakeWire(OPENING, content, CONTENT, END), client), act)
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


async def test_silence_before_content_is_filled_and_sends_status_200(monkeypatch: pytest.MonkeyPatch) -> None:
    client, more, silences = Client(), asyncio.Event(), Silences(monkeypatch)

    async def act() -> None:
        await take_turns()
        for _ in range(2):
            await silences.end()
        assert (client.status, client.body) == (200, OPENING + ALIVE + ALIVE)
        more.set()

    await run_alongside(streaming(FakeWire(OPENING, more, UpstreamRateLimited("slow")), client), act)
    assert client.body == OPENING + ALIVE + ALIVE + FAILED % b"UpstreamRateLimited"
    assert client.done


async def test_silence_after_content_is_filled() -> None:
    client, more = Client(), asyncio.Event()

    async def act() -> None:
        await client.has(CONTENT)
        await client.has(ALIVE)
        more.set()

    await run_alongside(streaming(FakeWire(CONTENT, more, END), client, keepalive_s=0.01), act)
    assert client.body.replace(ALIVE, b"") == CONTENT + END


async def test_a_client_that_does_not_read_slows_the_upstream_down() -> None:
    client = Client()
    client.reads.clear()
    wire = FakeWire(CONTENT, CONTENT, END)

    async def act() -> None:
        await client.is_sent_to.wait()
        for _ in range(5):  # turns of the loop, in which nothing may be sent
            await asyncio.sleep(0)
        assert client.body == b""
        assert not wire.closed
        client.reads.set()

    await run_alongside(streaming(wire, client), act)
    assert client.body == CONTENT + CONTENT + END


async def test_no_keep_alive_is_sent_into_an_unfinished_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    client, silences = Client(), Silences(monkeypatch)
    client.reads.clear()

    async def act() -> None:
        await client.is_sent_to.wait()
        for _ in range(3):
            await silences.end()
        client.reads.set()

    await run_alongside(streaming(FakeWire(CONTENT, END), client), act)
    assert client.body == CONTENT + END


async def test_the_end_of_draining_ends_a_stream_in_one_failure() -> None:
    client, drain = Client(), DrainState()

    async def act() -> None:
        await client.has(CONTENT)
        drain.expire()

    wire = FakeWire(CONTENT, asyncio.Event())
    await run_alongside(streaming(wire, client, drain=drain), act)
    assert client.body == CONTENT + FAILED % b"ShuttingDown"
    assert client.done
    assert wire.closed


async def test_the_end_of_draining_before_content_is_a_status() -> None:
    drain = DrainState()
    drain.expire()
    with pytest.raises(ShuttingDown):
        await streaming(FakeWire(OPENING, asyncio.Event()), Client(), drain=drain)


async def test_buffered_frames_are_sent_before_the_failure() -> None:
    client, drain = Client(), DrainState()
    client.reads.clear()

    async def act() -> None:
        await client.is_sent_to.wait()
        drain.expire()
        await asyncio.sleep(0)
        client.reads.set()

    await run_alongside(streaming(FakeWire(CONTENT, END), client, drain=drain), act)
    assert client.body == CONTENT + FAILED % b"ShuttingDown"


async def test_a_client_that_leaves_closes_the_upstream_and_gets_nothing_more() -> None:
    client, wire = Client(), FakeWire(CONTENT, asyncio.Event())

    async def act() -> None:
        await client.has(CONTENT)
        client.left.set()

    await run_alongside(streaming(wire, client), act)
    assert wire.closed
    assert client.body == CONTENT


class FakeRecording:
    """Stores a reply, or fails. `tried`: what the client had received at that time."""

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


def recorded(wire: FakeWire, client: Client, recording: FakeRecording, drain: DrainState | None = None) -> Any:
    stream = EventStreamReply(
        wire, DrainState() if drain is None else drain, keepalive_s=NEVER, headers={}, recorder=recording
    )
    return stream({"type": "http"}, client.receive, client.send)


async def test_the_terminal_event_is_sent_after_the_commit() -> None:
    client = Client()
    recording = FakeRecording(client)
    await recorded(FakeWire(CONTENT, END), client, recording)
    assert (recording.begun, recording.tried, recording.abandoned) == (True, [CONTENT], [])
    assert client.body == CONTENT + END


async def test_silence_during_the_commit_is_filled() -> None:
    client, wire, kept = Client(), PushedWire(), asyncio.Event()
    wire.has_content = False
    recording = FakeRecording(client, until=kept)
    stream = EventStreamReply(wire, DrainState(), keepalive_s=0.01, headers={}, recorder=recording)

    async def act() -> None:
        assert not await wire.deliver(END)
        await client.has(ALIVE)
        kept.set()

    await run_alongside(stream({"type": "http"}, client.receive, client.send), act)
    assert client.body.replace(ALIVE, b"") == END
    assert client.done


async def test_an_end_that_cannot_be_stored_becomes_a_failure() -> None:
    client = Client()
    recording = FakeRecording(client, StoreUnavailable("no"))
    await recorded(FakeWire(CONTENT, END), client, recording)
    assert client.body == CONTENT + FAILED % b"StoreUnavailable"
    assert client.done
    assert len(recording.tried) == 1


async def test_an_end_that_cannot_be_stored_before_content_is_a_status() -> None:
    client = Client()
    with pytest.raises(StoreUnavailable):
        await recorded(FakeWire(END), client, FakeRecording(client, StoreUnavailable("no")))
    assert client.status is None


async def test_the_end_of_draining_during_the_commit_is_a_failure() -> None:
    client, drain = Client(), DrainState()
    recording = FakeRecording(client, until=asyncio.Event())

    async def act() -> None:
        await client.has(CONTENT)
        await recording.trying.wait()
        drain.expire()

    await run_alongside(recorded(FakeWire(CONTENT, END), client, recording, drain), act)
    assert client.body == CONTENT + FAILED % b"ShuttingDown"


@pytest.mark.parametrize("failure", [None, StoreUnavailable("no")], ids=["kept", "not kept"])
async def test_a_failure_is_sent_whether_it_can_be_stored_or_not(failure: Exception | None) -> None:
    client = Client()
    recording = FakeRecording(client, failure)
    await recorded(FakeWire(CONTENT, UpstreamBroken("cut")), client, recording)
    assert client.body == CONTENT + FAILED % b"UpstreamBroken"
    assert recording.tried == [CONTENT]
