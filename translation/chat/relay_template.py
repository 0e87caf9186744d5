"""Text deltas that leave as they came, but for names, where they come one after the other."""

from collections.abc import Sequence
from typing import Self

from translation.chat.delta_run import ChatDeltaRun


class RelayTemplate:
    """A run whose frames are passed on, with names changed that each of them says once: (theirs, ours)."""

    __slots__ = ("renames", "run")

    def __init__(self, run: ChatDeltaRun, renaming: Sequence[tuple[bytes, bytes]]) -> None:
        self.run = run
        self.renames = renaming

    @classmethod
    def learn(cls, payload: bytes, renaming: Sequence[tuple[bytes, bytes]]) -> Self | None:
        """From a chunk that leaves as it came but for these names; None where it says no text, leaves a doubt which it
        is, or does not say each name once."""
        for theirs, _ in renaming:
            if payload.count(theirs) != 1:
                return None
        run = ChatDeltaRun.from_payload(payload)
        return None if run is None else cls(run, renaming)

    def encode_read(self, read: bytes) -> bytes | None:
        """The frames of a read of the run, the same object where nothing is renamed; None for any other read."""
        return None if self.run.parse_texts(read) is None else self.rename_frames(read)

    def rename_frames(self, frames: bytes) -> bytes:
        """Frames of the run, as they leave."""
        for theirs, ours in self.renames:
            frames = frames.replace(theirs, ours)
        return frames
