"""Runs of deltas: reads that differ in one text only, so that they need not be decoded."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

TextKey: TypeAlias = tuple[int, int | None]
"""The index of an item, and of a part of it; None for the text of the item itself, such as the arguments of a call."""

TextObserver: TypeAlias = Callable[[str], object]
"""Called with each text of a run, in order."""


class DeltaRun(Protocol):
    """Frames of an upstream that differ in their text only."""

    @property
    def text_key(self) -> TextKey:
        """The item and the part that the texts belong to."""
        ...

    @property
    def frame_head(self) -> bytes:
        """The bytes of each frame up to the text, its first quote included."""
        ...

    @property
    def frame_tail(self) -> bytes:
        """The bytes of each frame behind the text, its last quote included."""
        ...

    @property
    def observers(self) -> Sequence[TextObserver]:
        """Called with every text of the run."""
        ...

    @property
    def stops_at_line_break(self) -> bool:
        """Whether a text that ends with a line break does not belong to the run."""
        ...

    def parse_texts(self, read: bytes) -> list[str] | None:
        """Returns the texts of a read that is nothing but such frames, without empty ones; None for any other."""
        ...
