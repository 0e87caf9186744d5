"""A connection from its first message to its end, with a clock that the tests move and a store that fails."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.config.settings import parse_settings
from gateway.dialects.responses.endpoint import RESPONSES
from gateway.errors import StoreUnavailable
from gateway.http.auth import ANONYMOUS
from gateway.http.body import BodyLimits
from gateway.http.guard import DrainState
from gateway.service.run import Run
from gateway.service.service import Service
from gateway.websocket.connection import ConnectionLimits, WebSocketConnection
from gateway.websocket.turn import ConnectionClient
from providers.config import ProviderConfig
from providers.scripted.provider import ScriptedProvider

Json = dict[str, Any]

PATIENCE_S = 60.0
HOUR_S = 3600.0
CREATE = {"type": "response.create", "model": "demo", "input": "Hello"}


class Clock:
    """Replaces an event loop's `call_later`. The time is over when `fire` is called."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.cancelled = False
        self._call: Callable[[], None]

    def __call__(self, delay_s: float, call: Callable[[], None]) -> Any:
        self.delay_s, self._call = delay_s, call
        return self

    def cancel(self) -> None:
        self.cancelled = True

    def fire(self) -> None:
        self._call()


class Peer:
    """The other end of a connection, as ASGI presents it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.drain = DrainState()
        self.gone = False
        self._sent: asyncio.Queue[Json] = asyncio.Queue()
        self._replies: asyncio.Queue[Json] = asyncio.Queue()

    def send_event(self, event: Json) -> None:
        self._sent.put_nowait({"type": "websocket.receive", "text": json.dumps(event)})

    def leave(self) -> None:
        self._sent.put_nowait({"type": "websocket.disconnect", "code": 1001})

    async def receive(self) -> Json:
        message = await self._sent.get()
        self._sent.task_done()
        return message

    async def wait_until_received(self) -> None:
        """Waits until all sent messages were received."""
        async with asyncio.timeout(PATIENCE_S):
            await self._sent.join()

    async def send(self, message: Any) -> None:
        if self.gone:
            raise ConnectionResetError
        self._replies.put_nowait(message)
        if message["type"] == "websocket.close":
            self.leave()

    async def receive_event(self) -> Json:
        """The next event, or the message that closes the connection."""
        async with asyncio.timeout(PATIENCE_S):
            message = await self._replies.get()
        event: Json = json.loads(message["text"]) if message["type"] == "websocket.send" else message
        return event

    async def receive_turn(self) -> list[Json]:
        events = [await self.receive_event()]
        while events[-1]["type"] not in ("response.completed", "response.failed", "error"):
            events.append(await self.receive_event())
        return events


def service_of(peer: Peer) -> Service:
    config = {"providers": {"demo": {"type": "scripted"}}, "models": {"demo": {"provider": "demo"}}}
    provider = ScriptedProvider("demo", ProviderConfig.model_validate({"type": "scripted"}))
    return Service(parse_settings(config, environ={}), {"demo": provider}, peer.drain)


@asynccontextmanager
async def connected(peer: Peer, service: Service | None = None) -> AsyncIterator[None]:
    """Serves the peer, which must end soon after the block."""
    limits = ConnectionLimits(body=BodyLimits(10_000, 20, 1000), max_s=HOUR_S, hold_s=10.0)
    connection = WebSocketConnection(
        service or service_of(peer),
        RESPONSES,
        ConnectionClient(ANONYMOUS, {"type": "websocket", "path": "/v1/responses"}),
        limits,
        peer.receive,
        peer.send,
        call_later=peer.clock,
    )
    serving = asyncio.get_running_loop().create_task(connection.serve())
    try:
        yield
        async with asyncio.timeout(PATIENCE_S):
            await serving
    finally:
        serving.cancel()


async def test_an_idle_connection_gets_an_event_at_its_time_limit() -> None:
    peer = Peer()
    async with connected(peer):
        peer.send_event(CREATE)
        assert (await peer.receive_turn())[-1]["type"] == "response.completed"
        assert peer.clock.delay_s == HOUR_S
        peer.clock.fire()
        event = await peer.receive_event()
        assert (event["type"], event["status"]) == ("error", 400)
        assert event["error"]["code"] == "websocket_connection_limit_reached"
        assert "(60 minutes)" in event["error"]["message"]
        assert (await peer.receive_event())["code"] == 1000


async def test_a_client_that_leaves_stops_the_clock() -> None:
    peer = Peer()
    async with connected(peer):
        peer.leave()
    assert peer.clock.cancelled


async def test_the_shutdown_counts_after_the_time_limit() -> None:
    peer = Peer()
    async with connected(peer):
        peer.send_event(CREATE)
        await peer.receive_turn()
        peer.clock.fire()
        peer.drain.begin()
        assert (await peer.receive_event())["type"] == "error"
        assert (await peer.receive_event())["code"] == 1000


async def test_a_connection_that_opens_while_the_server_stops_is_closed() -> None:
    peer = Peer()
    peer.drain.begin()
    async with connected(peer):
        assert (await peer.receive_event())["code"] == 1012


async def test_a_lost_peer_ends_the_connection_without_an_event() -> None:
    peer = Peer()
    async with connected(peer):
        peer.gone = True
        peer.send_event({"type": "nonsense"})


async def test_a_turn_with_a_lost_peer_ends() -> None:
    peer = Peer()
    async with connected(peer):
        peer.gone = True
        peer.send_event(CREATE)
        peer.leave()


async def test_an_internal_error_is_reported_and_the_connection_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer()
    service = service_of(peer)
    opening = service.accept

    async def fail(*_: Any, **__: Any) -> Run:
        monkeypatch.setattr(service, "accept", opening)
        raise ZeroDivisionError

    monkeypatch.setattr(service, "accept", fail)
    async with connected(peer, service):
        peer.send_event(CREATE)
        (event,) = await peer.receive_turn()
        assert (event["status"], event["error"]["code"]) == (500, "internal_error")
        peer.send_event(CREATE)
        assert (await peer.receive_turn())[-1]["type"] == "response.completed"
        peer.leave()


class FullDisk:
    """A recording that cannot keep anything."""

    def __init__(self) -> None:
        self.abandoned: list[Json | None] = []

    def begin(self) -> None:
        return

    def begin_unsent(self) -> None:
        raise NotImplementedError

    async def finish(self, result: Json | None) -> None:
        raise StoreUnavailable("the disk is full")

    async def abandon(self, unfinished: Json | None) -> None:
        self.abandoned.append(unfinished)


async def test_the_terminal_event_of_an_unstored_end_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    peer, recording = Peer(), FullDisk()
    service = service_of(peer)
    opening = service.accept

    async def open_recorded(*given: Any, **named: Any) -> Run:
        run = await opening(*given, **named)
        run.recorder = recording
        return run

    monkeypatch.setattr(service, "accept", open_recorded)
    async with connected(peer, service):
        peer.send_event(CREATE)
        events = await peer.receive_turn()
        assert events[-1]["type"] == "error"
        assert (events[-1]["status"], events[-1]["error"]["code"]) == (503, "store_unavailable")
        assert "response.output_text.delta" in [event["type"] for event in events]
        peer.leave()
    assert [unfinished["status"] for unfinished in recording.abandoned if unfinished] == ["completed"]


@pytest.mark.parametrize("lane", [None, "a"])
async def test_a_queued_turn_is_refused_at_the_time_limit(lane: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer()
    service = service_of(peer)
    opening, go_on = service.accept, asyncio.Event()

    async def wait(*given: Any, **named: Any) -> Run:
        await go_on.wait()
        return await opening(*given, **named)

    monkeypatch.setattr(service, "accept", wait)
    async with connected(peer, service):
        for _ in range(2):
            peer.send_event({**CREATE, "stream_id": lane})
        await peer.wait_until_received()
        peer.clock.fire()
        refused = await peer.receive_event()
        assert (refused["type"], refused.get("stream_id")) == ("error", lane)
        go_on.set()
        assert (await peer.receive_turn())[-1]["type"] == "response.completed"
        assert (await peer.receive_event())["type"] == "error"
        assert (await peer.receive_event())["code"] == 1000
