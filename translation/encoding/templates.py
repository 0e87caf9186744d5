"""Templates of the fast path: from a delta of an upstream to a delta of the client, without decoding it to an event.

A translated stream has a delta template, and a relayed one a relay template, which replaces identity fields only.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import orjson

from translation.representation.delta_runs import DeltaRun, TextObserver, trim_texts


class NumberingEncoder(Protocol):
    """An encoder that gives its frames sequence numbers."""

    sequence: int
    """The sequence number of the last frame."""


class DeltaTemplate:
    """Both sides of one delta run: the upstream's bytes around each text (`run`), and the client's frame
    (`frame_format`).

    `frame_format` is a `%`-format for the text as JSON. With an `encoder` it is a format for the sequence number and
    the text. `append` stores a text in the reply. `observers` are called with every text: `append`, the observers of
    the run, and the ones of the stages.
    """

    __slots__ = ("encoder", "frame_format", "observers", "run")

    fast_path_kind: Final = "translation"

    def __init__(
        self,
        run: DeltaRun,
        append: TextObserver,
        frame_format: bytes,
        observers: Sequence[TextObserver] = (),
        encoder: NumberingEncoder | None = None,
    ) -> None:
        self.run = run
        self.frame_format = frame_format
        self.observers = (append, *run.observers, *observers)
        self.encoder = encoder

    def encode_read(self, read: bytes) -> bytes | None:
        """Returns the frames of a read of the run, possibly none. Returns None, without effect, for any other read."""
        texts = self.run.parse_texts(read)
        if texts is None:
            return None
        if self.run.streamed_text is not None:
            self.run.streamed_text.add("".join(texts))
        if self.run.trimmer is not None:
            texts = trim_texts(self.run.trimmer, texts)
        for observe in self.observers:
            for text in texts:
                observe(text)
        if self.encoder is None:
            return b"".join([self.frame_format % orjson.dumps(text) for text in texts])
        first = self.encoder.sequence + 1
        self.encoder.sequence += len(texts)
        return b"".join([self.frame_format % (first + at, orjson.dumps(text)) for at, text in enumerate(texts)])


class RelayTemplate:
    """A delta run whose frames are forwarded unchanged, except for `renames`.

    `renames` are pairs of bytes: a member of the upstream's chunk (`"model":"…"`), and the member that replaces it.
    Each frame of the run has every such member exactly once.
    """

    __slots__ = ("renames", "run")

    fast_path_kind: Final = "relay"

    def __init__(self, run: DeltaRun, renames: Sequence[tuple[bytes, bytes]]) -> None:
        self.run = run
        self.renames = renames

    def encode_read(self, read: bytes) -> bytes | None:
        """Returns the frames to send for a read of the run, the same object if nothing is replaced.

        Returns None for a read that does not consist only of frames of the run.
        """
        texts = self.run.parse_texts(read)
        if texts is None:
            return None
        if self.run.streamed_text is not None:
            self.run.streamed_text.add("".join(texts))
        return self.rename_frames(read)

    def rename_frames(self, frames: bytes) -> bytes:
        """Returns frames of the run with the upstream's members replaced."""
        for upstream_member, client_member in self.renames:
            frames = frames.replace(upstream_member, client_member)
        return frames
