"""The fast path of the chat relay: forwards frames of one run with nothing but identity fields replaced."""

from collections.abc import Sequence
from typing import Self

from translation.chat.delta_run import ChatDeltaRun


class RelayTemplate:
    """A run whose frames are forwarded unchanged, except for `renames`.

    `renames` are pairs of bytes: a member of the upstream's chunk (`"model":"…"`), and what replaces it.
    Each frame of the run has every such member exactly once.
    """

    __slots__ = ("renames", "run")

    def __init__(self, run: ChatDeltaRun, renames: Sequence[tuple[bytes, bytes]]) -> None:
        self.run = run
        self.renames = renames

    @classmethod
    def learn(cls, payload: bytes, renames: Sequence[tuple[bytes, bytes]]) -> Self | None:
        """Learns a template from the payload of a chunk that is forwarded unchanged except for `renames`.

        Returns None if the chunk has no text, if it is ambiguous which text, or if a member is not in it exactly once.
        """
        for upstream_member, _ in renames:
            if payload.count(upstream_member) != 1:
                return None
        run = ChatDeltaRun.from_payload(payload)
        return None if run is None else cls(run, renames)

    def encode_read(self, read: bytes) -> bytes | None:
        """Returns the frames to send for a read of the run, the same object if nothing is replaced.

        Returns None for a read that does not consist only of frames of the run.
        """
        return None if self.run.parse_texts(read) is None else self.rename_frames(read)

    def rename_frames(self, frames: bytes) -> bytes:
        """Returns frames of the run with the upstream's members replaced."""
        for upstream_member, client_member in self.renames:
            frames = frames.replace(upstream_member, client_member)
        return frames
