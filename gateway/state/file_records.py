"""The values and protocols of stored files and uploads. Their bytes are in the file storage (`gateway/blobs/`).

Every read and write names an owner: an object of another owner reads as unknown, and so does an expired file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gateway.errors import StorageQuotaExceeded
from gateway.state.values import Page, PageRequest
from translation.representation.json_types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file. Its bytes are the blob with its id. Times are epoch seconds."""

    id: str
    size: int
    created_at: int
    filename: str
    purpose: str
    expires_at: int | None = None

    def render(self) -> Json:
        """Returns the file object of the API."""
        rendered: Json = {
            "id": self.id,
            "object": "file",
            "bytes": self.size,
            "created_at": self.created_at,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
        }
        return rendered if self.expires_at is None else rendered | {"expires_at": self.expires_at}


class FileUsage(NamedTuple):
    """The files of an owner, and the bytes of its files and of the parts of its uploads."""

    files: int
    size: int


class FileQuota(NamedTuple):
    """The most files of an owner, and the most bytes of its files and parts."""

    files: int
    size: int


def check_quota(usage: FileUsage, quota: FileQuota) -> None:
    """Raises StorageQuotaExceeded if a usage is over a quota."""
    if usage.files > quota.files:
        raise StorageQuotaExceeded(f"{quota.files} files are stored for this owner: delete some", limit="limits.files")
    if usage.size > quota.size:
        raise StorageQuotaExceeded(
            f"the files of this owner would have more than {quota.size / 1e6:g} MB: delete some",
            limit="limits.files_mb",
        )


class BlobKey(NamedTuple):
    """The owner and the id of a blob."""

    owner: str
    id: str


class FileStore(Protocol):
    """Stores files, within the quota of each owner.

    A blob without a file is listed as unused from before its first byte is written until a file has it, and again once
    the file is deleted: so no crash leaves bytes that nobody finds.
    """

    async def reserve_blob(self, owner: str, blob_id: str, *, hold_s: float) -> None:
        """Lists a blob as unused before it is written. For `hold_s` seconds nobody else removes it."""
        ...

    async def release_blob(self, owner: str, blob_id: str) -> bool:
        """Ends the hold of a reserved blob. Returns whether it is still listed as unused, so that it can be removed."""
        ...

    async def create_file(self, owner: str, file: StoredFile, quota: FileQuota) -> None:
        """Stores a file whose blob was reserved and has been written.

        Raises StorageQuotaExceeded, and BlobNotReserved if the hold of the blob has ended.
        """
        ...

    async def load_file(self, owner: str, file_id: str) -> StoredFile | None: ...

    async def load_files(self, owner: str, file_ids: Sequence[str]) -> Mapping[str, StoredFile]:
        """Returns files by their ids. Unknown ids are absent."""
        ...

    async def list_files(self, owner: str, page: PageRequest, *, purpose: str | None = None) -> Page:
        """Returns a page of file objects in the order in which they were created. Raises UnknownCursor."""
        ...

    async def delete_file(self, owner: str, file_id: str) -> bool:
        """Deletes a file, and all that refers to it. Its blob is then unused. Returns whether it existed."""
        ...

    async def delete_expired_files(self, owner: str) -> int:
        """Deletes the expired files of an owner. Returns how many."""
        ...

    async def measure_usage(self, owner: str) -> FileUsage:
        """Returns what the files and uploads of an owner take."""
        ...

    async def list_unused_blobs(self, limit: int, *, owner: str | None = None) -> Sequence[BlobKey]:
        """Returns blobs that nobody will use any more: at most `limit`, of one owner or of all."""
        ...

    async def remove_unused_blobs(self, keys: Sequence[BlobKey]) -> None:
        """Ends the list entries of blobs that have been removed."""
        ...


class BlobNotReserved(Exception):
    """A blob is no longer reserved: its request took too long, or the data of its owner was erased meanwhile."""
