"""The interface of a delta run: frames that differ in one text only, so that they need not be decoded."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

TextKey: TypeAlias = tuple[int, int | None]
"""The index of an item, and of a part of it. The part is None for the text of the item itself, such as arguments."""

TextObserver: TypeAlias = Callable[[str], object]
"""Called with each text of a delta run, in order."""


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
    def stops_at_line_break(self) -> bool:
        """Whether a text that ends with a line break does not belong to the run."""
        ...

    def parse_texts(self, read: bytes) -> list[str] | None:
        """Returns the non-empty texts of a read that consists only of frames of the run; None for any other read."""
        ...
