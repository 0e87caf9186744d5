"""A stream that asks the next upstream as long as no content has arrived. Names with one provider do without it."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable
from typing import Protocol, TypeVar

from dataplane.source import ForwardedSource, ReadTemplate, Sink, Source, as_source
from gateway.errors import TurnFailed
from gateway.replies.event_stream import ReplyStream
from providers.errors import ProviderError, UpstreamTimeout
from translation.errors import ProtocolViolation
from translation.representation.json_types import Json

_T = TypeVar("_T")

ATTEMPT_FAILURES = (ProviderError, TurnFailed, ProtocolViolation)
"""Failures of an upstream. After all others, nobody else is asked."""


class AttemptStream(ReplyStream, Protocol):
    """The stream of one attempt."""

    @property
    def is_filtered(self) -> bool:
        """Whether a content filter ended the reply before it had content."""
        ...


class ReplyAttempts(Protocol):
    """The attempts at one reply."""

    @property
    def first_content_s(self) -> float | None:
        """Seconds from the beginning of an attempt to its first content, after which it has failed."""
        ...

    @property
    def deadline(self) -> float | None:
        """When the reply must be complete, by the clock of the event loop."""
        ...

    async def begin_stream(self) -> AttemptStream:
        """Chooses the upstream of the next attempt, and returns its stream. Raises ProviderError if there is none."""
        ...

    async def move_on(self, error: Exception) -> bool:
        """Ends the attempt in a failure of which nothing was delivered. Returns whether another one may begin."""
        ...

    async def move_on_filtered(self) -> bool:
        """Ends the attempt, whose reply a content filter ended before content, if another one may begin.

        Returns whether it may. Otherwise the client gets that reply.
        """
        ...

    def find_failure(self, error: Exception) -> Exception:
        """Returns the failure that the client is shown, if `error` is the last one."""
        ...

    def build_timeout(self) -> ProviderError:
        """Returns the failure of an attempt that took too long, or of a reply that did."""
        ...

    def end_stream(self, *, is_complete: bool, has_failed: bool) -> None:
        """Ends the attempt, if one is in progress. If it neither is complete nor has failed, its client has left."""
        ...


class WatchedSource(Source[_T]):
    """A source that remembers whether the source failed whose pieces it passes on. A subclass says how it takes them.

    The pieces pass through `take` and `take_read` at every read, so these two call nothing else.
    """

    _has_failed = False

    @abstractmethod
    def _take_piece(self) -> _T: ...

    @abstractmethod
    def _take_pushed(self, read: bytes, /) -> _T: ...

    def take(self) -> _T:
        try:
            return self._take_piece()
        except Exception:
            self._has_failed = True
            raise

    def take_read(self, read: bytes) -> _T:
        try:
            return self._take_pushed(read)
        except Exception:
            self._has_failed = True
            raise

    def _bound_wait(self, wait: Awaitable[None], deadline: float | None) -> Awaitable[None]:
        """Returns a wait that ends at the deadline of the reply, by the clock of the event loop, if it has one."""
        return wait if deadline is None else self._wait_until(deadline, wait)

    async def _wait_until(self, deadline: float, wait: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await wait
        except TimeoutError:
            self._has_failed = True
            raise UpstreamTimeout("the reply was not complete in time") from None


class AttemptedReply(WatchedSource[bytes], ForwardedSource):
    """A ReplyStream of the first attempt with content.

    Frames without content are held back, because those of a failed attempt must not be sent. `stream` is the stream of
    the first plan. It is not read: it only ends the reply if no attempt can begin. With `is_whole` all frames are held
    back until the end, for replies of which nobody reads a part.
    """

    def __init__(self, attempts: ReplyAttempts, stream: AttemptStream, *, is_whole: bool = False) -> None:
        self._attempts = attempts
        self._stream = stream
        self._is_whole = is_whole
        self._is_open = False
        super().__init__(_source_of(stream))

    @property
    def ended(self) -> bool:
        return not self._held_reads and (self._source.ended or self._stream.ended)

    @property
    def has_content(self) -> bool:
        return self._is_open and self._stream.has_content

    @property
    def template(self) -> ReadTemplate[bytes] | None:  # type: ignore[override]
        return self._source.template

    @property
    def is_draining(self) -> bool:  # type: ignore[override]
        return self._source.is_draining

    def frames(self) -> AsyncGenerator[bytes, None]:
        return self.iterate()

    async def open(self) -> None:
        while True:
            self._stream = await self._attempts.begin_stream()
            self._source = _source_of(self._stream)
            self._held_reads = b""
            self._is_open = True
            try:
                if (end := self._find_end_of_attempt()) is None:
                    await self._source.open()
                    await self._read_to_content()
                else:
                    async with asyncio.timeout_at(end):
                        await self._source.open()
                        await self._read_to_content()
                if not (self._stream.is_filtered and await self._attempts.move_on_filtered()):
                    return
                self._is_open = False
                await self._source.close()
                continue
            except ATTEMPT_FAILURES as failure:
                error: Exception = failure
            except TimeoutError:
                error = self._attempts.build_timeout()
            self._is_open = False
            await self._source.close()
            if not await self._attempts.move_on(error):
                raise self._attempts.find_failure(error) from error.__cause__

    def _find_end_of_attempt(self) -> float | None:
        """Returns when the attempt must have content, if it must."""
        return find_content_deadline(self._attempts.first_content_s, self._attempts.deadline)

    async def _read_to_content(self) -> None:
        stream, source = self._stream, self._source
        while not ((stream.has_content and not self._is_whole) or source.ended or stream.ended):
            if frames := source.take():
                self._held_reads += frames
            elif not (source.ended or stream.ended):
                await source.wait_for_read()

    _take_piece = ForwardedSource.take
    _take_pushed = ForwardedSource.take_read

    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        return self._bound_wait(self._source.wait_for_read(sink), self._attempts.deadline)

    async def close(self, *, whole: bool = False) -> None:
        is_complete = self._stream.ended or self._source.ended
        try:
            await super().close(whole=whole)
        finally:
            self._attempts.end_stream(is_complete=is_complete, has_failed=self._has_failed)

    def result(self) -> Json | None:
        return self._stream.result()

    def fail(self, error: Exception) -> bytes:
        held_reads, self._held_reads = self._held_reads, b""
        return held_reads + self._stream.fail(error)

    def conclude(self) -> bytes:
        return self._stream.conclude()


def _source_of(stream: ReplyStream) -> Source[bytes]:
    return as_source(stream, stream.frames, b"")


def find_content_deadline(first_content_s: float | None, deadline: float | None) -> float | None:
    """Returns when an attempt that begins now must have content: after `first_content_s` seconds, and not after the
    `deadline` of the whole turn. Times are those of the event loop; None is no bound."""
    if first_content_s is None:
        return deadline
    end = asyncio.get_running_loop().time() + first_content_s
    return end if deadline is None else min(end, deadline)
