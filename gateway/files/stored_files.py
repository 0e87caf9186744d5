"""The files of clients: uploads, lists, downloads and deletions, within the quotas of their owners."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final, NamedTuple, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope

from gateway.blobs.blob_store import BlobMissing, BlobStore
from gateway.errors import (
    FileNotFound,
    FileStorageUnavailable,
    FileTooLarge,
    GatewayError,
)
from gateway.files.blob_form import BlobForm, FormContent
from gateway.files.blob_keeper import BlobKeeper
from gateway.files.blob_reply import BlobReply
from gateway.files.file_names import clean_file_name
from gateway.files.file_params import EXPIRES_AFTER, check_expiry, check_purpose, compute_expiry
from gateway.files.open_uploads import OpenUpload, OpenUploads
from gateway.http.forms.form_body import FormBody, FormPace
from gateway.http.forms.multipart import PartStart
from gateway.http.guard import DrainState, guard_client
from gateway.logs import bind_fields
from gateway.state.file_records import (
    BlobKey,
    FileQuota,
    FileStore,
    FileUsage,
    StoredFile,
    check_quota,
)
from gateway.state.values import Page, PageRequest
from translation.errors import InvalidRequest

_OpenedT = TypeVar("_OpenedT")

_FILE_FIELD: Final = "file"
_ANCHOR_FIELD: Final = f"{EXPIRES_AFTER}[anchor]"
_SECONDS_FIELD: Final = f"{EXPIRES_AFTER}[seconds]"
_TEXT_FIELDS: Final = ("purpose", _ANCHOR_FIELD, _SECONDS_FIELD)

_MB: Final = 1024 * 1024
_FORM_OVERHEAD: Final = 64 * 1024
"""The text fields that a form may have besides its file."""


class FileRules(NamedTuple):
    """The largest file in MiB, and the pace of a form."""

    max_file_mb: float
    pace: FormPace


class StoredFiles:
    """The files of one server process over the store and the storage of bytes."""

    def __init__(
        self, files: FileStore, blobs: BlobStore, keeper: BlobKeeper, rules: FileRules, drain: DrainState
    ) -> None:
        self._files = files
        self._blobs = blobs
        self._keeper = keeper
        self._rules = rules
        self._drain = drain
        self.open_uploads: Final = OpenUploads()
        """The files, and parts of files, that are arriving."""

    async def create_file(self, owner: str, quota: FileQuota, scope: Scope, receive: Receive) -> StoredFile:
        """Stores the file of a form.

        Raises InvalidRequest, FileTooLarge, StorageQuotaExceeded, FileStorageUnavailable, StoreUnavailable, and what
        FormBody raises. After any of them, and if the client leaves, nothing of the file remains.
        """
        max_bytes = int(self._rules.max_file_mb * _MB)
        body = FormBody(scope, receive, max_bytes + _FORM_OVERHEAD, self._rules.pace, self._build_too_large_error)
        try:
            with guard_client(scope, receive, self._drain):
                body.open(keeps_damaged_names=True)
                return await self._receive_file(owner, quota, body)
        except (InvalidRequest, GatewayError):
            await body.discard()
            raise

    async def load_file(self, owner: str, file_id: str) -> StoredFile:
        """Returns a file. Raises FileNotFound."""
        file = await self._files.load_file(owner, file_id)
        if file is None:
            raise FileNotFound(file_id)
        return file

    async def load_files(self, owner: str, file_ids: Sequence[str]) -> Mapping[str, StoredFile]:
        """Returns files by their ids. Unknown ids are absent."""
        return await self._files.load_files(owner, file_ids)

    async def list_files(self, owner: str, page: PageRequest, *, purpose: str | None = None) -> Page:
        """Returns a page of file objects. Raises UnknownCursor."""
        return await self._files.list_files(owner, page, purpose=purpose)

    async def delete_file(self, owner: str, file_id: str) -> None:
        """Deletes a file and its bytes. Raises FileNotFound."""
        if not await self._files.delete_file(owner, file_id):
            raise FileNotFound(file_id)
        await self._keeper.remove_blob(BlobKey(owner, file_id))

    async def build_content_reply(self, owner: str, file_id: str) -> Response:
        """Returns the reply with the bytes of a file. Raises FileNotFound and FileStorageUnavailable."""
        file = await self.load_file(owner, file_id)
        bind_fields(file_bytes=file.size)
        async with AsyncExitStack() as opening:
            pieces = await opening.enter_async_context(self.open_file(owner, file))
            return BlobReply(file, pieces, opening.pop_all(), self._drain)

    @asynccontextmanager
    async def open_file(self, owner: str, file: StoredFile) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Opens a file that was loaded for its owner, and returns its bytes in pieces.

        Raises FileNotFound if it was deleted meanwhile, and FileStorageUnavailable.
        """
        async with AsyncExitStack() as opening:
            yield await self._enter(opening, owner, file, self._blobs.read_blob(file.id))

    @asynccontextmanager
    async def open_descriptor(self, owner: str, file: StoredFile) -> AsyncGenerator[int, None]:
        """Opens a file that was loaded for its owner as a descriptor, for a child process. Raises like `open_file`."""
        async with AsyncExitStack() as opening:
            yield await self._enter(opening, owner, file, self._blobs.open_descriptor(file.id))

    async def _enter(
        self, opening: AsyncExitStack, owner: str, file: StoredFile, blob: AbstractAsyncContextManager[_OpenedT]
    ) -> _OpenedT:
        try:
            return await opening.enter_async_context(blob)
        except BlobMissing:
            await self.load_file(owner, file.id)
            raise FileStorageUnavailable("the bytes of a file are missing") from None

    async def _receive_file(self, owner: str, quota: FileQuota, body: FormBody) -> StoredFile:
        expected = max(0, body.declared_size - _FORM_OVERHEAD)
        stored = await self._measure_with_room(owner, quota, expected)
        with self.open_uploads.count(owner, stored, quota, expected) as upload:
            async with self._keeper.write_blob(owner, "file-") as (file_id, blob):
                count_bytes = partial(self._count_bytes, upload)
                form = BlobForm(body, _FILE_FIELD, _TEXT_FIELDS, count_bytes, _check_field, _check_head)
                content = await form.read(blob)
                file = _build_file(file_id, content)
                await blob.finish()
                await self._files.create_file(owner, file, quota)
        bind_fields(file_id=file.id, file_bytes=file.size)
        return file

    async def _measure_with_room(self, owner: str, quota: FileQuota, size: int) -> FileUsage:
        """Returns what an owner has stored. Expired files are deleted first if there is no room for `size` bytes."""
        stored = await self._files.measure_usage(owner)
        if stored.files >= quota.files or stored.size + size > quota.size:
            if await self._files.delete_expired_files(owner):
                stored = await self._files.measure_usage(owner)
            check_quota(FileUsage(stored.files + 1, stored.size), quota)
        return stored

    def _count_bytes(self, upload: OpenUpload, size: int) -> None:
        upload.add(size)
        if upload.size > self._rules.max_file_mb * _MB:
            raise self._build_too_large_error(0)

    def _build_too_large_error(self, _: int) -> FileTooLarge:
        return FileTooLarge(
            f"the file is larger than {self._rules.max_file_mb:g} MiB (files.max_file_mb)",
            param=_FILE_FIELD,
            headers={"connection": "close"},
        )


def _check_field(name: str, value: str) -> None:
    if name == "purpose":
        check_purpose(value)


def _check_head(part: PartStart) -> None:
    clean_file_name(part.filename or "", _FILE_FIELD)


def _build_file(file_id: str, content: FormContent) -> StoredFile:
    fields = content.fields
    if "purpose" not in fields:
        raise InvalidRequest(
            "Missing required parameter: 'purpose'.", param="purpose", code="missing_required_parameter"
        )
    expiry_s = None
    if _ANCHOR_FIELD in fields or _SECONDS_FIELD in fields:
        expiry_s = check_expiry(fields.get(_ANCHOR_FIELD), fields.get(_SECONDS_FIELD))
    created_at = int(time.time())
    return StoredFile(
        id=file_id,
        size=content.size,
        created_at=created_at,
        filename=clean_file_name(content.filename or "", _FILE_FIELD),
        purpose=fields["purpose"],
        expires_at=compute_expiry(fields["purpose"], expiry_s, created_at),
    )
