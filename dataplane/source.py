"""What comes in pieces, taken in one call stack: from the socket that has it to whoever passes it on."""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from translation.representation.delta_runs import DeltaRun

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class FastPath(Protocol):
    """Deals with whole chunks of a body (RFC 9112, section 7.1) as they came, framing and all."""

    def forward_chunks(self, read: bytes, /) -> int:
        """How many bytes of the read were dealt with, from the first, which begins a chunk, to the end of one; possibly
        none. Never waits, and what it raises ends the connection."""
        ...


class Sink(Protocol):
    """Deals with what comes on the spot, or leaves it to the task that waits. Never waits, and what it raises ends the
    connection.

    Waking a task for a piece costs more than all that is done with it, where pieces come one by one.
    """

    fast_path: FastPath | None
    """A shorter way for what has come; whatever it leaves is for `push`."""

    def push(self, read: bytes) -> bool:
        """Take what has come, and say whether to go on waiting; False wakes the task.

        It is given the bytes that came, where they are all there is to take and more may follow, else none. What it is
        given nobody else has: it is not there to be taken any more.
        """
        ...


class ReadTemplate(Protocol[T_co]):
    """A short way for what is more of the same, as of the last take. It leaves out all that a take looks at that cannot
    have changed."""

    def encode_read(self, read: bytes) -> T_co | None:
        """What a sink was given, as a piece; None where it is something else, which is to be taken."""
        ...


class Source(Generic[T]):
    """A reply of which a part may be here and the rest on its way. `each` is how it is read; who has to be cheaper does
    as `each` does, and gives `arrival` a sink.

    No ABC: every request asks whether something is one, and ABCs are asked by a call.
    """

    template: ReadTemplate[T] | None = None
    delta_run: DeltaRun | None = None
    """The run of deltas that the next read belongs to, if it is one and the source can tell."""
    is_draining = False
    """Whether what may still follow is waited for only a moment longer: then each wait has to be begun anew."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether the last piece was taken."""

    async def open(self) -> None:
        """Ask for it, once, where it has to be asked for. Raises what `take` raises."""

    @abstractmethod
    def take(self) -> T:
        """What has come since the last take. A piece that is falsy says: nothing, so await `arrival`, unless it ended.

        Raises what went wrong: a reply that broke off raises, it does not end.
        """

    @abstractmethod
    def take_read(self, read: bytes) -> T:
        """`take` for bytes that a sink was given, which are not empty and not the last."""

    @abstractmethod
    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        """Wait until there is something to take, or nothing will come any more.

        While it is awaited, `sink` is given what comes; the wait goes on for as long as that deals with it.
        """

    @abstractmethod
    async def close(self, *, whole: bool = False) -> None:
        """Let go of it, however far it was read; what is not read to its end hangs up on who sends it.

        `whole`: its reader has all there is to know. The little that may follow is read then, for a moment, so that the
        connection can be used again.
        """

    async def iterate(self) -> AsyncGenerator[T, None]:
        """The pieces, from asking to the end. Closing the generator closes what it reads."""
        try:
            await self.open()
            while not self.ended:
                if piece := self.take():
                    yield piece
                elif not self.ended:
                    await self.wait_for_read()
        finally:
            await self.close()

    async def feed_to(self, take: Callable[[T], object]) -> None:
        """Give every piece to `take`, from asking to the end: `each` without what a generator costs, for whoever waits
        for nothing between two pieces."""
        try:
            await self.open()
            while not self.ended:
                if piece := self.take():
                    take(piece)
                elif not self.ended:
                    await self.wait_for_read()
        finally:
            await self.close()


class IteratedSource(Source[T]):
    """The pieces of an async generator."""

    ended = False

    def __init__(self, pieces: AsyncGenerator[T, None], nothing: T) -> None:
        self._pieces = pieces
        self._nothing = nothing
        self._piece = nothing
        self._failure: Exception | None = None

    def take(self) -> T:
        if self._failure is not None:
            raise self._failure
        piece, self._piece = self._piece, self._nothing
        return piece

    def take_read(self, read: bytes) -> T:
        raise AssertionError("a generator gives no bytes to sinks")

    async def wait_for_read(self, sink: Sink | None = None) -> None:
        going_on = True
        while going_on:
            try:
                self._piece = await anext(self._pieces)
            except StopAsyncIteration:
                self.ended = True
            except Exception as failure:
                self._failure = failure
            going_on = sink is not None and sink.push(b"")

    async def close(self, *, whole: bool = False) -> None:
        await self._pieces.aclose()
