"""A source whose pieces pass a function on their way, and whose runs of deltas may bypass it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from dataplane.source import Sink, Source
from translation.representation.delta_runs import DeltaRun, TextKey, TextObserver

Grant: TypeAlias = Callable[[DeltaRun], DeltaRun | None]
"""Returns a run as it is behind the function, whose deltas may bypass it; None if they have to be given to it."""


class StagedRun:
    """A run behind a stage: the text has the key `text_key` there, and `observers` are called with each text too."""

    __slots__ = ("frame_head", "frame_tail", "observers", "parse_texts", "stops_at_line_break", "text_key")

    def __init__(self, run: DeltaRun, text_key: TextKey, observers: Sequence[TextObserver]) -> None:
        self.text_key = text_key
        self.frame_head = run.frame_head
        self.frame_tail = run.frame_tail
        self.observers = (*run.observers, *observers)
        self.stops_at_line_break = run.stops_at_line_break
        self.parse_texts = run.parse_texts


class StagedSource(Source[Sequence[Any]]):
    """The pieces of `source` after `feed`. `grant` decides about its runs."""

    def __init__(
        self,
        source: Source[Sequence[Any]],
        feed: Callable[[Sequence[Any]], Sequence[Any]],
        grant: Grant,
    ) -> None:
        self._source: Final = source
        self._feed = feed
        self._grant = grant
        self._source_run: DeltaRun | None = None
        """The run of the source that `delta_run` was granted for."""

    @property
    def ended(self) -> bool:
        return self._source.ended

    async def open(self) -> None:
        await self._source.open()

    def take(self) -> Sequence[Any]:
        return self._pass_on(self._source.take())

    def take_read(self, read: bytes) -> Sequence[Any]:
        return self._pass_on(self._source.take_read(read))

    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        return self._source.wait_for_read(sink)

    async def close(self, *, whole: bool = False) -> None:
        await self._source.close(whole=whole)

    def _pass_on(self, piece: Sequence[Any]) -> Sequence[Any]:
        passed = self._feed(piece) if piece else piece
        self.is_draining = self._source.is_draining
        run = self._source.delta_run
        if run is not self._source_run or self.delta_run is None:
            self._source_run = run
            self.delta_run = None if run is None else self._grant(run)
        return passed
