"""The fast path from a delta of an upstream to a delta of the Responses stream, without decoding it to an event."""

from collections.abc import Sequence
from typing import Protocol

from translation.representation.delta_runs import DeltaRun, TextKey, TextObserver


class NumberingEncoder(Protocol):
    """An encoder that gives its events sequence numbers."""

    sequence: int
    """The sequence number of the last event."""

    def encode_deltas(self, text_key: TextKey, texts: Sequence[str]) -> bytes:
        """Stores the texts and returns their delta frames."""
        ...


class DeltaTemplate:
    """Both sides of one run: the upstream's bytes around each text (`run`), and the client's frame (`frame_format`).

    `frame_format` is a `%`-format for the sequence number and the text as JSON. `append` stores a text in the reply.
    The `observers` of the run and of the stages are called with every text too.
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
        """Returns the frames of a read of the run, possibly none. Returns None, without effect, for any other read."""
        texts = self.run.parse_texts(read)
        if texts is None:
            return None
        for observe in self.observers:
            for text in texts:
                observe(text)
        return self.encoder.encode_deltas(self.run.text_key, texts)
