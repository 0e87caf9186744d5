"""A source that joins single pieces and other sources in sequence."""

from collections.abc import AsyncGenerator, Awaitable

from dataplane.source import Sink, Source, T


class SteppedSource(Source[T]):
    """Reads the steps of a generator. A step is a piece, or a source that is read to its end before the next step.

    `empty` is the piece that means that nothing has arrived. Each source is opened and closed here. Its failure is the
    failure of this source; the generator is closed, but does not see the failure.
    """

    def __init__(self, steps: AsyncGenerator[T | Source[T], None], empty: T) -> None:
        self._steps = steps
        self._empty = empty
        self._piece = empty
        self._source: Source[T] | None = None
        """The source that is being read."""
        self._failure: Exception | None = None
        self._has_ended = False

    @property
    def ended(self) -> bool:
        return self._has_ended

    def take(self) -> T:
        if self._failure is not None:
            raise self._failure
        source = self._source
        if source is None:
            piece, self._piece = self._piece, self._empty
            return piece
        piece = self._empty if source.ended else source.take()
        self._copy_state(source)
        return piece

    def take_read(self, read: bytes) -> T:
        if (source := self._source) is None:
            raise RuntimeError("only a step that is a source pushes reads")
        piece = source.take_read(read)
        self._copy_state(source)
        return piece

    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        source = self._source
        return self._step(sink) if source is None or source.ended else source.wait_for_read(sink)

    async def close(self, *, whole: bool = False) -> None:
        source, self._source = self._source, None
        try:
            if source is not None:
                await source.close(whole=whole)
        finally:
            await self._steps.aclose()

    def _copy_state(self, source: Source[T]) -> None:
        self.delta_run = source.delta_run
        # After its end the next wait is for the next step, so that a sink must not go on with this one.
        self.is_draining = source.is_draining or source.ended

    async def _step(self, sink: Sink | None) -> None:
        """Takes the next steps until one is a source, or a piece that the sink does not handle."""
        is_waiting = True
        while is_waiting:
            try:
                await self._close_source()
                step = await anext(self._steps)
                if isinstance(step, Source):
                    self._source = step
                    await step.open()
                    return
                self._piece = step
            except StopAsyncIteration:
                self._has_ended = True
            except Exception as failure:
                self._failure = failure
            is_waiting = sink is not None and sink.push(b"")

    async def _close_source(self) -> None:
        source, self._source = self._source, None
        self.delta_run = None
        self.is_draining = False
        if source is not None:
            await source.close()
