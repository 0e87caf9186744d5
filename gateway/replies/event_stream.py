"""Sends reply streams over HTTP: a real status until the first content, keep-alives, and always one terminal event."""

from collections.abc import AsyncGenerator, Callable, Mapping
from time import monotonic
from typing import Final, NamedTuple, Protocol

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dataplane.core import make_fast_path
from dataplane.http_protocol import CLIENT, ClientWriter, get_running_loop
from dataplane.source import FastPath, ReadTemplate, as_source
from gateway.errors import GatewayError, ShuttingDown
from gateway.http.error_forms import bind_failure
from gateway.http.guard import ClientDisconnected, DrainState, RequestGuard
from gateway.http.headers import encode_headers
from gateway.http.middleware import BODY_SEND, ReplySender
from gateway.replies.keep_alive import KeepAlive
from gateway.replies.recorder import ReplyRecorder
from providers.errors import ProviderError
from translation.errors import TranslationError
from translation.framing.sse import KEEP_ALIVE_COMMENT
from translation.representation.json_types import Json

_log = structlog.get_logger(__name__)

UNBUFFERED_HEADERS = ((b"cache-control", b"no-cache, no-transform"), (b"x-accel-buffering", b"no"))
"""The headers by which proxies forward each event at once."""

_EVENTS_TYPE = b"text/event-stream; charset=utf-8"

_STREAM_HEADERS = ((b"content-type", _EVENTS_TYPE), *UNBUFFERED_HEADERS)


def build_keepalive_comment() -> bytes:
    """Returns the keep-alive frame of server-sent events: a comment."""
    return KEEP_ALIVE_COMMENT


class StreamFraming(NamedTuple):
    """The media type of a stream, and the function that builds its keep-alive frames."""

    media_type: bytes = _EVENTS_TYPE
    build_keepalive: Callable[[], bytes] = build_keepalive_comment


SSE_FRAMING: Final = StreamFraming()


class ReplyStream(Protocol):
    """One reply as a stream of frames."""

    @property
    def has_content(self) -> bool:
        """Whether frames were returned whose content a retry would repeat: text, a call, an item, a regular end."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the reply is over, so that `result` is final and `conclude` returns the end."""
        ...

    def result(self) -> Json | None:
        """Returns the reply as one object, final once the stream has ended; None if there is nothing to store."""
        ...

    def frames(self) -> AsyncGenerator[bytes, None]:
        """Yields whole frames with LF line ends, one `bytes` per upstream read.

        It raises what the upstream's source raises. Closing the generator closes the upstream connection.
        """
        ...

    def fail(self, error: Exception) -> bytes:
        """Ends the stream in failure, unless `conclude` was called. Returns the frames before the terminal event."""
        ...

    def conclude(self) -> bytes:
        """Returns the terminal event and what follows it, once, after `ended`.

        Called when the reply has been committed: until then `fail` may still replace the end.
        """
        ...


def require_response(stream: ReplyStream) -> Json:
    """Returns the result of a stream of the Responses API that has ended: each has one."""
    if (response := stream.result()) is None:
        raise ValueError("a stream of the Responses API ended without a response")
    return response


