"""A client of an event stream, and frames."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from time import monotonic
from typing import Any

import pytest

from dataplane.source import ReadTemplate, Sink, Source
from gateway.replies import keep_alive

OPENING, CONTENT, END = b"opening\n\n", b"content\n\n", b"end\n\n"
FAILED = b"failed: %b\n\n"
ALIVE = b": keep-alive\n\n"
NEVER = 60.0


class Silences:
    """The silences of a stream whose `keepalive_s` is NEVER: a test ends them. Created before the stream starts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.delays: list[float] = []
        """The time from each check for silence to the next."""
        self._passed_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._check: Callable[[], object] = partial(pytest.fail, "no check for silence was scheduled")
        self._call_later = asyncio.get_running_loop().call_later
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", self._note_check)
        monkeypatch.setattr(keep_alive, "monotonic", lambda: monotonic() + self._passed_s)

    def _note_check(self, delay: float, callback: Callable[..., object], *arguments: Any) -> asyncio.TimerHandle:
        timer = self._call_later(delay, callback, *arguments)
        if isinstance(getattr(callback, "__self__", None), keep_alive.KeepAlive):
            self.delays.append(delay)
            self._timer, self._check = timer, partial(callback, *arguments)
        return timer

    async def end(self) -> None:
        """Lets the next check find that nothing was sent for the whole interval, and a frame arrive if it may."""
        assert self._timer is not None
        assert not self._timer.cancelled(), "the stream has ended"
        self._timer.cancel()
        self._passed_s = NEVER
        try:
            self._check()
        finally:
            self._passed_s = 0.0
        await take_turns()


async def take_turns() -> None:
    """Turns of the loop, in which a test expects that nothing is sent, or that all has been."""
    for _ in range(5):
        await asyncio.sleep(0)


class Client:
    """An ASGI client: what it received, and whether it reads and stays."""

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
        async with asyncio.timeout(60), self._got_more:
            await self._got_more.wait_for(lambda: mark in self.body)


async def run_alongside(stream: Awaitable[None], act: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(stream)  # type: ignore[arg-type]
        await act()


class PushedWire(Source[bytes]):
    """Replays reads of a test as a socket would: to the push of the waiting sink."""

    ended = False
    fast_path_kind = None

    def __init__(self) -> None:
        self.closed = False
        self.has_content = True
        self.template_frames: bytes | None = None
        self.template: ReadTemplate[bytes] | None = self
        self.awaited = asyncio.Event()
        self._received: bytes | Exception = b""
        self._end = b""
        self._sink: Sink | None = None
        self._arrived = asyncio.Event()

    def frames(self) -> AsyncGenerator[bytes, None]:
        return self.iterate()

    def take(self) -> bytes:
        received, self._received = self._received, b""
        if isinstance(received, Exception):
            raise received
        self.ended = received.endswith(END)
        self._end = END if self.ended else b""
        return received.removesuffix(END)

    def take_read(self, read: bytes) -> bytes:
        assert read == self._received
        return self.take()

    def encode_read(self, read: bytes) -> bytes | None:
        return self.template_frames

    async def wait_for_read(self, sink: Sink | None = None) -> None:
        self._sink = sink
        self._arrived.clear()
        self.awaited.set()
        await self._arrived.wait()

    async def close(self, *, whole: bool = False) -> None:
        self.closed = True

    async def deliver_run(self, what: bytes, template_frames: bytes | None) -> bool:
        """Delivers a read of a delta run, whose frames by template are `template_frames`."""
        self.template_frames = template_frames
        return await self.deliver(what, offered=what)

    async def deliver(self, what: bytes | Exception, offered: bytes = b"") -> bool:
        """Delivers a read once the reply waits for one. Returns whether the sink took it."""
        await self.awaited.wait()
        if self.deliver_to_sink(what, offered):
            return True
        self.wake()
        return False

    def deliver_to_sink(self, what: bytes | Exception, offered: bytes = b"") -> bool:
        """Delivers a read to the waiting sink, without waking the waiting task."""
        self._received = what
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
