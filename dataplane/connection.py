"""One HTTP/1.1 connection to an upstream: sends requests one at a time, and receives each reply as it arrives."""

import asyncio
from math import inf
from typing import NamedTuple, cast

import httptools
import httpx

from dataplane.coalescing import CoalescerSeat, ReadCoalescer
from dataplane.core import Receiver
from dataplane.read_waiter import ReadWaiter, SilenceTimer
from dataplane.reply_parser import ReplyParser
from dataplane.sharing.fair_turns import NO_OWNER
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


class UnreadBody:
    """The pieces of a body that have arrived and were not taken yet."""

    __slots__ = ("byte_count", "is_paused", "pieces")

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.byte_count = 0
        """The number of bytes read since the last take, those between the pieces included."""
        self.is_paused = False
        """Whether the socket is not read, because too many bytes wait."""

    def take(self) -> bytes:
        """Removes the pieces, of which there must be at least one, and returns them joined."""
        pieces = self.pieces
        self.byte_count = 0
        if len(pieces) == 1:
            return pieces.pop()
        read = b"".join(pieces)
        pieces.clear()
        return read


class UpstreamConnection(Receiver, asyncio.Protocol):  # the compiled Receiver is no Protocol
    """One connection. Call `send`, then `take` until `reply.is_complete`, then `end_request`, which says whether it can
    be used again.

    It raises httpx's exceptions. The socket of a steady stream may be read by the coalescer.
    """

    # A class with a compiled base looks up attributes without a slot slowly: 5 µs of a short reply.
    __slots__ = (
        "_at_chunk_boundary",
        "_failure",
        "_loop",
        "_seat",
        "_silence",
        "_sink",
        "_transport",
        "_unread",
        "closed",
        "owner",
        "reply",
    )

    def __init__(self, coalescer: ReadCoalescer) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._seat = CoalescerSeat(coalescer, self._loop)
        self._silence = SilenceTimer(self._loop, self._check_silence)
        self._sink: Sink | None = None
        self._unread = UnreadBody()
        self.reply = ReplyParser(self, self._unread.pieces.append)
        """The head of the reply, and whether the reply is complete."""
        self._failure: Exception | None = None
        self._at_chunk_boundary = False
        self.closed = False
        """Whether the connection can no longer be used."""
        self.owner = NO_OWNER
        """The owner of the running request."""
        self._reset()

    def _reset(self) -> None:
        """Forgets what the reply before has left. A connection that failed or is paused is not used again."""
        self._unread.byte_count = 0
        self.between_chunks = False
        self.forwarded_at = -inf
        self.reads = -self._seat.stagger

    async def send(self, request: bytes, read_timeout: float | None) -> None:
        """Writes a request and waits for the head of its reply, which is then that of `reply`.

        `read_timeout` is the longest silence in seconds, for the head and the body; None means no limit.
        """
        reply = self.reply
        if reply.head_is_complete:
            self._reset()
        reply.expect_reply()
        self._silence.seconds = read_timeout
        if self.closed:
            raise ClosedWhileIdle("the server closed the connection")
        self._transport.write(request)
        while not reply.head_is_complete:
            if self._failure is not None:
                raise self._failure
            await self.wait_for_read()

    def take(self) -> bytes:
        """Returns the bytes of the body that have arrived since the last take, possibly none.

        After an empty result, await `wait_for_read`, unless the `reply` is complete. It raises the failure of the reply
        when the bytes before it have been taken.
        """
        unread = self._unread
        if not unread.pieces:
            if self._failure is not None and not self.reply.is_complete:
                raise self._failure
            return b""
        piece = unread.take()
        if unread.is_paused and not self.closed:
            unread.is_paused = False
            self._transport.resume_reading()
        return piece

    def end_request(self) -> bool:
        """Ends the use of the connection by a reply, and returns whether another request may be sent.

        It may if the reply was taken to its end and the server keeps the connection open.
        """
        if self.is_coalesced:
            self.leave_coalescing()
        self.waiter = None
        self._sink = None
        self.fast_path = None
        reply, unread = self.reply, self._unread
        if not (reply.is_complete and reply.keeps_alive) or unread.pieces or unread.is_paused:
            return False
        # If there is more, the server sent bytes after the reply.
        return not self.closed and self._failure is None and not self.has_more

    def close(self) -> None:
        """Aborts the connection, whatever is still on its way."""
        self._silence.stop()
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
        self.fast_path = (
            sink.fast_path if sink is not None and self._at_chunk_boundary and not self._unread.pieces else None
        )
        self.waiter = waiter = ReadWaiter(self._loop)
        if self._failure is not None:
            # Nothing else would wake the task: the bytes before the failure may have been taken since it happened.
            waiter.notify()
        else:
            self._silence.begin_wait()
        return waiter

    def _check_silence(self) -> None:
        is_waiting = self.waiter is not None and not self.waiter.done
        if is_waiting and not self._silence.wait_longer(self.forwarded_at):
            self._fail(httpx.ReadTimeout("the server sent nothing in time"))
            self._wake()

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
        self._seat.set_transport(transport)

    def process_read(self, data: bytes) -> None:
        reply = self.reply
        if not reply.is_expected:
            # Bytes without a request: they could be taken for the reply to the next one.
            self.close()
            return
        try:
            reply.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not reply.is_complete:
                self._fail(NotHttp(str(error)))
            reply.keeps_alive = False
            self.leave_coalescing()
            self.closed = True
            self._transport.abort()
        unread = self._unread
        unread.byte_count += len(data)
        if unread.byte_count > _HIGH_WATER:
            self._limit_unread()
        more_may_follow = not (reply.is_complete or unread.is_paused) and self._failure is None
        # A part of the next chunk's size line may have arrived, but not its line break: the parser would have reported
        # the chunk's header. So a read that ends with a line break ends with the chunk.
        at_boundary = self._at_chunk_boundary = more_may_follow and self.between_chunks and data.endswith(b"\r\n")
        # The rest must be the last steps, for the reason that `_wake` gives.
        waiter = self.waiter
        sink = self._sink
        if waiter is None or waiter.done or sink is None:
            if self.is_coalesced:
                self.leave_coalescing()
            if waiter is not None:
                waiter.notify()
            return
        read, pieces = b"", unread.pieces
        if pieces and more_may_follow:
            unread.byte_count = 0
            read = pieces.pop() if len(pieces) == 1 else unread.take()
        if sink.push(read):
            if at_boundary:
                self.fast_path = sink.fast_path
            if not self.has_more:  # else the rest of the read may contain the end of the reply
                self.note_forwarded()
        else:
            self.leave_coalescing()
            waiter.notify()

    def _limit_unread(self) -> None:
        if self._unread.is_paused or self.closed:
            return
        if self.reply.head_is_complete:
            self.leave_coalescing()
            self._unread.is_paused = True
            self._transport.pause_reading()
        else:
            self._fail(NotHttp("the head of the reply is too long"))
            self.close()

    def on_steady_flow(self) -> None:
        seat = self._seat
        if not seat.can_join or self._unread.is_paused or self.closed:
            return
        if seat.try_join(self):
            self.is_coalesced = True
            self._transport.pause_reading()

    def leave_coalescing(self) -> None:
        if self.is_coalesced:
            self.is_coalesced = False
            self._seat.leave(self)
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
        self._silence.stop()
        reply = self.reply
        if exc is None and self._failure is None:
            reply.complete_at_close()
        if not reply.is_complete:
            moment = "in the middle of its reply" if reply.has_begun else "before its reply"
            kind = ClosedWhileIdle if reply.is_reused and not reply.has_begun else httpx.ReadError
            self._fail(kind(f"the server closed the connection {moment}"))
        self._wake()
