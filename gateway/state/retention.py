"""The protocol of the part of the store that deletes what is old, and deletes or exports what is an owner's."""

from collections.abc import AsyncGenerator
from typing import Protocol

from translation.representation.json_types import Json


class Retention(Protocol):
    """Deletes expired objects, and deletes or exports everything of one owner."""

    async def delete_expired(self, *, before: int) -> int:
        """Delete objects that are older than `before`, in epoch seconds.

        The age of a response or completion counts from its creation, that of a conversation from its last added item.
        Active responses remain, and so do items that later responses need as history. Returns how many responses,
        conversations and completions were deleted.
        """
        ...

    async def erase_owner(self, owner: str) -> int:
        """Delete everything of one owner, running responses included. Returns how many responses, conversations and
        completions were deleted."""
        ...

    def export_owner(self, owner: str) -> AsyncGenerator[Json, None]:
        """Yield everything of one owner, one object at a time: `{"object": ..., ...}` with its items or messages."""
        ...
