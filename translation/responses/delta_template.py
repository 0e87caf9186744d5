"""Forwards text deltas by template: the frame of an upstream's delta becomes a frame of ours without decoding it."""

from collections.abc import Sequence
from typing import Protocol

from translation.representation.delta_runs import DeltaRun, TextKey, TextObserver


class NumberingEncoder(Protocol):
    """An encoder that numbers its events."""

    sequence: int
    """The number of the last event."""

    def encode_deltas(self, text_key: TextKey, texts: Sequence[str]) -> bytes: ...


class DeltaTemplate:
    """The two ends of one run: the bytes around a text as it arrives, and the frame in which it leaves.

    `observers` are called with every text; `append`, which stores the text in the reply, too. `frame_format` is a
    `%`-format of the frame, for the number of the event and the text as JSON.
    """

    __slots__ = ("append", "encoder", "frame_format", "observers", "run")

    def __init__(
        self,
        run: DeltaRun,
        encoder: NumberingEncoder,
        append: TextObserver,
        frame_format: bytes,
        observers: Sequence[TextObserver] = (),
    ) -> None:
        self.run = run
        self.encoder = encoder
        self.append = append
        self.frame_format = frame_format
        self.observers = (*run.observers, *observers)

    def encode_read(self, read: bytes) -> bytes | None:
        """Returns the frames that a read becomes, possibly none; None, without effect, for a read outside the run."""
        texts = self.run.parse_texts(read)
        if texts is None:
            return None
        for observe in self.observers:
            for text in texts:
                observe(text)
        return self.encoder.encode_deltas(self.run.text_key, texts)
