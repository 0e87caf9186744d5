"""The Python implementations of Receiver and ChunkWriter. They are used if the compiled ones of `core/` are not."""

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from math import inf
from time import monotonic

from dataplane.coalescing import READS_PER_JOIN_CHECK
from dataplane.read_waiter import ReadWaiter
from dataplane.source import FastPath


class Receiver(asyncio.Protocol):
    """Gives reads to the fast path as long as it forwards them, and everything else to `process_read`.

    The HTTP parser that `process_read` feeds calls `on_chunk_header` and `on_chunk_complete`.
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
        """Forwards whole chunks past the parser. It is set only while the parser is between two chunks: only then does
        the parser stay correct without the chunks that are forwarded."""
        self.waiter: ReadWaiter | None = None
        """The wait of the reply's task. Reads are forwarded only while it is pending."""
        self.forwarded_at = -inf
        """The time when the last read was forwarded as a whole, on the monotonic clock."""
        self.reads = 0
        """The number of reads that were forwarded since the last call of `on_steady_flow`."""
        self.is_coalesced = False
        """Whether the socket is read together with others, by a ReadCoalescer."""
        self.between_chunks = False
        """Whether the parser's last report was the end of a chunk. Part of the next chunk's size line may have arrived
        since."""
        self.has_more = False
        """Whether `process_read` got only the first part of a read. The compiled receiver gives it a long read in two
        parts, so that the delta run can be learnt from the first chunks, and the rest can take the fast path."""

    @abstractmethod
    def process_read(self, data: bytes) -> None:
        """Parses bytes that the fast path did not forward, and delivers them to the reply."""

    @abstractmethod
    def on_steady_flow(self) -> None:
        """Called after every READS_PER_JOIN_CHECK forwarded reads while the socket is not coalesced."""

    def data_received(self, data: bytes) -> None:
        if self.fast_path is not None:
            is_awaited = self.waiter is not None and not self.waiter.done
            forwarded = self.fast_path.forward_chunks(data) if is_awaited else 0
            if forwarded == len(data):
                self.note_forwarded()
                return
            self.fast_path = None
            data = data[forwarded:]
        self.process_read(data)

    def note_forwarded(self) -> None:
        """Records that a read was forwarded as a whole, in the call stack of the socket."""
        self.forwarded_at = monotonic()
        if not self.is_coalesced:
            self.reads += 1
            if self.reads == READS_PER_JOIN_CHECK:
                self.reads = 0
                self.on_steady_flow()

    def on_chunk_header(self) -> None:
        self.between_chunks = False

    def on_chunk_complete(self) -> None:
        self.between_chunks = True


class ChunkWriter:
    """Writes chunks of a reply's body (RFC 9112, section 7.1) to the connection of one client."""

    __slots__ = ("ready", "sent_at", "socket", "transport", "write_chunk")

    ready: bool
    """Whether the connection accepts bytes at once: the client is connected, and reads as fast as it is sent."""
    write_chunk: Callable[[bytes], None]
    """Sends bytes that already are whole chunks. The caller has checked `ready`, and the body is in progress."""
    transport: asyncio.Transport
    """The transport of the connection."""
    socket: int
    """The file descriptor, if compiled code may write to the socket past `transport`; else -1."""
    sent_at: float
    """The time of the last write, on the monotonic clock."""
