"""Reads the sockets of a busy provider's streams together, every few milliseconds.

Network cards coalesce interrupts for the same reason: waking up and polling for each read costs more than processing a
delta (docs/adr/0027).
"""

import asyncio
import os
import select
from contextlib import suppress
from contextvars import Context
from math import inf
from time import monotonic
from typing import Final, Protocol

READS_PER_JOIN_CHECK: Final = 4
"""A stream checks whether it should join after this many forwarded reads. `dataplane/compiled_core.pyx` has the same
constant."""


_STEADY_CHECKS: Final = 8
"""This many checks in a row, each one to two intervals after the one before, show a steady flow. An engine that
computes a token of each stream in one step sends them all at once, then nothing: the event loop wakes once for all
tokens of a step, so coalescing would not help."""

_MAX_EMPTY_READS: Final = 16
"""All streams leave after this many more rounds without data than rounds with data."""

_MAX_READ_BYTES: Final = 256 * 1024
"""The limit of one read, the same as uvloop's. A stream that fills it leaves."""

_HAS_EPOLL: Final = hasattr(select, "epoll")


class CoalescedStream(Protocol):
    """A stream whose socket is read by the coalescer. It leaves when it no longer forwards everything that is read."""

    def data_received(self, data: bytes) -> None: ...

    def leave_coalescing(self) -> None:
        """Leaves, and lets the event loop read the socket again, the end of the stream included."""

    def fail(self, error: Exception) -> None:
        """Leaves and ends the stream, because reading or `data_received` raised. The bytes of that read are lost."""


class ReadCoalescer:
    """Reads the sockets of all streams that joined, every `seconds`. With 0, no stream may join."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._members: dict[int, CoalescedStream] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stream_count = 0
        self._steady_checks = 0
        self._last_check_at = -inf
        self._empty_reads_left = 0

    @property
    def is_possible(self) -> bool:
        """Whether streams may join. It requires Linux's epoll(7)."""
        return self.seconds > 0 and _HAS_EPOLL

    def next_stagger(self) -> int:
        """Returns the number of reads by which a new stream delays its first check.

        The numbers differ from stream to stream, so that the streams do not all check at the same time.
        """
        self._stream_count += 1
        return self._stream_count % READS_PER_JOIN_CHECK

    def should_join(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Returns whether the provider's streams send so much, so steadily, that the calling stream should join.

        A stream calls it after every READS_PER_JOIN_CHECK forwarded reads. `loop` is the running event loop.
        """
        if self._members and loop is self._loop:
            return True
        now = monotonic()
        elapsed = now - self._last_check_at
        if elapsed >= self.seconds:
            self._last_check_at = now
            self._steady_checks = self._steady_checks + 1 if elapsed < 2 * self.seconds else 0
        return self._steady_checks >= _STEADY_CHECKS

    def join(self, number: int, stream: CoalescedStream, loop: asyncio.AbstractEventLoop) -> None:
        """Reads the socket with file descriptor `number` from now on. Nobody else may read it until the stream leaves.

        `loop` is the running event loop. Raises OSError if the system has no room for another socket.
        """
        if loop is not self._loop:
            self._epoll = select.epoll()
            # The previous loop has ended, and its streams with it.
            self._loop, self._members = loop, {}
        self._epoll.register(number, select.EPOLLIN | select.EPOLLRDHUP)
        if not self._members:
            self._steady_checks, self._empty_reads_left = 0, _MAX_EMPTY_READS
            self._schedule_read(loop)
        self._members[number] = stream

    def leave(self, number: int, stream: CoalescedStream) -> None:
        """Stops reading a stream. It has no effect if the stream has left, and its socket may be closed."""
        if self._members.get(number) is not stream:
            return
        del self._members[number]
        with suppress(OSError):  # a closed socket is no longer in the system's list
            self._epoll.unregister(number)
        if not self._members:
            self._timer.cancel()

    def _schedule_read(self, loop: asyncio.AbstractEventLoop) -> None:
        # An empty context: the reads belong to no request, least of all to the one that joined first.
        self._timer = loop.call_later(self.seconds, self._read_ready_streams, loop, context=Context())

    def _read_ready_streams(self, loop: asyncio.AbstractEventLoop) -> None:
        self._schedule_read(loop)
        ready = self._epoll.poll(0, len(self._members))
        for number, events in ready:
            if (stream := self._members.get(number)) is None:
                continue  # the stream left while another one was read
            if events != select.EPOLLIN:
                stream.leave_coalescing()
                continue
            if data := _read(number, stream):
                _deliver(data, stream)
        self._empty_reads_left = (
            min(self._empty_reads_left + 1, _MAX_EMPTY_READS) if ready else self._empty_reads_left - 1
        )
        if self._empty_reads_left < 0:
            for stream in list(self._members.values()):
                stream.leave_coalescing()


class CoalescerSeat:
    """The place of one connection in the coalescer of its provider."""

    __slots__ = ("_coalescer", "_loop", "_socket", "can_join", "stagger")

    def __init__(self, coalescer: ReadCoalescer, loop: asyncio.AbstractEventLoop) -> None:
        self._coalescer = coalescer
        self._loop = loop
        self._socket = -1
        self.can_join = False
        """Whether the coalescer can read the connection."""
        self.stagger = coalescer.next_stagger()
        """The number of reads by which each reply delays its first check."""

    def set_transport(self, transport: asyncio.BaseTransport) -> None:
        # Only the event loop can read a connection with TLS.
        if self._coalescer.is_possible and transport.get_extra_info("ssl_object") is None:
            socket = transport.get_extra_info("socket")
            self._socket = -1 if socket is None else socket.fileno()
            self.can_join = self._socket >= 0

    def try_join(self, stream: CoalescedStream) -> bool:
        """Lets the coalescer read the connection from now on if that pays, and returns whether it does.

        The connection `can_join` and has not joined.
        """
        if not self._coalescer.should_join(self._loop):
            return False
        try:
            self._coalescer.join(self._socket, stream, self._loop)
        except OSError:  # without room in the system's list, the event loop goes on reading the socket
            return False
        return True

    def leave(self, stream: CoalescedStream) -> None:
        self._coalescer.leave(self._socket, stream)


def _read(number: int, stream: CoalescedStream) -> bytes:
    try:
        return os.read(number, _MAX_READ_BYTES)
    except BlockingIOError:
        return b""
    except OSError as error:
        stream.fail(error)
        return b""


def _deliver(data: bytes, stream: CoalescedStream) -> None:
    try:
        stream.data_received(data)
    except Exception as error:  # the event loop, which reads other streams, catches the same
        stream.fail(error)
    else:
        if len(data) == _MAX_READ_BYTES:
            stream.leave_coalescing()
