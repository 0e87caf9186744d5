"""Streams of one provider that together bring much are read every few milliseconds, all at once.

Network cards coalesce interrupts for the same reason: to wake up, to poll and to be called for each read costs more
than what is done with a delta (docs/adr/0027).
"""

import asyncio
import os
import select
from contextlib import suppress
from contextvars import Context
from math import inf
from time import monotonic
from typing import Final, Protocol

READS_BEFORE_ASKING: Final = 4
"""So many of its reads a stream has passed on when it asks whether to be read with others."""

_STEADY_ASKS: Final = 8
"""So many asks in a row, each between one and two spans after the one before, show a flow. An engine that computes a
token of each stream in one step sends them all at once, then nothing: the event loop wakes once for all of those."""

_MAX_EMPTY_READS: Final = 16
"""Moments that may bring nothing, beyond as many as bring something."""

_MAX_READ_BYTES: Final = 256 * 1024
"""Of one read, as much as uvloop reads. Who brings more leaves."""

_HAS_EPOLL: Final = hasattr(select, "epoll")


class CoalescedStream(Protocol):
    """Whose socket is read here. It leaves when it no longer passes on all that is read."""

    def data_received(self, data: bytes) -> None: ...

    def leave_coalescing(self) -> None:
        """Leave, and have what comes next read by who else reads it: the end of it, too."""

    def fail(self, error: Exception) -> None:
        """Leave and come to an end: reading raised, or `data_received` did, and what it was given is lost."""


class ReadCoalescer:
    """Those that are read at common moments, `seconds` apart; 0: there are to be none."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._members: dict[int, CoalescedStream] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._made = 0
        self._steady = 0
        self._asked_at = -inf
        self._surplus = 0

    @property
    def is_possible(self) -> bool:
        """Whether there may be any; it takes Linux's epoll(7)."""
        return self.seconds > 0 and _HAS_EPOLL

    def next_stagger(self) -> int:
        """How many reads more than `READS` one waits with its first ask: not all are to ask at the same time."""
        self._made += 1
        return self._made % READS_BEFORE_ASKING

    def should_join(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether so much comes, so steadily, that whoever asks, having passed on `READS` in the running `loop`, should
        join."""
        if self._members and loop is self._loop:
            return True
        now = monotonic()
        since = now - self._asked_at
        if since >= self.seconds:
            self._asked_at = now
            self._steady = self._steady + 1 if since < 2 * self.seconds else 0
        return self._steady >= _STEADY_ASKS

    def join(self, number: int, stream: CoalescedStream, loop: asyncio.AbstractEventLoop) -> None:
        """From now on nobody else may read the socket of that number, in the running `loop`. Raises OSError where the
        system has no room for it."""
        if loop is not self._loop:
            self._epoll = select.epoll()
            # Of a loop that has ended nobody is left.
            self._loop, self._members = loop, {}
        self._epoll.register(number, select.EPOLLIN | select.EPOLLRDHUP)
        if not self._members:
            self._steady, self._surplus = 0, _MAX_EMPTY_READS
            self._schedule_read()
        self._members[number] = stream

    def leave(self, number: int, stream: CoalescedStream) -> None:
        """Also where it has left already, or been closed."""
        if self._members.get(number) is not stream:
            return
        del self._members[number]
        with suppress(OSError):  # what is closed has left the system's list by itself
            self._epoll.unregister(number)
        if not self._members:
            self._moment.cancel()

    def _schedule_read(self) -> None:
        assert self._loop is not None
        # Not in the context of the request whose read came first.
        self._moment = self._loop.call_later(self.seconds, self._read_ready_streams, context=Context())

    def _read_ready_streams(self) -> None:
        self._schedule_read()
        ready = self._epoll.poll(0, len(self._members))
        for number, events in ready:
            if (stream := self._members.get(number)) is None:
                continue  # it left while another was read
            if events != select.EPOLLIN:
                stream.leave_coalescing()
                continue
            if data := _read(number, stream):
                _deliver(data, stream)
        self._surplus = min(self._surplus + 1, _MAX_EMPTY_READS) if ready else self._surplus - 1
        if self._surplus < 0:
            for stream in list(self._members.values()):
                stream.leave_coalescing()


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
    except Exception as error:  # as the event loop does, which reads it otherwise
        stream.fail(error)
    else:
        if len(data) == _MAX_READ_BYTES:
            stream.leave_coalescing()
