"""Text deltas of an upstream to text deltas of ours in one call, where they come one after the other."""

from collections.abc import Callable, Sequence
from typing import Protocol


class DeltaRun(Protocol):
    """Frames of an upstream that differ in their text only."""

    @property
    def text_key(self) -> tuple[int, int | None]:
        """The item and part that the texts go to."""
        ...

    @property
    def frame_head(self) -> bytes:
        """What each frame begins with, up to the text and with its first quote; `frame_tail`, what it ends with."""
        ...

    @property
    def frame_tail(self) -> bytes: ...

    def parse_texts(self, read: bytes) -> list[str] | None:
        """The texts of a read that is nothing but such frames, without empty ones; None for any other."""
        ...


class Encoder(Protocol):
    """Numbers the events that it tells."""

    sequence: int
    """The last number."""

    def encode_deltas(self, place: tuple[int, int | None], texts: Sequence[str]) -> bytes: ...


class DeltaTemplate:
    """The two ends of one run: what stands around a text as it comes, and the frame that it goes out in.

    `append` keeps a text; `template` is a `%`-format of the frame for an event's number and its text as JSON.
    """

    __slots__ = ("append", "encoder", "frame_format", "run")

    def __init__(self, run: DeltaRun, encoder: Encoder, append: Callable[[str], None], template: bytes) -> None:
        self.run = run
        self.encoder = encoder
        self.append = append
        self.frame_format = template

    def encode_read(self, read: bytes) -> bytes | None:
        """The frames that a read becomes, possibly none; None, and nothing is done, for one that is not of the run."""
        texts = self.run.parse_texts(read)
        return None if texts is None else self.encoder.encode_deltas(self.run.text_key, texts)
