"""Collects the events of one turn into one JSON reply. Does not know the upstream's dialect."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from translation.representation.collector import TurnCollector
from translation.representation.events import Event, Failed, Finished, Usage
from translation.representation.json_types import Json


class TurnReplyCollector(ABC):
    """Collects one turn. The caller feeds batches that satisfy the event grammar, and calls `result` after Finished.

    A dialect derives from it and builds its object from `_collector`.
    """

    def __init__(self) -> None:
        self._collector = TurnCollector()

    def feed(self, batch: Sequence[Event]) -> None:
        """Takes one batch of events."""
        self._collector.feed(batch)

    @property
    def failed(self) -> Failed | None:
        """The failure that ended the turn, if it failed. Then there is no result."""
        return self._collector.failed

    @property
    def usage(self) -> Usage | None:
        """The latest token counts that the upstream reported."""
        return self._collector.usage

    def result(self) -> Json:
        """Returns the whole reply. Raises ValueError before the turn has finished."""
        finished = self._collector.finished
        if finished is None:
            raise ValueError("the turn has not finished")
        return self._build_reply(finished)

    @abstractmethod
    def _build_reply(self, finished: Finished, /) -> Json:
        """Returns the whole reply of a turn that has finished."""
