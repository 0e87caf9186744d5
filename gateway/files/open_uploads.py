"""Counts the bytes of uploads in progress, which the database does not know before they end."""

from collections.abc import Iterator
from contextlib import contextmanager

from gateway.state.file_records import FileQuota, FileUsage, check_quota


class OpenUploads:
    """The uploads of one server process that have not ended.

    The database enforces the quota of an owner when an upload, or a part of one, has ended. Those in progress are
    counted here, so that an owner who begins many at once cannot fill the disk before that.
    """

    def __init__(self) -> None:
        self._open_bytes: dict[str, int] = {}

    @contextmanager
    def count(self, owner: str, stored: FileUsage, quota: FileQuota, expected: int) -> Iterator["OpenUpload"]:
        """Counts an upload until the block ends: the bytes that have arrived, or the `expected` bytes if those are
        more.

        If several uploads together exceed the quota, those that began first are accepted. `stored` is what the owner
        has stored already. Raises StorageQuotaExceeded.
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
    """One upload. `size` is the number of bytes that have arrived."""

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
        """Counts the upload as if so many bytes had arrived. Raises StorageQuotaExceeded, and then counts nothing."""
        total = self._open_bytes.get(self._owner, 0) - self.reserved + size
        check_quota(FileUsage(self._stored.files, self._stored.size + total), self._quota)
        self._open_bytes[self._owner] = total
        self.reserved = size