class EventStreamReply(Response):
    """Sends a ReplyStream to an HTTP client.

    Until the first content, or `keepalive_s` of waiting, nothing is sent: a failure is raised, and becomes a status
    code. After that it becomes the stream's last event. A slow client slows its upstream down, because each batch is
    sent before the next is read. `recorder` commits the reply before its terminal event is sent. `late_headers` returns
    headers that are added when the stream starts.
    """

    status_code = 200
    background = None

    def __init__(
        self,
        stream: ReplyStream,
        drain: DrainState,
        keepalive_s: float,
        headers: Mapping[str, str],
        recorder: ReplyRecorder | None = None,
        late_headers: Callable[[], Mapping[str, str]] | None = None,
        framing: StreamFraming = SSE_FRAMING,
    ) -> None:
        self.raw_headers = [*_STREAM_HEADERS, *encode_headers(headers)] if headers else [*_STREAM_HEADERS]
        if framing is not SSE_FRAMING:
            self.raw_headers[0] = (b"content-type", framing.media_type)
        self._late_headers = late_headers
        self._stream = stream
        self._source = as_source(stream, stream.frames, b"")
        # Every read looks these up, and attributes of the class alone are slower to find.
        self._template: ReadTemplate[bytes] | None = None
        self.fast_path: FastPath | None = None
        self._writer: ClientWriter | None = None
        self._unsent = b""
        self._failure: Exception | None = None
        self._started = False
        self._is_complete = False
        self._recorder = recorder
        self._drain = drain
        self._keepalive = KeepAlive(keepalive_s, framing.build_keepalive)
        self._buffered: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send = send
        self._send_body = scope.get(BODY_SEND, send)
        self._client: ClientWriter | None = scope.get(CLIENT)
        guard = RequestGuard(receive, self._drain, self._client)
        if self._recorder is not None:
            self._recorder.begin()
        self._keepalive.start(get_running_loop(self._client), self._find_last_sent, self._send_keepalive)
        if self._client is not None:
            self._client.on_silence = self._send_keepalive_now
        try:
            try:
                with guard:
                    await self._pump()
            finally:
                await self._source.close()
        except ClientDisconnected:
            if not self._is_complete:
                _log.info("client_disconnected", started=self._started)
            if not self._started:
                raise  # so that its log line has the status of such requests
        except (GatewayError, ProviderError, TranslationError) as error:
            await self._fail(error)
        except Exception as error:
            _log.exception("stream_failed")
            await self._fail(error)
        finally:
            self._keepalive.stop()
            if self._client is not None:
                self._client.on_silence = None
            if self._recorder is not None:
                await self._abandon_reply(self._recorder)

    async def _pump(self) -> None:
        source, stream = self._source, self._stream
        if stream.has_content:
            await self._start()
        await source.open()
        frames = b""
        while not (source.ended or stream.ended):
            frames = source.take()
            is_over = source.ended or stream.ended
            if not is_over and (not frames or self._try_forward(frames)):
                # Nothing was awaited since `take`, so nothing can have arrived.
                if source.template is not self._template:
                    self._select_fast_path()
                await source.wait_for_read(self)
                frames = self._take_unsent()
                is_over = source.ended or stream.ended
            if frames and not is_over:
                await self._forward(frames)
        if not self._is_complete:
            await self._conclude(frames)

    def push(self, read: bytes) -> bool:
        """Sends a read without waking this stream's task. Returns False if the task has more to do.

        Nine reads in ten only have to be sent, and waking the task costs as much as their translation.
        """
        source, writer = self._source, self._writer
        try:
            if read:
                template = source.template
                if (
                    template is None
                    or writer is None
                    or not writer.ready
                    or (frames := template.encode_read(read)) is None
                ):
                    frames = source.take_read(read)
                elif frames:
                    writer.write_piece(frames)
                    return True
            else:
                frames = source.take()
            if source.ended or self._stream.ended:
                # A stored reply ends in the task, because its end waits for the commit.
                if self._recorder is None and writer is not None and writer.ready:
                    frames += self._stream.conclude()
                    self._is_complete = writer.end_stream(frames)
                self._unsent = b"" if self._is_complete else frames
                return False
            if source.is_draining or (frames and not self._try_forward(frames)):
                self._unsent = frames
                return False
            if source.template is not self._template:
                self._select_fast_path()
        except Exception as failure:
            self._failure = failure
            return False
        return True

    def _select_fast_path(self) -> None:
        if self._writer is not None:
            self._template = self._source.template
            self.fast_path = make_fast_path(self._template, self._writer)

    def _try_forward(self, frames: bytes) -> bool:
        """Sends frames that are not the last, or holds them back. Returns False if the caller must `_forward` them."""
        if self._writer is not None:
            return self._writer.write_piece(frames)
        if self._started:
            return False
        if self._stream.has_content:
            return self._try_start(b"".join((*self._buffered, frames)))
        self._buffered.append(frames)
        return True

    def _take_unsent(self) -> bytes:
        """Returns the frames that a push has left to the task, or raises its failure."""
        if self._failure is not None:
            raise self._failure
        frames, self._unsent = self._unsent, b""
        return frames

    async def _forward(self, frames: bytes) -> None:
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
        """Sends status 200 and the frames that were held back. With `last`, they are the whole reply."""
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
        """Starts the reply with `frames` in one write. Returns False if it has to wait.

        `frames` include the frames that were held back.
        """
        self._started = True
        if self._late_headers is not None and (late_headers := self._late_headers()):
            by_name = dict([*self.raw_headers, *encode_headers(late_headers)])  # of each name the latest
            self.raw_headers = [*by_name.items()]
        if not (isinstance(self._send, ReplySender) and self._send.begin_reply(self.raw_headers, frames, last=last)):
            self._started = False
            return False
        self._buffered.clear()
        self._is_complete = last
        self._keepalive.last_sent = monotonic()
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
        self._keepalive.last_sent = monotonic()

    async def _fail(self, error: Exception) -> None:
        if not self._started:
            raise error
        bind_failure(error)
        frames = self._stream.fail(error)
        if self._recorder is not None:
            recorder, self._recorder = self._recorder, None
            try:
                await recorder.finish(self._stream.result())
            except Exception:  # the client gets the failure all the same, and the stored response ends as interrupted
                _log.exception("failure_not_stored")
        await self._write(self._unsent + frames + self._stream.conclude(), last=True)

    async def _abandon_reply(self, recorder: ReplyRecorder) -> None:
        """Abandons the record of a reply that was not committed: its client disconnected, or got no part of it."""
        if self._started and not self._stream.ended:
            self._stream.fail(ShuttingDown())
        await recorder.abandon(self._stream.result() if self._started else None)

    @property
    def _is_silent(self) -> bool:
        """Whether the stream may still be silent: it has neither ended nor failed."""
        return self._keepalive.is_running and not self._is_complete

    def _find_last_sent(self) -> float:
        last_sent, writer = self._keepalive.last_sent, self._writer
        return last_sent if writer is None else max(last_sent, writer.sent_at)

    def _send_keepalive_now(self) -> None:
        """Sends a keep-alive frame, so that it shows whether the client is still there."""
        self._keepalive.send_now(get_running_loop(self._client), self._send_keepalive)

    async def _send_keepalive(self, keepalive: bytes) -> None:
        # A client that has not read everything gets no keep-alive frame.
        if self._unsent or not self._is_silent:
            return
        await self._start()
        if not self._is_silent:  # the stream ended while `_start` waited
            return
        if self._writer is None:
            await self._write(keepalive)
        else:
            # No comment if the client is not ready: it has unread bytes, and waiting for it could outlast the end.
            self._writer.write_piece(keepalive)


def build_whole_event_stream(frames: bytes) -> Response:
    """Returns the HTTP reply that sends a complete event stream."""
    reply = Response(frames)
    reply.raw_headers += _STREAM_HEADERS
    return reply
