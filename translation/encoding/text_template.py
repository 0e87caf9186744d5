"""The fast path from a delta of an upstream to a delta of the client, without decoding it to an event."""

from collections.abc import Sequence

import orjson

from translation.representation.delta_runs import DeltaRun, TextObserver


class TextTemplate:
    """Both sides of one run: the upstream's bytes around each text (`run`), and the client's frame (`frame_format`).

    `frame_format` is a `%`-format for the text as JSON. `append` stores a text in the reply. The observers of the run
    and `observers`, those of the stages, are called with every text too.
    """

    __slots__ = ("_frame_format", "_observers", "_run")

    def __init__(
        self, run: DeltaRun, append: TextObserver, frame_format: bytes, observers: Sequence[TextObserver]
    ) -> None:
        self._run = run
        self._frame_format = frame_format
        self._observers = (append, *run.observers, *observers)

    def encode_read(self, read: bytes) -> bytes | None:
        """Returns the frames of a read of the run, possibly none. Returns None, without effect, for any other read."""
        texts = self._run.parse_texts(read)
        if texts is None:
            return None
        for observe in self._observers:
            for text in texts:
                observe(text)
        return b"".join([self._frame_format % orjson.dumps(text) for text in texts])
