"""Writes and removes the bytes of files and parts. After a crash, everything that was written can still be found."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog

from gateway.blobs.blob_store import BlobStore, BlobWriter
from gateway.errors import BodyTooSlow, FileStorageUnavailable, StoreUnavailable
from gateway.state.file_records import BlobKey, BlobNotReserved, FileStore
from providers.new_id import random_hex

_log = structlog.get_logger(__name__)

_BATCH: Final = 200
"""The blobs that are removed at once."""


class BlobKeeper:
    """The blobs of one server process. A request may write a blob for `hold_s` seconds."""

    def __init__(self, files: FileStore, blobs: BlobStore, hold_s: float) -> None:
        self._files = files
        self._blobs = blobs
        self._hold_s = hold_s

    @asynccontextmanager
    async def write_blob(self, owner: str, prefix: str) -> AsyncGenerator[tuple[str, BlobWriter], None]:
        """Opens a new blob, and returns its id. If the block fails, the blob is removed.

        The block finishes the blob and stores the row that has it. Raises FileStorageUnavailable, StoreUnavailable, and
        BodyTooSlow if the hold of the blob has ended: the block took too long, or the owner's data was erased.
        """
        blob_id = f"{prefix}{random_hex()}"
        await self._files.reserve_blob(owner, blob_id, hold_s=self._hold_s)
        try:
            async with self._blobs.write_blob(blob_id) as blob:
                yield blob_id, blob
        except BlobNotReserved:
            await self._remove_late_blob(BlobKey(owner, blob_id))
            raise BodyTooSlow(
                "the upload took too long, or the data of its owner was erased meanwhile, and its bytes were removed: "
                "send it again"
            ) from None
        except BaseException:
            # A transaction whose end is not known may have succeeded: then the blob is no longer listed as unused.
            with suppress(StoreUnavailable):
                if await self._files.release_blob(owner, blob_id):
                    await self.remove_blob(BlobKey(owner, blob_id))
            raise

    async def remove_blob(self, key: BlobKey) -> None:
        """Removes an unused blob. If that fails, the sweeper removes it later."""
        try:
            await self._blobs.remove_blobs([key.id])
            await self._files.remove_unused_blobs([key])
        except (FileStorageUnavailable, StoreUnavailable) as error:
            _log.warning("file_removal_failed", cause=getattr(error, "reason", "the store is unavailable"))

    async def _remove_late_blob(self, key: BlobKey) -> None:
        """Removes a blob that was finished after its hold had ended, and perhaps after it was removed as unused."""
        with suppress(StoreUnavailable):
            if not await self._files.release_blob(key.owner, key.id):
                await self._files.reserve_blob(key.owner, key.id, hold_s=0)
        await self.remove_blob(key)

    async def remove_unused(self, owner: str | None = None) -> int:
        """Removes the unused blobs of one owner, or of all. Returns how many. Raises StoreUnavailable."""
        return await remove_unused_blobs(self._files, self._blobs, owner=owner)

    async def remove_strays(self) -> None:
        """Removes unfinished blobs of processes that have died."""
        try:
            removed_count = await self._blobs.remove_strays()
        except FileStorageUnavailable as error:
            _log.warning("file_removal_failed", cause=error.reason)
            return
        if removed_count:
            _log.info("stray_uploads_removed", count=removed_count)


async def remove_unused_blobs(files: FileStore, blobs: BlobStore, *, owner: str | None = None) -> int:
    """Removes the unused blobs of one owner, or of all. Returns how many.

    The rows of files are deleted before their bytes, so a crash leaves no row whose bytes are gone. If the storage of
    files fails, the rest stays listed for the next time. Raises StoreUnavailable.
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
