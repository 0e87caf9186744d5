"""The interface of the storage for bytes of files. A blob's location never contains the name that a client gave its
file."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class BlobWriter(Protocol):
    """A blob that is being written. It can be read once it is finished."""

    async def write(self, data: bytes) -> None:
        """Appends bytes. Raises FileStorageUnavailable."""
        ...

    async def finish(self) -> None:
        """Makes the blob durable, and readable. Raises FileStorageUnavailable."""
        ...


class BlobStore(Protocol):
    """Writes, reads and removes blobs. Only one piece of a blob is in memory at a time.

    Every method may raise FileStorageUnavailable.
    """

    def write_blob(self, blob_id: str) -> AbstractAsyncContextManager[BlobWriter]:
        """Opens a new blob. Unless it is finished when the block ends, nothing of it remains."""
        ...

    def read_blob(self, blob_id: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Opens a blob, and returns its bytes in pieces. Raises BlobMissing when it is opened."""
        ...

    def open_descriptor(self, blob_id: str) -> AbstractAsyncContextManager[int]:
        """Opens a blob as a file descriptor that can only be read, for a child process. Raises BlobMissing."""
        ...

    async def remove_blobs(self, blob_ids: Sequence[str]) -> None:
        """Removes blobs. Those that do not exist are skipped."""
        ...

    async def remove_strays(self) -> int:
        """Removes blobs whose writers died before they were finished. Returns how many there were."""
        ...

    async def aclose(self) -> None: ...


class BlobMissing(Exception):
    """The bytes of a blob are missing, although its row exists."""
