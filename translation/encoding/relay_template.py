"""The fast path of a relay: forwards the frames of one delta run with nothing but identity fields replaced."""

from collections.abc import Sequence
from typing import Final

from translation.representation.delta_runs import DeltaRun


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
        return None if self.run.parse_texts(read) is None else self.rename_frames(read)

    def rename_frames(self, frames: bytes) -> bytes:
        """Returns frames of the run with the upstream's members replaced."""
        for upstream_member, client_member in self.renames:
            frames = frames.replace(upstream_member, client_member)
        return frames
