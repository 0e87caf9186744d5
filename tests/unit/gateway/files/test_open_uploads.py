"""Uploads of one owner at once: which of them are stopped before they fill the disk."""

import pytest

from gateway.errors import StorageQuotaExceeded
from gateway.files.open_uploads import OpenUploads
from gateway.state.file_records import FileQuota, FileUsage

QUOTA = FileQuota(files=10, size=100)
STORED = FileUsage(1, 40)


def test_of_uploads_that_do_not_fit_together_the_first_pass() -> None:
    uploads = OpenUploads()
    with uploads.count("ann", STORED, QUOTA, 30) as first, uploads.count("ann", STORED, QUOTA, 30) as second:
        with pytest.raises(StorageQuotaExceeded), uploads.count("ann", STORED, QUOTA, 1):
            pass
        with uploads.count("bob", STORED, QUOTA, 60):
            pass
        first.add(30)
        second.add(29)
        with pytest.raises(StorageQuotaExceeded):
            second.add(2)
    with uploads.count("ann", STORED, QUOTA, 60):
        pass


def test_bytes_that_were_not_expected_are_counted_as_they_arrive() -> None:
    uploads = OpenUploads()
    with uploads.count("ann", STORED, QUOTA, 0) as upload:
        upload.add(50)
        with pytest.raises(StorageQuotaExceeded), uploads.count("ann", STORED, QUOTA, 11):
            pass
        with pytest.raises(StorageQuotaExceeded):
            upload.add(11)
    assert upload.size == 61
