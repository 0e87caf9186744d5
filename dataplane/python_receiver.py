"""What takes a read from the socket first; `core/` has the same compiled."""

import asyncio
from abc import abstractmethod
from math import inf
from time import monotonic

from dataplane.coalescing import READS_BEFORE_ASKING
from dataplane.read_waiter import ReadWaiter
from dataplane.source import FastPath


class Receiver(asyncio.Protocol):
    """Gives what comes to a passage for as long as there is one that takes it, then to `received`.

    It hears of chunks from the parser that `received` feeds.
    """

    __slots__ = (
        "between_chunks",
        "fast_path",
        "forwarded_at",
        "has_more",
        "is_coalesced",
        "reads",
        "waiter",
    )

    def __init__(self) -> None:
        self.fast_path: FastPath | None = None
        """Set only while `received` stands between two chunks: it still does if it never hears of one."""
        self.waiter: ReadWaiter | None = None
        """Who is told when `received` leaves something, if it has been given leave to pass."""
        self.forwarded_at = -inf
        """When the last read was passed whole, on the monotonic clock."""
        self.reads = 0
        """How many have been passed on since `flows` was called."""
        self.is_coalesced = False
        """Whether it is read together with others."""
        self.between_chunks = False
        """Whether the end of a chunk is the last of which the parser has told: part of a next one's first line may
        have come."""

        self.has_more = False
        """Whether the read of which `received` has been given a part goes on. Compiled, a long one is given in two, so
        that its first chunks may show what the others are."""

    @abstractmethod
    def process_read(self, data: bytes) -> None:
        """Read it in full."""

    @abstractmethod
    def on_steady_flow(self) -> None:
        """`READS` reads have been passed on, and it is not read together with others."""

    def data_received(self, data: bytes) -> None:
        if self.fast_path is not None:
            may_pass = self.waiter is not None and not self.waiter.done
            passed = self.fast_path.forward_chunks(data) if may_pass else 0
            if passed == len(data):
                self.note_forwarded()
                return
            self.fast_path = None
            data = data[passed:]
        self.process_read(data)

    def note_forwarded(self) -> None:
        """A read was dealt with in full, at once."""
        self.forwarded_at = monotonic()
        if not self.is_coalesced:
            self.reads += 1
            if self.reads == READS_BEFORE_ASKING:
                self.reads = 0
                self.on_steady_flow()

    def on_chunk_header(self) -> None:
        self.between_chunks = False

    def on_chunk_complete(self) -> None:
        self.between_chunks = True
