"""The interface of the stages that events of a reply pass between the decoder and the encoder."""

from collections.abc import Sequence
from typing import Protocol

from translation.representation.delta_runs import TextKey, TextObserver
from translation.representation.events import Event


class EventStage(Protocol):
    """Transforms the events of one reply."""

    def feed(self, batch: Sequence[Event], /) -> Sequence[Event]:
        """Takes every batch of the reply in order. Returns the batch for the next stage."""
        ...

    def delta_observers(self, text_key: TextKey, /) -> Sequence[TextObserver] | None:
        """Decides whether deltas of one text may take the fast path, which bypasses this stage.

        Returns None if the deltas have to be fed. Otherwise deltas without log probabilities would pass `feed`
        unchanged, so they may bypass the stage until another kind of event is fed. The returned observers must then be
        called with each text.
        """
        ...
