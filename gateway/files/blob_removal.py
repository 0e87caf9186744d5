"""Removes the bytes that no file has any more. Rows are deleted first, so a crash leaves nothing that is not found."""

from typing import Final

import structlog

from gateway.blobs.blob_store import BlobStore
from gateway.errors import FileStorageUnavailable
from gateway.state.file_records import FileStore

_log = structlog.get_logger(__name__)

_BATCH: Final = 200


async def remove_unused_blobs(files: FileStore, blobs: BlobStore, *, owner: str | None = None) -> int:
    """Removes the unused blobs of one owner, or of all. Returns how many.

    Raises StoreUnavailable. If the storage of files fails, the rest stays listed for the next time.
    """
    removed_count = 0
    while keys := await files.list_unused_blobs(_BATCH, owner=owner):
        try:
            await blobs.remove_blobs([key.id for key in keys])
        except FileStorageUnavailable as error:
            _log.warning("file_removal_failed", cause=error.reason)
            return removed_count
        await files.remove_unused_blobs(keys)
        removed_count += len(keys)
    return removed_count
