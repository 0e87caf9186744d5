"""A stream that asks the next target as long as no content has arrived. Streams with one target do without it."""

from collections.abc import AsyncGenerator, Callable

from dataplane.source import ForwardedSource, ReadTemplate, Source, as_source
from gateway.replies.event_stream import ReplyStream
from providers.errors import ProviderError
from translation.representation.json_types import Json


class AttemptedReply(ForwardedSource):
    """A ReplyStream of the first attempt with content. The last failure is raised if there is none.

    Frames without content are held back, because those of a failed attempt must not be sent. `begin_next` begins
    another attempt after a failure, and returns whether there is one. `build_stream` returns the stream of the attempt
    that has begun last.
    """

    def __init__(self, build_stream: Callable[[], ReplyStream], begin_next: Callable[[ProviderError], bool]) -> None:
        self._build_stream = build_stream
        self._begin_next = begin_next
        self._stream = build_stream()
        super().__init__(_source_of(self._stream))

    @property
    def ended(self) -> bool:
        return not self._held_reads and (self._source.ended or self._stream.ended)

    @property
    def has_content(self) -> bool:
        return self._stream.has_content

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
            try:
                await self._source.open()
                await self._read_to_content()
            except ProviderError as error:
                if not self._begin_next(error):
                    raise
                await self._source.close()
                self._held_reads = b""
                self._stream = self._build_stream()
                self._source = _source_of(self._stream)
            else:
                return

    async def _read_to_content(self) -> None:
        stream, source = self._stream, self._source
        while not (stream.has_content or source.ended or stream.ended):
            if frames := source.take():
                self._held_reads += frames
            elif not (source.ended or stream.ended):
                await source.wait_for_read()

    def result(self) -> Json | None:
        return self._stream.result()

    def fail(self, error: Exception) -> bytes:
        return self._stream.fail(error)

    def conclude(self) -> bytes:
        return self._stream.conclude()


def _source_of(stream: ReplyStream) -> Source[bytes]:
    return as_source(stream, stream.frames, b"")
