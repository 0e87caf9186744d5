"""The interfaces of delta runs (frames that differ in one text only, and need not be decoded) and of event stages."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from translation.representation.events import Event
from translation.representation.streamed_text import StreamedText

TextKey: TypeAlias = tuple[int, int | None]
"""The index of an item, and of a part of it. The part is None for the text of the item itself, such as arguments."""

TextObserver: TypeAlias = Callable[[str], object]
"""Called with each text of a delta run, in order."""


class TextTrimmer(Protocol):
    """Holds line breaks at the end of a text back until it is known whether the text goes on."""

    @property
    def pending(self) -> str:
        """The line breaks that are held back. While there are none, a text without one at its end passes unchanged."""
        ...

    def trim_reasoning(self, text: str, /) -> str:
        """Adds a text. Returns what can be sent now, possibly nothing."""
        ...


def trim_texts(trimmer: TextTrimmer, texts: Sequence[str]) -> list[str]:
    """Returns the texts as they can be sent now, without those that are held back."""
    return [trimmed for text in texts if (trimmed := trimmer.trim_reasoning(text))]


class DeltaRun(Protocol):
    """The frames of one upstream stream that differ in their text only."""

    @property
    def text_key(self) -> TextKey:
        """The item and the part that the texts belong to."""
        ...

    @property
    def frame_head(self) -> bytes:
        """The bytes of each frame before the text, including the opening quote."""
        ...

    @property
    def frame_tail(self) -> bytes:
        """The bytes of each frame after the text, including the closing quote."""
        ...

    @property
    def stops(self) -> tuple[bytes, ...]:
        """The beginnings of texts, as in JSON strings, of frames that have to be decoded. Such a frame ends the run."""
        ...

    @property
    def observers(self) -> Sequence[TextObserver]:
        """Must be called with every text of the run, in order."""
        ...

    @property
    def trimmer(self) -> TextTrimmer | None:
        """Must be given every text, in order, before the observers are. None if texts are sent as they are."""
        ...

    @property
    def streamed_text(self) -> StreamedText | None:
        """Must be given every text of the run as the upstream sent it. None if the upstream's final value of the text
        is compared in another way."""
        ...

    def parse_texts(self, read: bytes) -> list[str] | None:
        """Returns the non-empty texts of a read that consists only of frames of the run; None for any other read."""
        ...


class EventStage(Protocol):
    """A step between decoder and encoder, which transforms the events of one reply."""

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
