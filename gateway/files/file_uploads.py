"""Uploads of files in parts."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

from starlette.types import Receive, Scope

from dataplane.sharing.work_pool import run_in_pool
from gateway.blobs.blob_store import BlobMissing, BlobStore, BlobWriter
from gateway.config.storage_settings import FileSettings
from gateway.errors import FileTooLarge, GatewayError, UploadNotFound
from gateway.files.blob_form import BlobForm
from gateway.files.blob_keeper import BlobKeeper
from gateway.files.file_params import compute_expiry
from gateway.files.open_uploads import OpenUpload, OpenUploads
from gateway.files.upload_params import NewUpload
from gateway.http.forms.form_body import FormBody, FormPace
from gateway.http.guard import DrainState, guard_client
from gateway.logs import bind_fields
from gateway.state.file_records import FileQuota, FileStore, StoredFile
from gateway.state.upload_records import (
    StoredPart,
    StoredUpload,
    UploadLimits,
    UploadNotPending,
    UploadStore,
    check_part,
)
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_PART_FIELD: Final = "data"
_MB: Final = 1024 * 1024
_FORM_OVERHEAD: Final = 64 * 1024
_HOUR_S: Final = 3600
_WRITTEN_BYTES: Final = 512 * 1024


class UploadRules(NamedTuple):
    """The largest file and part in MiB, the life of an upload, the most parts, and the pace of a form."""

    max_file_mb: float
    max_part_mb: float
    life_hours: float
    max_parts: int
    pace: FormPace

    @classmethod
    def of(cls, settings: FileSettings, pace: FormPace) -> "UploadRules":
        """Returns the rules of the configuration."""
        return cls(settings.max_file_mb, settings.max_part_mb, settings.upload_hours, settings.max_parts, pace)


class FileUploads:
    """The uploads of one server process."""

    def __init__(
        self,
        uploads: UploadStore,
        files: FileStore,
        blobs: BlobStore,
        keeper: BlobKeeper,
        rules: UploadRules,
        drain: DrainState,
        open_uploads: OpenUploads,
    ) -> None:
        self._uploads = uploads
        self._files = files
        self._open_uploads = open_uploads
        self._completing: set[tuple[str, str]] = set()
        """The owners and ids of uploads whose parts are being joined."""
        self._blobs = blobs
        self._keeper = keeper
        self._rules = rules
        self._drain = drain

    async def create_upload(self, owner: str, new: NewUpload, quota: FileQuota) -> Json:
        """Stores a new upload, and returns its object. Raises FileTooLarge and StorageQuotaExceeded."""
        rules = self._rules
        if new.size > rules.max_file_mb * _MB:
            raise FileTooLarge(f"the file is larger than {rules.max_file_mb:g} MiB (files.max_file_mb)", param="bytes")
        created_at = int(time.time())
        upload = StoredUpload(
            id=new_id("upload"),
            size=new.size,
            created_at=created_at,
            expires_at=created_at + int(rules.life_hours * _HOUR_S),
            filename=new.filename,
            purpose=new.purpose,
            file_expires_s=new.file_expires_s,
        )
        await self._uploads.create_upload(owner, upload, quota)
        return upload.render()

    async def add_part(self, owner: str, upload_id: str, quota: FileQuota, scope: Scope, receive: Receive) -> Json:
        """Stores the part that a form contains, and returns its object. After a failure nothing of the part remains.

        Raises UploadNotFound, InvalidRequest, FileTooLarge, StorageQuotaExceeded, and what FormBody raises.
        """
        max_bytes = int(self._rules.max_part_mb * _MB)
        body = FormBody(scope, receive, max_bytes + _FORM_OVERHEAD, self._rules.pace, self._build_too_large_error)
        try:
            with guard_client(scope, receive, self._drain):
                body.open()
                upload = await self._load_pending(owner, upload_id)
                return await self._receive_part(owner, upload, quota, body)
        except (InvalidRequest, GatewayError):
            await body.discard()
            raise

    async def complete_upload(
        self, owner: str, upload_id: str, part_ids: Sequence[str], md5: str | None, quota: FileQuota
    ) -> Json:
        """Joins the named parts to a file, and returns the object of the upload with that file. Parts that were not
        named are deleted.

        Raises UploadNotFound, InvalidRequest and StorageQuotaExceeded.
        """
        upload = await self._load_pending(owner, upload_id)
        parts = _choose_parts(await self._uploads.load_parts(owner, upload_id), part_ids, upload)
        with self._mark_completing(owner, upload_id):
            return await self._complete(owner, upload, parts, md5, quota)

    @contextmanager
    def _mark_completing(self, owner: str, upload_id: str) -> Iterator[None]:
        """Raises InvalidRequest if the parts are being joined already: each join writes a whole file."""
        key = (owner, upload_id)
        if key in self._completing:
            raise InvalidRequest(f"Upload '{upload_id}' is being completed by another request.", param="upload_id")
        self._completing.add(key)
        try:
            yield
        finally:
            self._completing.discard(key)

    async def _complete(
        self, owner: str, upload: StoredUpload, parts: Sequence[StoredPart], md5: str | None, quota: FileQuota
    ) -> Json:
        try:
            async with self._keeper.write_blob(owner, "file-") as (file_id, blob):
                digest = await self._join_parts(parts, blob, hashes=md5 is not None)
                if md5 is not None and md5.lower() != digest:
                    raise InvalidRequest("Invalid value for 'md5': the parts have another hash.", param="md5")
                await blob.finish()
                created_at = int(time.time())
                file = StoredFile(
                    id=file_id,
                    size=upload.size,
                    created_at=created_at,
                    filename=upload.filename,
                    purpose=upload.purpose,
                    expires_at=compute_expiry(upload.purpose, upload.file_expires_s, created_at),
                )
                completed = await self._uploads.complete_upload(owner, upload.id, file, quota)
        except UploadNotPending as error:
            raise error.build_client_error(upload.id) from None
        except BlobMissing:  # another request has ended the upload meanwhile
            await self._load_pending(owner, upload.id)
            raise
        bind_fields(file_id=file.id, file_bytes=file.size)
        await self._keeper.remove_unused(owner)
        return completed.render(file)

    async def cancel_upload(self, owner: str, upload_id: str) -> Json:
        """Ends an upload and deletes its parts. Returns its object. Raises UploadNotFound and InvalidRequest."""
        try:
            cancelled = await self._uploads.cancel_upload(owner, upload_id)
        except UploadNotPending as error:
            raise error.build_client_error(upload_id) from None
        await self._keeper.remove_unused(owner)
        return cancelled.render()

    async def _load_pending(self, owner: str, upload_id: str) -> StoredUpload:
        upload = await self._uploads.load_upload(owner, upload_id)
        if upload is None:
            raise UploadNotFound(upload_id)
        if upload.status != "pending":
            raise UploadNotPending(upload).build_client_error(upload_id)
        return upload

    async def _receive_part(self, owner: str, upload: StoredUpload, quota: FileQuota, body: FormBody) -> Json:
        expected = max(0, body.declared_size - _FORM_OVERHEAD)
        stored = await self._files.measure_usage(owner)
        try:
            with self._open_uploads.count(owner, stored, quota, expected) as arriving:
                async with self._keeper.write_blob(owner, "part_") as (part_id, blob):
                    count_bytes = partial(self._count_bytes, upload, arriving)
                    content = await BlobForm(body, _PART_FIELD, (), count_bytes).read(blob)
                    await blob.finish()
                    part = StoredPart(id=part_id, upload_id=upload.id, size=content.size, created_at=int(time.time()))
                    await self._uploads.add_part(owner, part, UploadLimits(self._rules.max_parts), quota)
        except UploadNotPending as error:
            raise error.build_client_error(upload.id) from None
        bind_fields(file_bytes=part.size)
        return part.render()

    def _count_bytes(self, upload: StoredUpload, arriving: OpenUpload, size: int) -> None:
        """Counts further bytes of a part. Raises the errors for too many."""
        arriving.add(size)
        if arriving.size > self._rules.max_part_mb * _MB:
            raise self._build_too_large_error(0)
        check_part(arriving.size, upload.size, 0, 0, UploadLimits(self._rules.max_parts))

    async def _join_parts(self, parts: Sequence[StoredPart], blob: BlobWriter, *, hashes: bool) -> str:
        """Writes the parts into a blob one after another. Returns their MD5 in hex, if it `hashes` them."""
        digest = hashlib.md5(usedforsecurity=False)
        pending = bytearray()
        for part in parts:
            async with self._blobs.read_blob(part.id) as pieces:
                async for piece in pieces:
                    pending += piece
                    if len(pending) >= _WRITTEN_BYTES:
                        await _write_out(pending, blob, digest if hashes else None)
        await _write_out(pending, blob, digest if hashes else None)
        return digest.hexdigest()

    def _build_too_large_error(self, _: int) -> FileTooLarge:
        return FileTooLarge(
            f"the part is larger than {self._rules.max_part_mb:g} MiB (files.max_part_mb)",
            param=_PART_FIELD,
            headers={"connection": "close"},
        )


async def _write_out(pending: bytearray, blob: BlobWriter, digest: Any) -> None:
    written = bytes(pending)
    pending.clear()
    if written:
        await blob.write(written)
        if digest is not None:
            await run_in_pool(digest.update, written)


def _choose_parts(stored: Sequence[StoredPart], part_ids: Sequence[str], upload: StoredUpload) -> Sequence[StoredPart]:
    """Returns the parts of a file in their order. Raises InvalidRequest unless each of them is a part of the upload,
    none is named twice, and together they have the announced number of bytes."""
    by_id = {part.id: part for part in stored}
    unknown_id = next((part_id for part_id in part_ids if part_id not in by_id), None)
    if unknown_id is not None:
        raise InvalidRequest(
            f"Invalid value for 'part_ids': '{unknown_id:.80}' is no part of this upload.", param="part_ids"
        )
    if len(set(part_ids)) < len(part_ids):
        raise InvalidRequest("Invalid value for 'part_ids': a part is named twice.", param="part_ids")
    size = sum(by_id[part_id].size for part_id in part_ids)
    if size != upload.size:
        raise InvalidRequest(
            f"Invalid value for 'part_ids': these parts have {size} bytes, and the upload was created for "
            f"{upload.size}.",
            param="part_ids",
        )
    return [by_id[part_id] for part_id in part_ids]
