"""Event streams as ASGI responses: a real status until the first content, keep-alives, one terminal event always."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from time import monotonic
from typing import Protocol

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dataplane.fast_path import passage
from dataplane.http_protocol import CLIENT, Client, loop_of
from dataplane.source import Alike, Incoming, Iterated, Passage
from gateway.errors import GatewayError, ShuttingDown
from gateway.http.guard import ClientLeft, Drain, Guard
from gateway.http.headers import raw_headers
from gateway.http.middleware import BODY_SEND, Sending
from gateway.logs import note_failure
from gateway.replies.recorder import Recording
from providers.errors import ProviderError
from translation.errors import TranslationError
from translation.framing.sse import KEEP_ALIVE
from translation.representation.json_types import Json

_log = structlog.get_logger(__name__)

_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


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

    def withdraw(self, frames: bytes) -> bytes:
        """`frames`, the last that were made, without the terminal event in them, which nobody was sent: the stream has
        not ended, and `fail` ends it."""
        ...


class EventStream(Response):
    """Sends a Wire.

    Nothing is promised before the upstream has said something: until the first content, or `keepalive_s` of waiting,
    a failure is raised and becomes a status code. After that it becomes the stream's last event. A slow reader holds
    the upstream back: each batch is sent before the next is read. `recording` keeps the reply before its terminal event
    is sent. `late_headers`: what is added when the stream starts, as it is known then.
    """

    status_code = 200
    background = None
    _ended = False
    _timer: asyncio.TimerHandle | None = None
    _beat_task: asyncio.Task[None] | None = None

    def __init__(
        self,
        wire: Wire,
        drain: Drain,
        keepalive_s: float,
        headers: Mapping[str, str],
        recording: Recording | None = None,
        late_headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self.raw_headers = [*_HEADERS, *raw_headers(headers)] if headers else [*_HEADERS]
        self._late_headers = late_headers
        self._wire = wire
        self._frames = wire if isinstance(wire, Incoming) else Iterated(wire.frames(), b"")
        # Each read asks for these, and what only the class has is looked up the slow way.
        self._alike: Alike[bytes] | None = None
        self.passage: Passage | None = None
        self._writer: Client | None = None
        self._unsent = b""
        self._failure: Exception | None = None
        self._started = False
        self._complete = False
        self._recording = recording
        self._drain = drain
        self._keepalive_s = keepalive_s
        self._held: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send = send
        self._send_body = scope.get(BODY_SEND, send)
        self._client: Client | None = scope.get(CLIENT)
        self._loop = loop_of(self._client)
        guard = Guard(receive, self._drain, self._client)
        self._last_sent = monotonic()
        if self._recording is not None:
            self._recording.begin()
        if self._keepalive_s:
            self._timer = self._loop.call_later(self._keepalive_s, self._tick)
        try:
            try:
                with guard:
                    await self._pump()
            finally:
                await self._frames.close()
        except ClientLeft:
            if not self._complete:
                _log.info("client_left", started=self._started)
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

    async def _pump(self) -> None:
        frames = self._frames
        if self._wire.has_content:
            await self._start()
        await frames.open()
        while not frames.ended:
            made = frames.take()
            if not frames.ended and (not made or (not self._wire.ended and self._pass(made))):
                # Nothing can have come since.
                if frames.alike is not self._alike:
                    self._find_passage()
                await frames.arrival(self)
                made = self._pushed()
            if made:
                await self._deliver(made)
        if not self._started:
            await self._start(last=True)
        if not self._complete:
            await self._write(b"", last=True)

    def push(self, read: bytes) -> bool:
        """Send what came without waking this stream's task, where sending it is all there is to do: so it is with nine
        reads in ten, and a task's turn costs as much as their translation."""
        frames, writer = self._frames, self._writer
        try:
            if read:
                alike = frames.alike
                if alike is None or writer is None or not writer.ready or (made := alike.piece_of(read)) is None:
                    made = frames.taken(read)
                elif made:
                    writer.write(made)
                    return True
            else:
                made = frames.take()
            if frames.ended or frames.is_late or self._wire.ended or (made and not self._pass(made)):
                if frames.ended and self._recording is None and writer is not None and writer.end(made):
                    self._complete = True
                else:
                    self._unsent = made
                return False
            if frames.alike is not self._alike:
                self._find_passage()
        except Exception as failure:
            self._failure = failure
            return False
        return True

    def _find_passage(self) -> None:
        if self._writer is not None:
            self._alike = self._frames.alike
            self.passage = passage(self._alike, self._writer)

    def _pass(self, made: bytes) -> bool:
        """Send what is not the end, or hold it back; False where sending it takes waiting."""
        if self._writer is not None:
            return self._writer.write(made)
        if self._started:
            return False
        if self._wire.has_content:
            return self._begin(b"".join((*self._held, made)))
        self._held.append(made)
        return True

    def _pushed(self) -> bytes:
        """What a push has left to do."""
        if self._failure is not None:
            raise self._failure
        made, self._unsent = self._unsent, b""
        return made

    async def _deliver(self, made: bytes) -> None:
        if self._recording is not None and self._wire.ended:
            await self._keep(self._recording, made)
        if self._started:
            await self._write(made, last=self._frames.ended)
            return
        self._held.append(made)
        if self._wire.has_content:
            await self._start(last=self._frames.ended)

    async def _keep(self, recording: Recording, made: bytes) -> None:
        """Before anybody is told of the end. What cannot be kept ends in failure."""
        self._recording = None
        try:
            await recording.finish(self._wire.result())
        except BaseException:
            self._unsent = self._wire.withdraw(made)
            raise

    async def _start(self, *, last: bool = False) -> None:
        """Commit to status 200 and send what was held back; `last`: it is all there is."""
        if self._started:
            return
        held = b"".join(self._held)
        if not self._begin(held, last=last):
            self._started = True
            self._held.clear()
            await self._send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._write(held, last=last)
            self._writer = self._client

    def _begin(self, held: bytes, *, last: bool = False) -> bool:
        """`_start` in one write, with all that was held back; False where it takes waiting."""
        self._started = True
        if self._late_headers is not None:
            self.headers.update(self._late_headers())
        if not (isinstance(self._send, Sending) and self._send.begin(self.raw_headers, held, last=last)):
            self._started = False
            return False
        self._held.clear()
        self._complete = last
        self._last_sent = monotonic()
        self._writer = self._client
        return True

    async def _write(self, frames: bytes, *, last: bool = False) -> None:
        if not (frames or last):
            return
        self._unsent = frames
        self._complete = last
        if last and self._writer is not None and self._writer.end(frames):
            self._unsent = b""
            return
        await self._send_body({"type": "http.response.body", "body": frames, "more_body": not last})
        self._unsent = b""
        self._last_sent = monotonic()

    async def _fail(self, error: Exception) -> None:
        if not self._started:
            raise error
        note_failure(error)
        frames = self._wire.fail(error)
        if self._recording is not None and frames:
            recording, self._recording = self._recording, None
            try:
                await recording.finish(self._wire.result())
            except Exception:  # the client is told of the failure all the same; the row ends as interrupted
                _log.exception("failure_not_kept")
        await self._write(self._unsent + frames, last=True)

    async def _abandon(self, recording: Recording) -> None:
        """The end of a recording whose reply has not been kept whole: its client left, or never heard of it."""
        if self._started and not self._wire.ended:
            self._wire.fail(ShuttingDown())
        await recording.abandon(self._wire.result() if self._started else None)

    def _tick(self) -> None:
        """Runs when a silence may have lasted `keepalive_s`; re-arms itself."""
        last_sent = self._last_sent if self._writer is None else max(self._last_sent, self._writer.sent_at)
        idle_s = monotonic() - last_sent
        if idle_s >= self._keepalive_s * 0.999 and not self._unsent:
            self._beat_task = self._loop.create_task(self._beat())
            idle_s = 0.0
        self._timer = self._loop.call_later(max(self._keepalive_s - idle_s, 0.001), self._tick)

    async def _beat(self) -> None:
        if self._ended or self._complete:
            return
        await self._start()
        if self._ended or self._complete:  # while it waited to start
            return
        if self._writer is None:
            await self._write(KEEP_ALIVE)
        else:
            # Not where its reader is not ready: that has more to read than this, and it would wait beyond the end.
            self._writer.write(KEEP_ALIVE)
