"""Counts the bytes of uploads that have begun and that no transaction has counted yet."""

from collections.abc import Iterator
from contextlib import contextmanager

from gateway.state.file_records import FileQuota, FileUsage, check_quota


class OpenUploads:
    """The uploads of one server process that have not ended.

    What the database counts decides in the end. This stops an owner earlier, whose uploads would fill the disk at once.
    """

    def __init__(self) -> None:
        self._open_bytes: dict[str, int] = {}

    @contextmanager
    def count(self, owner: str, stored: FileUsage, quota: FileQuota, expected: int) -> Iterator["OpenUpload"]:
        """Counts an upload until the block ends: its bytes, or those that are `expected` if that is more.

        So of uploads that do not fit together the first ones pass. `stored` is what the owner has stored. Raises
        StorageQuotaExceeded.
        """
        upload = OpenUpload(self._open_bytes, owner, stored, quota)
        try:
            upload.reserve(expected)
            yield upload
        finally:
            if (left := self._open_bytes.get(owner, 0) - upload.reserved) > 0:
                self._open_bytes[owner] = left
            else:
                self._open_bytes.pop(owner, None)


class OpenUpload:
    """One upload. `size` are its bytes so far."""

    def __init__(self, open_bytes: dict[str, int], owner: str, stored: FileUsage, quota: FileQuota) -> None:
        self._open_bytes = open_bytes
        self._owner = owner
        self._stored = stored
        self._quota = quota
        self.size = 0
        self.reserved = 0

    def add(self, size: int) -> None:
        """Counts further bytes. Raises StorageQuotaExceeded."""
        self.size += size
        if self.size > self.reserved:
            self.reserve(self.size)

    def reserve(self, size: int) -> None:
        """Counts the upload as one of so many bytes. Raises StorageQuotaExceeded, and has no effect then."""
        total = self._open_bytes.get(self._owner, 0) - self.reserved + size
        check_quota(FileUsage(self._stored.files, self._stored.size + total), self._quota)
        self._open_bytes[self._owner] = total
        self.reserved = size
