"""The protocols by which the store deletes expired objects, and measures, exports and erases the data of an owner."""

from collections.abc import AsyncGenerator
from typing import NamedTuple, Protocol

from translation.representation.json_types import Json


class Retention(Protocol):
    """Deletes expired objects of all owners."""

    async def delete_expired(self, *, before: int) -> int:
        """Deletes objects that are older than `before`, in epoch seconds.

        The age of a response or completion counts from its creation, and the age of a conversation from its last added
        item. Active responses remain, and so do items that later responses need as history. Returns how many responses,
        conversations, completions and files were deleted.
        """
        ...


class OwnerUsage(NamedTuple):
    """The jobs of an owner that have not ended, and the bytes of all its event logs."""

    jobs: int
    log_bytes: int


class OwnerData(Protocol):
    """Measures, erases and exports everything of one owner."""

    async def measure_owner(self, owner: str) -> OwnerUsage:
        """Counts the jobs of an owner and the bytes of its event logs. Raises StoreUnavailable."""
        ...

    async def erase_owner(self, owner: str) -> int:
        """Deletes everything of one owner, running responses included. Returns how many responses, conversations,
        completions and files were deleted."""
        ...

    def was_erased_since(self, owner: str, begun_us: int) -> bool:
        """Whether the data of an owner was erased after this time. What began before must not be stored any more."""
        ...

    def export_owner(self, owner: str) -> AsyncGenerator[Json, None]:
        """Yields everything of one owner, one object at a time: `{"object": ..., ...}` with its items or messages."""
        ...
