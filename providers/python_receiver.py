"""What takes a read from the socket first; `core/` has the same compiled."""

import asyncio
from abc import abstractmethod
from math import inf
from time import monotonic
from typing import Final

from providers.arrival import Arrival
from providers.incoming import Passage

_PROVEN: Final = 4
"""How many times as long reads follow each other before one is put off: a short reply ends before that."""


class Receiver(asyncio.Protocol):
    """Gives what comes to a passage for as long as there is one that takes it, then to `received`.

    It hears of chunks from the parser that `received` feeds.
    """

    __slots__ = (
        "_fast_since",
        "_usual",
        "between_chunks",
        "more_is_here",
        "passage",
        "passed_at",
        "soon_s",
        "waiter",
    )

    def __init__(self) -> None:
        self.passage: Passage | None = None
        """Set only while `received` stands between two chunks: it still does if it never hears of one."""
        self.waiter: Arrival | None = None
        """Who is told when `received` leaves something, if it has been given leave to pass."""
        self.passed_at = -inf
        """When the last read was passed whole, on the monotonic clock."""
        self.soon_s = 0.0
        """Seconds within which reads follow each other where much comes; 0: however fast, it is read at once."""
        self._fast_since = 0.0
        self._usual = 1
        """Bytes of the read then: about what comes at a time."""
        self.between_chunks = False
        """Whether the end of a chunk is the last of which the parser has told: part of a next one's first line may
        have come."""

        self.more_is_here = False
        """Whether the read of which `received` has been given a part goes on. Compiled, a long one is given in two, so
        that its first chunks may show what the others are."""

    @abstractmethod
    def received(self, data: bytes) -> None:
        """Read it in full."""

    @abstractmethod
    def hold(self) -> None:
        """It is fast, so go on reading a little later."""

    def data_received(self, data: bytes) -> None:
        if self.passage is not None:
            may_pass = self.waiter is not None and not self.waiter.done
            passed = self.passage.pass_chunks(data) if may_pass else 0
            if passed == len(data):
                self.note_passed(passed)
                return
            self.passage = None
            data = data[passed:]
        self.received(data)

    def note_passed(self, size: int) -> None:
        """A read of `size` bytes was dealt with in full, at once; after a hold it is what several would have been."""
        now = monotonic()
        if (now - self.passed_at) * self._usual >= self.soon_s * size:
            self._fast_since = now
            self._usual = size
        elif now - self._fast_since >= self.soon_s * _PROVEN:
            self.hold()
        self.passed_at = now

    def on_chunk_header(self) -> None:
        self.between_chunks = False

    def on_chunk_complete(self) -> None:
        self.between_chunks = True
