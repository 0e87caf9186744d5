"""Event streams as ASGI responses: a real status until the first content, keep-alives, one terminal event always."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from time import monotonic
from typing import Protocol

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dataplane.fast_path import make_fast_path
from dataplane.http_protocol import CLIENT, ClientWriter, running_loop
from dataplane.source import FastPath, IteratedSource, ReadTemplate, Source
from gateway.errors import GatewayError, ShuttingDown
from gateway.http.guard import ClientDisconnected, Drain, Guard
from gateway.http.headers import encode_headers
from gateway.http.middleware import BODY_SEND, ReplySender
from gateway.logs import bind_failure
from gateway.replies.recorder import ReplyRecorder
from providers.errors import ProviderError
from translation.errors import TranslationError
from translation.framing.sse import KEEP_ALIVE_COMMENT
from translation.representation.json_types import Json

_log = structlog.get_logger(__name__)

_STREAM_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class ReplyStream(Protocol):
    """One response on its way out, as bytes."""

    @property
    def has_content(self) -> bool:
        """Whether something a retry would repeat has been yielded: text, a call, an item, a regular end."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the reply is over, so that `result` is final and `conclude` has its end."""
        ...

    def result(self) -> Json | None:
        """The reply as one object: once ended, the finished one. None where there is nothing to keep of it."""
        ...

    def frames(self) -> AsyncGenerator[bytes, None]:
        """Whole LF frames, one `bytes` per upstream read. May raise; closing it closes the upstream connection."""
        ...

    def fail(self, error: Exception) -> bytes:
        """Ends the stream in failure, unless `conclude` was called. Returns the frames before the terminal event."""
        ...

    def conclude(self) -> bytes:
        """Returns the terminal event and what follows it, once, after `ended`.

        Called when the reply has been committed: until then `fail` may still replace the end.
        """
        ...


