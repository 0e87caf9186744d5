"""Stages that the events of a reply pass between the decoder and the encoder."""

from collections.abc import Sequence
from typing import Protocol

from translation.representation.delta_runs import TextKey, TextObserver
from translation.representation.events import Event


class EventStage(Protocol):
    """Takes every batch of a reply, and returns the batch that the next stage gets."""

    def feed(self, batch: Sequence[Event], /) -> Sequence[Event]: ...

    def delta_observers(self, text_key: TextKey, /) -> Sequence[TextObserver] | None:
        """Grants the fast path to one text, or does not.

        Returns None if deltas of the text have to be fed. Otherwise they may pass this stage by until an event of
        another kind is fed: each of them, without log probabilities, would leave `feed` unchanged. The stage wants the
        returned observers called with each text.
        """
        ...
