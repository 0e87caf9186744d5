"""One HTTP/1.1 connection: a request out, a reply in, as it comes."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from time import monotonic
from typing import NamedTuple, cast

import httptools
import httpx

from dataplane.coalescing import ReadCoalescer
from dataplane.read_waiter import ReadWaiter
from dataplane.receiver import Receiver
from dataplane.source import Sink

_HIGH_WATER = 256 * 1024
"""Bytes of a reply that wait unread before the socket is left alone, so that a slow reader holds its upstream back; no
reply has a head that long."""


class Origin(NamedTuple):
    """Where connections go; those to one origin are interchangeable."""

    scheme: str
    host: str
    port: int


class NotHttp(httpx.RemoteProtocolError):
    """What came from the server is no HTTP, or not any more."""


class Connection(Receiver, asyncio.Protocol):  # the compiled one is no Protocol
    """Call `send`, then `take` until it is `whole`, then `rest`, which says whether to send again. Raises httpx's
    exceptions. A reply that flows may be read by `coalescing`."""

    # Of a class with a compiled base any other attribute is looked up the slow way: 5 µs of a short answer.
    __slots__ = (
        "_before_asking",
        "_coalescing",
        "_failure",
        "_head_whole",
        "_held",
        "_in_use",
        "_keeps_alive",
        "_loop",
        "_may_pass_chunks",
        "_parser",
        "_paused",
        "_pieces",
        "_read_timeout",
        "_sink",
        "_socket",
        "_timer",
        "_timer_at",
        "_transport",
        "_until_close",
        "_waiting_since",
        "closed",
        "header_of",
        "headers",
        "idle_since",
        "on_body",
        "status",
        "whole",
    )

    def __init__(self, coalescing: ReadCoalescer) -> None:
        super().__init__()
        self._coalescing = coalescing
        self._before_asking = coalescing.next_stagger()
        self._socket = -1
        self.idle_since = 0.0
        self.closed = False
        """Whether it can be used no more."""
        self.status = 0
        """Of the reply; its `headers`, names in lower case, as they came, and as a dict."""
        self.headers: list[tuple[bytes, bytes]] = []
        self.header_of: Mapping[bytes, bytes] = {}
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._sink: Sink | None = None
        self._pieces: list[bytes] = []
        # Not a method: it is called for every chunk.
        self.on_body = self._pieces.append
        self._in_use = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._reset()

    def _reset(self) -> None:
        self.headers = []
        self._head_whole = False
        self.whole = False
        """Whether the end of the reply has come."""
        self._until_close = False
        self._pieces.clear()
        self._held = 0
        self._paused = False
        self._failure: Exception | None = None
        self.between_chunks = False
        self._may_pass_chunks = False
        self.forwarded_at = -inf
        self.reads = -self._before_asking

    async def send(self, request: bytes, read_timeout: float | None) -> None:
        """Write a request and wait for the head of its reply: then there are its `status` and `headers`."""
        if self._head_whole:
            self._reset()
        self._in_use = True
        self._keeps_alive = True
        self._read_timeout = read_timeout
        if self.closed:
            raise httpx.RemoteProtocolError("the server closed the connection")
        self._transport.write(request)
        while not self._head_whole:
            if self._failure is not None:
                raise self._failure
            await self.wait_for_read()

    def take(self) -> bytes:
        """What has come of the body since the last take, possibly nothing: then wait for `arrival`, if it is not
        `whole`."""
        pieces = self._pieces
        if not pieces:
            if self._failure is not None and not self.whole:
                raise self._failure
            return b""
        piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._held = 0
        if self._paused and not self.closed:
            self._paused = False
            self._transport.resume_reading()
        return piece

    def rest(self) -> bool:
        """Nobody has anything more to do with its reply. Whether another request may be sent: the reply is read to its
        end, and the server keeps the connection open."""
        self.idle_since = monotonic()
        self.leave_coalescing()
        self.waiter = None
        self._sink = None
        self.fast_path = None
        return self.whole and not self._pieces and not self.closed and self._failure is None and self._keeps_alive

    def close(self) -> None:
        """Hang up now, whatever is still on its way."""
        self._stop_timer()
        self.leave_coalescing()
        self._sink = None
        self.fast_path = None
        if not self.closed:
            self.closed = True
            self._transport.abort()

    def wait_for_read(self, sink: Sink | None = None) -> ReadWaiter:
        """Done when `sink` has had enough of what comes, or without one, something has; or nothing more will come. One
        at a time."""
        self._sink = sink
        self.fast_path = sink.fast_path if sink is not None and self._may_pass_chunks and not self._pieces else None
        self.waiter = ReadWaiter(self._loop)
        if self._failure is not None:
            # Of which nobody will be told again: what came before it may have been taken since.
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
        """One timer for all waits of a connection, whatever reply they are for: it asks how long the present one lasts
        and sets itself again."""
        self._timer = None
        if not self._is_awaited or self._read_timeout is None:
            return
        left = max(self._waiting_since, self.forwarded_at) + self._read_timeout - monotonic()
        if left > 0.001:  # what a timer can tell
            self._check_silence_in(left)
        else:
            self._fail(httpx.ReadTimeout("nothing came in time"))
            self._wake()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _is_awaited(self) -> bool:
        return self.waiter is not None and not self.waiter.done

    def _wake(self) -> None:
        """The last thing a callback does: whoever waits goes on in here, and may close it or send again."""
        if self.waiter is not None:
            self.waiter.notify()

    def _fail(self, failure: Exception) -> None:
        if self._failure is None:
            self._failure = failure

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own has no common class with it
        # What comes with TLS only the event loop can read.
        if self._coalescing.is_possible and transport.get_extra_info("ssl_object") is None:
            socket = transport.get_extra_info("socket")
            self._socket = -1 if socket is None else socket.fileno()

    def process_read(self, data: bytes) -> None:
        if not self._in_use:
            # Nobody asked: what comes next could be taken for the answer to another request.
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.whole:
                self._fail(NotHttp(str(error)))
            self._keeps_alive = False
            self.leave_coalescing()
            self.closed = True
            self._transport.abort()
        self._held += len(data)
        if self._held > _HIGH_WATER:
            self._hold_back()
        more_may_follow = not (self.whole or self._paused) and self._failure is None
        # Of a next chunk some of the first line may be here. Not with its end: the parser would have told of that.
        self._may_pass_chunks = more_may_follow and self.between_chunks and data.endswith(b"\r\n")
        # As `_wake` is, the last thing done here.
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
            self._held = 0
        if sink.push(read):
            if self._may_pass_chunks:
                self.fast_path = sink.fast_path
            if not self.has_more:  # which may be the end
                self.note_forwarded()
        else:
            self.leave_coalescing()
            waiter.notify()

    def _hold_back(self) -> None:
        if self._paused or self.closed:
            return
        if self._head_whole:
            self.leave_coalescing()
            self._paused = True
            self._transport.pause_reading()
        else:
            self._fail(NotHttp("the head of the reply is too long"))
            self.close()

    def on_steady_flow(self) -> None:
        if self._socket < 0 or self._paused or self.closed or not self._coalescing.should_join(self._loop):
            return
        with suppress(OSError):  # where the system has no room for it, it is read as it comes
            self._coalescing.join(self._socket, self, self._loop)
            self.is_coalesced = True
            self._transport.pause_reading()

    def leave_coalescing(self) -> None:
        if self.is_coalesced:
            self.is_coalesced = False
            self._coalescing.leave(self._socket, self)
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def fail(self, error: Exception) -> None:
        if not isinstance(error, OSError):
            self._loop.call_exception_handler({"message": "a read failed", "exception": error, "protocol": self})
        self._fail(httpx.ReadError("the connection broke in the middle of its reply"))
        self.close()
        self._wake()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.leave_coalescing()
        self.closed = True
        self._stop_timer()
        if self._head_whole and not self.whole and self._until_close and exc is None and self._failure is None:
            self.whole = True
        if not self.whole:
            begun = "in the middle of its reply" if self._head_whole else "before its reply"
            self._fail(httpx.ReadError(f"the server closed the connection {begun}"))
        self._wake()

    def on_message_begin(self) -> None:
        if self.whole:
            raise httptools.HttpParserError("a second reply")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self.headers = []
            return
        self.header_of = names = dict(self.headers)
        self._until_close = b"content-length" not in names and b"transfer-encoding" not in names
        self._head_whole = True

    def on_message_complete(self) -> None:
        if not self._head_whole:
            return
        self.whole = True
        self._in_use = False
        self._keeps_alive = self._parser.should_keep_alive() and not (self._until_close or self.has_more)
