"""One HTTP/1.1 connection to an upstream: sends requests one at a time, and receives each reply as it arrives."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from time import monotonic
from typing import NamedTuple, cast

import httptools
import httpx

from dataplane.coalescing import ReadCoalescer
from dataplane.core import Receiver
from dataplane.read_waiter import ReadWaiter
from dataplane.source import Sink

_HIGH_WATER = 256 * 1024
"""The most bytes of a reply that wait unread. At more, the socket is paused, so that a slow reader slows its upstream
down. A head of more bytes is an error."""


class ServerOrigin(NamedTuple):
    """The server that a connection leads to. Connections to one origin are interchangeable."""

    scheme: str
    host: str
    port: int


class NotHttp(httpx.RemoteProtocolError):
    """The server sent bytes that are not HTTP, at the beginning of its reply or later."""


class ClosedWhileIdle(httpx.ReadError):
    """The server closed a connection that had served a request before, and sent nothing of the next reply.

    It did so without announcing it, and the next request was already on its way. llama.cpp's server ends every streamed
    reply like this. The request may be sent again on a new connection.
    """


class UpstreamConnection(Receiver, asyncio.Protocol):  # the compiled Receiver is no Protocol
    """One connection. Call `send`, then `take` until `is_complete`, then `end_request`, which says whether it can be
    used again.

    It raises httpx's exceptions. The socket of a steady stream may be read by the coalescer.
    """

    # A class with a compiled base looks up attributes without a slot slowly: 5 µs of a short reply.
    __slots__ = (
        "_at_chunk_boundary",
        "_coalescer",
        "_ends_with_connection",
        "_failure",
        "_has_begun",
        "_head_complete",
        "_in_use",
        "_is_reused",
        "_join_stagger",
        "_keeps_alive",
        "_loop",
        "_parser",
        "_paused",
        "_pieces",
        "_read_timeout",
        "_sink",
        "_socket",
        "_timer",
        "_timer_at",
        "_transport",
        "_unread_bytes",
        "_waiting_since",
        "closed",
        "header_of",
        "headers",
        "idle_since",
        "is_complete",
        "on_body",
        "status",
    )

    def __init__(self, coalescer: ReadCoalescer) -> None:
        super().__init__()
        self._coalescer = coalescer
        self._join_stagger = coalescer.next_stagger()
        self._socket = -1
        self.idle_since = 0.0
        """The time of the last `end_request`, on the monotonic clock."""
        self.closed = False
        """Whether the connection can no longer be used."""
        self.status = 0
        """The status of the reply."""
        self.headers: list[tuple[bytes, bytes]] = []
        """The headers of the reply in order, with lower-case names."""
        self.header_of: Mapping[bytes, bytes] = {}
        """The same headers by name. Of several with one name, it has the last."""
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._sink: Sink | None = None
        self._pieces: list[bytes] = []
        # The parser calls it for every chunk, and a method would cost more.
        self.on_body = self._pieces.append
        self._in_use = False
        self._is_reused = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._reset()

    def _reset(self) -> None:
        self.headers = []
        self._has_begun = False
        self._head_complete = False
        self.is_complete = False
        """Whether the end of the reply has arrived."""
        self._ends_with_connection = False
        self._pieces.clear()
        self._unread_bytes = 0
        self._paused = False
        self._failure: Exception | None = None
        self.between_chunks = False
        self._at_chunk_boundary = False
        self.forwarded_at = -inf
        self.reads = -self._join_stagger

    async def send(self, request: bytes, read_timeout: float | None) -> None:
        """Writes a request and waits for the head of its reply, which sets `status`, `headers` and `header_of`.

        `read_timeout` is the longest silence in seconds, for the head and the body; None means no limit.
        """
        if self._head_complete:
            self._reset()
            self._is_reused = True
        self._in_use = True
        self._keeps_alive = True
        self._read_timeout = read_timeout
        if self.closed:
            raise ClosedWhileIdle("the server closed the connection")
        self._transport.write(request)
        while not self._head_complete:
            if self._failure is not None:
                raise self._failure
            await self.wait_for_read()

    def take(self) -> bytes:
        """Returns the bytes of the body that have arrived since the last take, possibly none.

        After an empty result, await `wait_for_read`, unless the reply `is_complete`. It raises the failure of the reply
        when the bytes before it have been taken.
        """
        pieces = self._pieces
        if not pieces:
            if self._failure is not None and not self.is_complete:
                raise self._failure
            return b""
        piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._unread_bytes = 0
        if self._paused and not self.closed:
            self._paused = False
            self._transport.resume_reading()
        return piece

    def end_request(self) -> bool:
        """Ends the use of the connection by a reply, and returns whether another request may be sent.

        It may if the reply was taken to its end and the server keeps the connection open.
        """
        self.idle_since = monotonic()
        self.leave_coalescing()
        self.waiter = None
        self._sink = None
        self.fast_path = None
        return self.is_complete and not self._pieces and not self.closed and self._failure is None and self._keeps_alive

    def close(self) -> None:
        """Aborts the connection, whatever is still on its way."""
        self._stop_timer()
        self.leave_coalescing()
        self._sink = None
        self.fast_path = None
        if not self.closed:
            self.closed = True
            self._transport.abort()

    def wait_for_read(self, sink: Sink | None = None) -> ReadWaiter:
        """Returns a wait that is done when something has arrived, or nothing more will arrive.

        With a sink, reads are pushed to it, and the wait is done when `push` returns False. There may be one wait at a
        time.
        """
        self._sink = sink
        self.fast_path = sink.fast_path if sink is not None and self._at_chunk_boundary and not self._pieces else None
        self.waiter = ReadWaiter(self._loop)
        if self._failure is not None:
            # Nothing else would wake the task: the bytes before the failure may have been taken since it happened.
            self.waiter.notify()
        elif self._read_timeout is not None:
            self._waiting_since = monotonic()
            latest = self._waiting_since + self._read_timeout
            if self._timer is None or latest < self._timer_at:
                self._check_silence_in(self._read_timeout)
        return self.waiter

    def _check_silence_in(self, seconds: float) -> None:
        self._stop_timer()
        self._timer_at = monotonic() + seconds
        self._timer = self._loop.call_later(seconds, self._check_silence)

    def _check_silence(self) -> None:
        """Runs when the current wait may have lasted `_read_timeout`, and schedules itself again.

        One timer serves all waits of a connection, of any reply: to set and cancel one for each wait would cost more.
        """
        self._timer = None
        if not self._has_waiter or self._read_timeout is None:
            return
        left = max(self._waiting_since, self.forwarded_at) + self._read_timeout - monotonic()
        if left > 0.001:  # the resolution of timers
            self._check_silence_in(left)
        else:
            self._fail(httpx.ReadTimeout("the server sent nothing in time"))
            self._wake()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _has_waiter(self) -> bool:
        return self.waiter is not None and not self.waiter.done

    def _wake(self) -> None:
        """Resumes the waiting task.

        It must be a callback's last step: the task runs inside this call, and may close the connection or send again.
        """
        if self.waiter is not None:
            self.waiter.notify()

    def _fail(self, failure: Exception) -> None:
        if self._failure is None:
            self._failure = failure

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports have no common base class with it
        # Only the event loop can read a connection with TLS.
        if self._coalescer.is_possible and transport.get_extra_info("ssl_object") is None:
            socket = transport.get_extra_info("socket")
            self._socket = -1 if socket is None else socket.fileno()

    def process_read(self, data: bytes) -> None:
        if not self._in_use:
            # Bytes without a request: they could be taken for the reply to the next one.
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.is_complete:
                self._fail(NotHttp(str(error)))
            self._keeps_alive = False
            self.leave_coalescing()
            self.closed = True
            self._transport.abort()
        self._unread_bytes += len(data)
        if self._unread_bytes > _HIGH_WATER:
            self._limit_unread()
        more_may_follow = not (self.is_complete or self._paused) and self._failure is None
        # A part of the next chunk's size line may have arrived, but not its line break: the parser would have reported
        # the chunk's header. So a read that ends with a line break ends with the chunk.
        self._at_chunk_boundary = more_may_follow and self.between_chunks and data.endswith(b"\r\n")
        # The rest must be the last steps, for the reason that `_wake` gives.
        waiter = self.waiter
        sink = self._sink
        if waiter is None or waiter.done or sink is None:
            self.leave_coalescing()
            if waiter is not None:
                waiter.notify()
            return
        read, pieces = b"", self._pieces
        if pieces and more_may_follow:
            read = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            self._unread_bytes = 0
        if sink.push(read):
            if self._at_chunk_boundary:
                self.fast_path = sink.fast_path
            if not self.has_more:  # else the rest of the read may contain the end of the reply
                self.note_forwarded()
        else:
            self.leave_coalescing()
            waiter.notify()

    def _limit_unread(self) -> None:
        if self._paused or self.closed:
            return
        if self._head_complete:
            self.leave_coalescing()
            self._paused = True
            self._transport.pause_reading()
        else:
            self._fail(NotHttp("the head of the reply is too long"))
            self.close()

    def on_steady_flow(self) -> None:
        if self._socket < 0 or self._paused or self.closed or not self._coalescer.should_join(self._loop):
            return
        with suppress(OSError):  # without room in the system's list, the event loop goes on reading the socket
            self._coalescer.join(self._socket, self, self._loop)
            self.is_coalesced = True
            self._transport.pause_reading()

    def leave_coalescing(self) -> None:
        if self.is_coalesced:
            self.is_coalesced = False
            self._coalescer.leave(self._socket, self)
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def fail(self, error: Exception) -> None:
        if not isinstance(error, OSError):
            self._loop.call_exception_handler(
                {"message": "reading from an upstream failed", "exception": error, "protocol": self}
            )
        self._fail(httpx.ReadError("the connection broke in the middle of its reply"))
        self.close()
        self._wake()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.leave_coalescing()
        self.closed = True
        self._stop_timer()
        if (
            self._head_complete
            and not self.is_complete
            and self._ends_with_connection
            and exc is None
            and self._failure is None
        ):
            self.is_complete = True
        if not self.is_complete:
            moment = "in the middle of its reply" if self._has_begun else "before its reply"
            kind = ClosedWhileIdle if self._is_reused and not self._has_begun else httpx.ReadError
            self._fail(kind(f"the server closed the connection {moment}"))
        self._wake()

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise httptools.HttpParserError("the server sent a second reply")
        self._has_begun = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self.headers = []
            return
        self.header_of = names = dict(self.headers)
        self._ends_with_connection = b"content-length" not in names and b"transfer-encoding" not in names
        self._head_complete = True

    def on_message_complete(self) -> None:
        if not self._head_complete:
            return
        self.is_complete = True
        self._in_use = False
        self._keeps_alive = self._parser.should_keep_alive() and not (self._ends_with_connection or self.has_more)