class EventStreamReply(Response):
    """Sends a Wire.

    Nothing is promised before the upstream has said something: until the first content, or `keepalive_s` of waiting,
    a failure is raised and becomes a status code. After that it becomes the stream's last event. A slow reader holds
    the upstream back: each batch is sent before the next is read. `recording` keeps the reply before its terminal event
    is sent. `late_headers`: what is added when the stream starts, as it is known then.
    """

    status_code = 200
    background = None
    _ended = False
    _keepalive_timer: asyncio.TimerHandle | None = None
    _keepalive_task: asyncio.Task[None] | None = None

    def __init__(
        self,
        stream: ReplyStream,
        drain: Drain,
        keepalive_s: float,
        headers: Mapping[str, str],
        recorder: ReplyRecorder | None = None,
        late_headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self.raw_headers = [*_STREAM_HEADERS, *encode_headers(headers)] if headers else [*_STREAM_HEADERS]
        self._late_headers = late_headers
        self._stream = stream
        self._frames = stream if isinstance(stream, Source) else IteratedSource(stream.frames(), b"")
        # Each read asks for these, and what only the class has is looked up the slow way.
        self._template: ReadTemplate[bytes] | None = None
        self.fast_path: FastPath | None = None
        self._writer: ClientWriter | None = None
        self._unsent = b""
        self._failure: Exception | None = None
        self._started = False
        self._is_complete = False
        self._recorder = recorder
        self._drain = drain
        self._keepalive_s = keepalive_s
        self._buffered: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send = send
        self._send_body = scope.get(BODY_SEND, send)
        self._client: ClientWriter | None = scope.get(CLIENT)
        self._loop = running_loop(self._client)
        guard = Guard(receive, self._drain, self._client)
        self._last_sent = monotonic()
        if self._recorder is not None:
            self._recorder.begin()
        if self._keepalive_s:
            self._keepalive_timer = self._loop.call_later(self._keepalive_s, self._check_idle)
        try:
            try:
                with guard:
                    await self._pump()
            finally:
                await self._frames.close()
        except ClientDisconnected:
            if not self._is_complete:
                _log.info("client_left", started=self._started)
        except (GatewayError, ProviderError, TranslationError) as error:
            await self._fail(error)
        except Exception as error:
            _log.exception("stream_failed")
            await self._fail(error)
        finally:
            self._ended = True
            if self._keepalive_timer is not None:
                self._keepalive_timer.cancel()
            if self._recorder is not None:
                await self._abandon_reply(self._recorder)

    async def _pump(self) -> None:
        frames = self._frames
        if self._stream.has_content:
            await self._start()
        await frames.open()
        made = b""
        while not self._is_over:
            made = frames.take()
            if not self._is_over and (not made or self._forward_frames(made)):
                # Nothing can have come since.
                if frames.template is not self._template:
                    self._select_fast_path()
                await frames.wait_for_read(self)
                made = self._take_unsent()
            if made and not self._is_over:
                await self._deliver_frames(made)
        if not self._is_complete:
            await self._conclude(made)

    @property
    def _is_over(self) -> bool:
        return self._frames.ended or self._stream.ended

    def push(self, read: bytes) -> bool:
        """Send what came without waking this stream's task, where sending it is all there is to do: so it is with nine
        reads in ten, and a task's turn costs as much as their translation."""
        frames, writer = self._frames, self._writer
        try:
            if read:
                alike = frames.template
                if alike is None or writer is None or not writer.ready or (made := alike.encode_read(read)) is None:
                    made = frames.take_read(read)
                elif made:
                    writer.write_piece(made)
                    return True
            else:
                made = frames.take()
            if frames.ended or self._stream.ended:
                if self._recorder is None and writer is not None and writer.ready:
                    made += self._stream.conclude()
                    self._is_complete = writer.end_stream(made)
                self._unsent = b"" if self._is_complete else made
                return False
            if frames.is_draining or (made and not self._forward_frames(made)):
                self._unsent = made
                return False
            if frames.template is not self._template:
                self._select_fast_path()
        except Exception as failure:
            self._failure = failure
            return False
        return True

    def _select_fast_path(self) -> None:
        if self._writer is not None:
            self._template = self._frames.template
            self.fast_path = make_fast_path(self._template, self._writer)

    def _forward_frames(self, frames: bytes) -> bool:
        """Send what is not the end, or hold it back; False where sending it takes waiting."""
        if self._writer is not None:
            return self._writer.write_piece(frames)
        if self._started:
            return False
        if self._stream.has_content:
            return self._try_start(b"".join((*self._buffered, frames)))
        self._buffered.append(frames)
        return True

    def _take_unsent(self) -> bytes:
        """What a push has left to do."""
        if self._failure is not None:
            raise self._failure
        made, self._unsent = self._unsent, b""
        return made

    async def _deliver_frames(self, frames: bytes) -> None:
        if self._started:
            await self._write(frames)
            return
        self._buffered.append(frames)
        if self._stream.has_content:
            await self._start()

    async def _conclude(self, frames: bytes) -> None:
        """Commits the reply, then sends `frames`, its last ones, and the terminal event in one write.

        A reply that cannot be committed raises, and so ends in failure instead.
        """
        if self._recorder is not None:
            recorder, self._recorder = self._recorder, None
            try:
                await recorder.finish(self._stream.result())
            except BaseException:
                self._unsent = frames
                raise
        frames += self._stream.conclude()
        if self._started:
            await self._write(frames, last=True)
        else:
            self._buffered.append(frames)
            await self._start(last=True)

    async def _start(self, *, last: bool = False) -> None:
        """Commit to status 200 and send what was held back; `last`: it is all there is."""
        if self._started:
            return
        buffered = b"".join(self._buffered)
        if not self._try_start(buffered, last=last):
            self._started = True
            self._buffered.clear()
            await self._send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._write(buffered, last=last)
            self._writer = self._client

    def _try_start(self, frames: bytes, *, last: bool = False) -> bool:
        """`_start` in one write, with all that was held back; False where it takes waiting."""
        self._started = True
        if self._late_headers is not None:
            self.headers.update(self._late_headers())
        if not (isinstance(self._send, ReplySender) and self._send.begin_reply(self.raw_headers, frames, last=last)):
            self._started = False
            return False
        self._buffered.clear()
        self._is_complete = last
        self._last_sent = monotonic()
        self._writer = self._client
        return True

    async def _write(self, frames: bytes, *, last: bool = False) -> None:
        if not (frames or last):
            return
        self._unsent = frames
        self._is_complete = last
        if last and self._writer is not None and self._writer.end_stream(frames):
            self._unsent = b""
            return
        await self._send_body({"type": "http.response.body", "body": frames, "more_body": not last})
        self._unsent = b""
        self._last_sent = monotonic()

    async def _fail(self, error: Exception) -> None:
        if not self._started:
            raise error
        bind_failure(error)
        frames = self._stream.fail(error)
        if self._recorder is not None:
            recorder, self._recorder = self._recorder, None
            try:
                await recorder.finish(self._stream.result())
            except Exception:  # the client is told of the failure all the same; the row ends as interrupted
                _log.exception("failure_not_kept")
        await self._write(self._unsent + frames + self._stream.conclude(), last=True)

    async def _abandon_reply(self, recorder: ReplyRecorder) -> None:
        """The end of a recording whose reply has not been kept whole: its client left, or never heard of it."""
        if self._started and not self._stream.ended:
            self._stream.fail(ShuttingDown())
        await recorder.abandon(self._stream.result() if self._started else None)

    def _check_idle(self) -> None:
        """Runs when a silence may have lasted `keepalive_s`; re-arms itself."""
        last_sent = self._last_sent if self._writer is None else max(self._last_sent, self._writer.sent_at)
        idle_s = monotonic() - last_sent
        if idle_s >= self._keepalive_s * 0.999 and not self._unsent:
            self._keepalive_task = self._loop.create_task(self._send_keepalive())
            idle_s = 0.0
        self._keepalive_timer = self._loop.call_later(max(self._keepalive_s - idle_s, 0.001), self._check_idle)

    async def _send_keepalive(self) -> None:
        if self._ended or self._is_complete:
            return
        await self._start()
        if self._ended or self._is_complete:  # while it waited to start
            return
        if self._writer is None:
            await self._write(KEEP_ALIVE_COMMENT)
        else:
            # Not where its reader is not ready: that has more to read than this, and it would wait beyond the end.
            self._writer.write_piece(KEEP_ALIVE_COMMENT)
