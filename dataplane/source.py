"""Replies that are received in pieces, and the sinks that get them in the call stack of the socket."""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

from translation.representation.delta_runs import DeltaRun

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

FastPathKind: TypeAlias = Literal["translation", "relay"]
"""The kinds of fast paths of the compiled core: one writes the texts of a delta run into the client's frames, one
forwards the upstream's frames."""


class FastPath(Protocol):
    """Forwards whole chunks of a body (RFC 9112, section 7.1) as they arrive, with their framing."""

    def forward_chunks(self, read: bytes, /) -> int:
        """Forwards chunks from the start of a read, and returns how many of its bytes that was, possibly 0.

        The read begins with a chunk, and the returned count ends with one. It never waits. An exception ends the
        connection.
        """
        ...


class Sink(Protocol):
    """Handles reads in the call stack of the socket, or wakes the waiting task.

    If deltas arrive one by one, waking a task costs more than everything that is done with a delta.
    """

    fast_path: FastPath | None
    """The fast path for the next reads, if there is one. What it does not forward is pushed."""

    def push(self, read: bytes) -> bool:
        """Handles bytes that were received. Returns True to wait for more, and False to wake the waiting task.

        If `read` is not empty, it is everything that has arrived, and the sink has to process it, since `take` will not
        return it. If `read` is empty, the sink has to call `take` to get what has arrived: there are older pieces, or
        the reply has ended or failed. A push never waits. An exception ends the connection.
        """
        ...


class ReadTemplate(Protocol[T_co]):
    """Encodes reads of one delta run without parsing them. It is valid until the next `take` or `take_read`."""

    @property
    def fast_path_kind(self) -> FastPathKind | None:
        """Which fast path of the compiled core applies the template; None if none does."""
        ...

    def encode_read(self, read: bytes) -> T_co | None:
        """Returns a pushed read as a piece; None if it is not of the delta run, and has to be given to `take_read`."""
        ...


class Source(Generic[T]):
    """A reply that is being received: a part of it may have arrived, and the rest is on its way.

    `iterate` is the plain way to read it. Where its cost matters, callers write its loop themselves, and give
    `wait_for_read` a sink.

    It is not an ABC: `as_source` checks the class with every request, and for an ABC that check is a call.
    """

    template: ReadTemplate[T] | None = None
    """The template for the next reads, if they may be encoded by one."""
    delta_run: DeltaRun | None = None
    """The delta run that the next read belongs to, if the source knows of one."""
    is_draining = False
    """Whether the caller has to end a wait and call `wait_for_read` again, because the next one differs: it has a short
    deadline, once only pieces such as token counts may follow the content, or there is a failure for `take` to raise,
    or the next of several sources."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether the last piece was taken."""

    async def open(self) -> None:
        """Sends the request, if that has not been done. It is called once. It raises what `take` raises."""

    @abstractmethod
    def take(self) -> T:
        """Returns the piece that has arrived since the last take.

        A falsy piece means that nothing has arrived: await `wait_for_read`, unless the source has `ended`. A reply that
        broke off raises its failure here; it does not end.
        """

    @abstractmethod
    def take_read(self, read: bytes) -> T:
        """Returns the piece for a read that was pushed to a sink, which is not empty and not the last."""

    @abstractmethod
    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        """Waits until there is something to take, or nothing will arrive any more.

        Meanwhile reads are pushed to `sink`. The wait goes on as long as `push` returns True.
        """

    @abstractmethod
    async def close(self, *, whole: bool = False) -> None:
        """Releases the source. A reply that was not read to its end is aborted at its sender.

        With `whole`, the reader has everything it needs. The little that may follow is then read, for a moment, so that
        the connection can be used again.
        """

    async def iterate(self) -> AsyncGenerator[T, None]:
        """Opens the source and yields its pieces until it ends. Closing the generator closes the source."""
        try:
            await self.open()
            while not self.ended:
                if piece := self.take():
                    yield piece
                elif not self.ended:
                    await self.wait_for_read()
        finally:
            await self.close()

    async def feed_to(self, consume: Callable[[T], object]) -> None:
        """Opens the source and calls `consume` with every piece until it ends.

        It does what `iterate` does without the cost of a generator, for callers that await nothing between two pieces.
        """
        try:
            await self.open()
            while not self.ended:
                if piece := self.take():
                    consume(piece)
                elif not self.ended:
                    await self.wait_for_read()
        finally:
            await self.close()


class ForwardedSource(Source[bytes]):
    """Forwards the reads of another source, which a subclass may replace while no read was taken.

    Reads that the subclass took before, to decide whether to replace the source, are taken first.
    """

    def __init__(self, source: Source[bytes]) -> None:
        self._source = source
        self._held_reads = b""

    @property
    def ended(self) -> bool:
        return not self._held_reads and self._source.ended

    def take(self) -> bytes:
        if self._held_reads:
            reads, self._held_reads = self._held_reads, b""
            return reads
        return self._source.take()

    def take_read(self, read: bytes) -> bytes:
        return self._source.take_read(read)

    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        return self._source.wait_for_read(sink)

    async def close(self, *, whole: bool = False) -> None:
        await self._source.close(whole=whole)


def as_source(reply: object, iterate: Callable[[], AsyncGenerator[T, None]], empty: T) -> Source[T]:
    """Returns `reply` if it is a source, else a source of what `iterate` yields, which then has no fast path.

    `empty` is the piece that means that nothing has arrived.
    """
    return reply if isinstance(reply, Source) else IteratedSource(iterate(), empty)


class IteratedSource(Source[T]):
    """The pieces of an async generator as a source. `empty` is the piece that means that nothing has arrived."""

    ended = False

    def __init__(self, pieces: AsyncGenerator[T, None], empty: T) -> None:
        self._pieces = pieces
        self._empty = empty
        self._piece = empty
        self._failure: Exception | None = None

    def take(self) -> T:
        if self._failure is not None:
            raise self._failure
        piece, self._piece = self._piece, self._empty
        return piece

    def take_read(self, read: bytes) -> T:
        raise AssertionError("a generator pushes no bytes to sinks")

    async def wait_for_read(self, sink: Sink | None = None) -> None:
        is_waiting = True
        while is_waiting:
            try:
                self._piece = await anext(self._pieces)
            except StopAsyncIteration:
                self.ended = True
            except Exception as failure:
                self._failure = failure
            is_waiting = sink is not None and sink.push(b"")

    async def close(self, *, whole: bool = False) -> None:
        await self._pieces.aclose()
