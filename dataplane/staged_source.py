"""A source whose pieces are processed by a stage, such as a filter of events.

A delta run is a sequence of frames that differ only in their text. The stage may let such a run bypass it, if it would
not change these texts.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from dataplane.source import Sink, Source
from translation.representation.delta_runs import DeltaRun, TextKey, TextObserver

RunGrant: TypeAlias = Callable[[DeltaRun], DeltaRun | None]
"""A function that decides about each delta run of the source. It returns None if the stage has to process the texts. If
they may bypass the stage, it returns the run as the stage changes it: its key, and further observers of its texts."""


class StagedDeltaRun:
    """A delta run behind a stage, where its text has the key `text_key`. `observers` are called with each text too."""

    __slots__ = (
        "frame_head",
        "frame_tail",
        "observers",
        "parse_texts",
        "stops",
        "streamed_text",
        "text_key",
        "trimmer",
    )

    def __init__(self, run: DeltaRun, text_key: TextKey, observers: Sequence[TextObserver]) -> None:
        self.text_key = text_key
        self.frame_head = run.frame_head
        self.frame_tail = run.frame_tail
        self.observers = (*run.observers, *observers)
        self.trimmer = run.trimmer
        self.streamed_text = run.streamed_text
        self.stops = run.stops
        self.parse_texts = run.parse_texts


class StagedSource(Source[Sequence[Any]]):
    """The pieces of `source` as the stage's `feed` returns them.

    `grant_delta_run` decides which delta runs bypass it.
    """

    def __init__(
        self,
        source: Source[Sequence[Any]],
        feed: Callable[[Sequence[Any]], Sequence[Any]],
        grant_delta_run: RunGrant,
    ) -> None:
        self._source: Final = source
        self._feed = feed
        self._grant_delta_run = grant_delta_run
        self._source_run: DeltaRun | None = None
        """The source's run that `delta_run` was granted for."""

    @property
    def ended(self) -> bool:
        return self._source.ended

    async def open(self) -> None:
        await self._source.open()

    def take(self) -> Sequence[Any]:
        return self._process(self._source.take())

    def take_read(self, read: bytes) -> Sequence[Any]:
        return self._process(self._source.take_read(read))

    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        return self._source.wait_for_read(sink)

    async def close(self, *, whole: bool = False) -> None:
        await self._source.close(whole=whole)

    def _process(self, piece: Sequence[Any]) -> Sequence[Any]:
        processed = self._feed(piece) if piece else piece
        self.is_draining = self._source.is_draining
        run = self._source.delta_run
        if run is not self._source_run or self.delta_run is None:
            self._source_run = run
            self.delta_run = None if run is None else self._grant_delta_run(run)
        return processed
