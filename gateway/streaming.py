"""Event streams as ASGI responses: a real status until the first content, keep-alives, one terminal event always."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Protocol

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.edge import BODY_SEND
from gateway.errors import GatewayError, ShuttingDown
from gateway.guard import ClientLeft, Drain, Guard
from gateway.logs import note_failure
from gateway.recording import Recording
from providers.errors import ProviderError
from translation.errors import TranslationError
from translation.json_types import Json
from translation.sse import KEEP_ALIVE

_log = structlog.get_logger(__name__)

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}


class Wire(Protocol):
    """One response on its way out, as bytes."""

    @property
    def has_content(self) -> bool:
        """Whether something a retry would repeat has been yielded: text, a call, an item, a regular end."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the terminal event has been made."""
        ...

    def result(self) -> Json | None:
        """The reply as one object: once ended, the finished one. None where there is nothing to keep of it."""
        ...

    def frames(self) -> AsyncGenerator[bytes, None]:
        """Whole LF frames, one `bytes` per upstream read. May raise; closing it closes the upstream connection."""
        ...

    def fail(self, error: Exception) -> bytes:
        """The frames that end the stream now, in failure; empty when it has ended already."""
        ...


class EventStream(Response):
    """Sends a Wire.

    Nothing is promised before the upstream has said something: until the first content, or `keepalive_s` of waiting,
    a failure is raised and becomes a status code. After that it becomes the stream's last event. A slow reader holds
    the upstream back: each batch is sent before the next is read. `recording` keeps the reply before its terminal event
    is sent. `late_headers`: what is added when the stream starts, as it is known then.
    """

    def __init__(
        self,
        wire: Wire,
        drain: Drain,
        *,
        keepalive_s: float,
        headers: Mapping[str, str],
        recording: Recording | None = None,
        late_headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers({**_HEADERS, **headers})
        self._late_headers = late_headers
        self._wire = wire
        self._recording = recording
        self._drain = drain
        self._keepalive_s = keepalive_s
        self._held: list[bytes] = []
        self._unsent = b""
        self._started = False
        self._ended = False
        self._last_sent = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._beat_task: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send = send
        self._send_body = scope.get(BODY_SEND, send)
        self._loop = asyncio.get_running_loop()
        self._last_sent = self._loop.time()
        if self._recording is not None:
            self._recording.begin()
        if self._keepalive_s:
            self._timer = self._loop.call_later(self._keepalive_s, self._tick)
        try:
            async with Guard(receive, self._drain):
                await self._pump()
        except ClientLeft:
            _log.info("client_left", started=self._started)
            return
        except (GatewayError, ProviderError, TranslationError) as error:
            await self._fail(error)
        except Exception as error:
            _log.exception("stream_failed")
            await self._fail(error)
        finally:
            self._ended = True
            if self._timer is not None:
                self._timer.cancel()
            if self._recording is not None:
                await self._abandon(self._recording)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self) -> None:
        async with aclosing(self._wire.frames()) as frames:
            async for frame in frames:
                if self._recording is not None and self._wire.ended:
                    await self._recording.finish(self._wire.result())
                if self._started:
                    # `_write`, written out: this line runs for every read of every stream.
                    self._unsent = frame
                    await self._send_body({"type": "http.response.body", "body": frame, "more_body": True})
                    self._unsent = b""
                    self._last_sent = self._loop.time()
                    continue
                self._held.append(frame)
                if self._wire.has_content:
                    await self._start()
        await self._start()

    async def _start(self) -> None:
        """Commit to status 200 and send what was held back."""
        if self._started:
            return
        self._started = True
        if self._late_headers is not None:
            self.headers.update(self._late_headers())
        await self._send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        held, self._held = b"".join(self._held), []
        await self._write(held)

    async def _write(self, frames: bytes) -> None:
        if not frames:
            return
        self._unsent = frames
        await self._send_body({"type": "http.response.body", "body": frames, "more_body": True})
        self._unsent = b""
        self._last_sent = self._loop.time()

    async def _fail(self, error: Exception) -> None:
        if not self._started:
            raise error
        note_failure(error)
        frames = self._wire.fail(error)
        if self._recording is not None and frames:
            await self._recording.finish(self._wire.result())
        await self._write(self._unsent + frames)

    async def _abandon(self, recording: Recording) -> None:
        """The end of a recording whose reply has not been kept whole: its client left, or never heard of it."""
        if self._started and not self._wire.ended:
            self._wire.fail(ShuttingDown())
        await recording.abandon(self._wire.result() if self._started else None)

    def _tick(self) -> None:
        """Runs when a silence may have lasted `keepalive_s`; re-arms itself."""
        idle_s = self._loop.time() - self._last_sent
        if idle_s >= self._keepalive_s * 0.999 and not self._unsent:
            self._beat_task = self._loop.create_task(self._beat())
            idle_s = 0.0
        self._timer = self._loop.call_later(max(self._keepalive_s - idle_s, 0.001), self._tick)

    async def _beat(self) -> None:
        if not self._ended:
            await self._start()
            await self._write(KEEP_ALIVE)
