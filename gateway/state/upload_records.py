"""The values and protocol of uploads in parts. The bytes of a part are a blob, as those of a file are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gateway.errors import UploadNotFound
from gateway.state.file_records import FileQuota, StoredFile
from translation.errors import InvalidRequest
from translation.representation.json_types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUpload:
    """A file that arrives in parts. `size` are the bytes that its client declared. Times are epoch seconds."""

    id: str
    size: int
    created_at: int
    expires_at: int
    filename: str
    purpose: str
    file_expires_s: int | None = None
    """The seconds from the creation of its file until that expires."""
    status: str = "pending"

    def render(self, file: StoredFile | None = None) -> Json:
        """Returns the upload object of the API. `file` is the file that it has become."""
        return {
            "id": self.id,
            "object": "upload",
            "bytes": self.size,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": self.status,
            "file": None if file is None else file.render(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPart:
    """A part of an upload. Its bytes are the blob with its id."""

    id: str
    upload_id: str
    size: int
    created_at: int

    def render(self) -> Json:
        """Returns the part object of the API."""
        return {
            "id": self.id,
            "object": "upload.part",
            "created_at": self.created_at,
            "upload_id": self.upload_id,
        }


class UploadLimits(NamedTuple):
    """The most parts of an upload, and how many times its declared bytes they may have together."""

    parts: int
    factor: int = 4


class UploadNotPending(Exception):
    """Nothing can be done with an upload any more, or there is none: `upload` is None then."""

    def __init__(self, upload: StoredUpload | None) -> None:
        super().__init__("the upload is not pending")
        self.upload = upload

    def build_client_error(self, upload_id: str) -> Exception:
        """Returns the error for the client: UploadNotFound, or InvalidRequest with the code `upload_not_pending`."""
        if self.upload is None:
            return UploadNotFound(upload_id)
        return InvalidRequest(
            f"the upload is {self.upload.status}: create another one", param=None, code="upload_not_pending"
        )


class UploadStore(Protocol):
    """Stores uploads, within the quota of each owner. Methods raise UploadNotPending for one that is not pending."""

    async def create_upload(self, owner: str, upload: StoredUpload, quota: FileQuota) -> None:
        """Stores a new upload. Raises StorageQuotaExceeded if its declared bytes do not fit."""
        ...

    async def load_upload(self, owner: str, upload_id: str) -> StoredUpload | None: ...

    async def add_part(self, owner: str, part: StoredPart, limits: UploadLimits, quota: FileQuota) -> None:
        """Stores a part whose blob was reserved and has been written.

        Raises InvalidRequest beyond the limits, StorageQuotaExceeded, and BlobNotReserved.
        """
        ...

    async def load_parts(self, owner: str, upload_id: str) -> Sequence[StoredPart]:
        """Returns the parts of an upload, in no order."""
        ...

    async def complete_upload(self, owner: str, upload_id: str, file: StoredFile, quota: FileQuota) -> StoredUpload:
        """Ends an upload as completed, and stores its file, whose blob has been written. The parts are deleted.

        Raises StorageQuotaExceeded and BlobNotReserved.
        """
        ...

    async def cancel_upload(self, owner: str, upload_id: str) -> StoredUpload:
        """Ends an upload as cancelled, and deletes its parts."""
        ...


def check_part(size: int, declared: int, part_bytes: int, part_count: int, limits: UploadLimits) -> None:
    """Raises InvalidRequest for a part of an upload that is too large, or one too many.

    `declared` are the bytes of the whole file, `part_bytes` those of all parts, this one included.
    """
    if size > declared:
        raise InvalidRequest(
            f"Invalid value for 'data': the part is larger than the {declared} bytes of the whole upload.", param="data"
        )
    if part_bytes > limits.factor * declared:
        raise InvalidRequest(
            f"Invalid value for 'data': the parts of an upload may have {limits.factor} times its bytes together.",
            param="data",
        )
    if part_count > limits.parts:
        raise InvalidRequest(
            f"Invalid value for 'data': an upload has at most {limits.parts} parts (files.max_parts).", param="data"
        )
