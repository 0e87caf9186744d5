"""The interface of a delta run: frames that differ in one text only, so that they need not be decoded."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

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
    def observers(self) -> Sequence[TextObserver]:
        """Must be called with every text of the run, in order."""
        ...

    @property
    def trimmer(self) -> TextTrimmer | None:
        """Must be given every text, in order, before the observers are. None if texts are sent as they are."""
        ...

    def parse_texts(self, read: bytes) -> list[str] | None:
        """Returns the non-empty texts of a read that consists only of frames of the run; None for any other read."""
        ...
