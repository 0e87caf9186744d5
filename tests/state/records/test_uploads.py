"""Uploads in the store: their parts, their bounds, their ends, and what they take of the quota."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import update

from gateway.errors import StorageQuotaExceeded, UploadNotFound
from gateway.state.database.database import Database
from gateway.state.database.tables import uploads
from gateway.state.file_records import BlobKey, BlobNotReserved, FileQuota, FileUsage, StoredFile
from gateway.state.records.files import FileDeleter
from gateway.state.row_values import read_clock_us
from gateway.state.sql.retention import SqlRetention
from gateway.state.sql.store import SqlStore
from gateway.state.upload_records import StoredPart, StoredUpload, UploadLimits, UploadNotPending
from translation.errors import InvalidRequest

QUOTA = FileQuota(files=10, size=100)
LIMITS = UploadLimits(parts=3)
FUTURE = 4_000_000_000
UPLOAD = StoredUpload(
    id="upload_1", size=10, created_at=1, expires_at=FUTURE, filename="a", purpose="vision", file_expires_s=3600
)
FILE = StoredFile(id="file-1", size=10, created_at=1, filename="a", purpose="vision")


async def add(store: SqlStore, part_id: str, size: int, owner: str = "ann", **given: Any) -> StoredPart:
    part = StoredPart(id=part_id, upload_id="upload_1", size=size, created_at=2)
    await store.files.reserve_blob(owner, part_id, hold_s=60)
    await store.uploads.add_part(owner, part, given.get("limits", LIMITS), given.get("quota", QUOTA))
    return part


async def complete(store: SqlStore, quota: FileQuota = QUOTA) -> StoredUpload:
    await store.files.reserve_blob("ann", FILE.id, hold_s=60)
    return await store.uploads.complete_upload("ann", "upload_1", FILE, quota)


async def test_parts_become_a_file_and_their_blobs_are_unused(store: SqlStore) -> None:
    await store.uploads.create_upload("ann", UPLOAD, QUOTA)
    assert await store.uploads.load_upload("ann", "upload_1") == UPLOAD
    assert await store.uploads.load_upload("bob", "upload_1") is None
    parts = [await add(store, "part_1", 4), await add(store, "part_2", 8)]
    assert sorted(await store.uploads.load_parts("ann", "upload_1"), key=lambda part: part.id) == parts
    assert await store.uploads.load_parts("bob", "upload_1") == []
    assert await store.files.measure_usage("ann") == FileUsage(0, 12)
    completed = await complete(store)
    assert completed.status == "completed"
    assert await store.files.load_file("ann", "file-1") == FILE
    assert await store.files.measure_usage("ann") == FileUsage(1, 10)
    assert await store.uploads.load_parts("ann", "upload_1") == []
    assert sorted(await store.files.list_unused_blobs(10)) == [BlobKey("ann", "part_1"), BlobKey("ann", "part_2")]


async def test_a_file_is_not_counted_beside_its_parts(store: SqlStore) -> None:
    quota = FileQuota(files=1, size=10)
    await store.uploads.create_upload("ann", UPLOAD, quota)
    await add(store, "part_1", 10, quota=quota)
    await complete(store, quota)


async def test_what_does_not_fit_is_refused_at_the_beginning_with_each_part_and_at_the_end(store: SqlStore) -> None:
    with pytest.raises(StorageQuotaExceeded, match=r"limits\.files_mb"):
        await store.uploads.create_upload("ann", UPLOAD, FileQuota(files=1, size=9))
    await store.uploads.create_upload("ann", UPLOAD, FileQuota(files=1, size=10))
    with pytest.raises(StorageQuotaExceeded, match=r"limits\.files"):
        await store.uploads.create_upload("ann", UPLOAD, FileQuota(files=1, size=100))
    await store.uploads.create_upload("bob", UPLOAD, FileQuota(files=1, size=10))
    with pytest.raises(StorageQuotaExceeded):
        await add(store, "part_1", 4, quota=FileQuota(files=1, size=3))
    await add(store, "part_2", 4)
    with pytest.raises(StorageQuotaExceeded):
        await complete(store, FileQuota(files=1, size=9))
    assert await store.files.measure_usage("ann") == FileUsage(0, 4)
    assert (await store.uploads.load_upload("ann", "upload_1")) == UPLOAD


@pytest.mark.parametrize(
    ("sizes", "text"),
    [([11], "larger than the 10 bytes"), ([10, 10, 10, 10, 1], "4 times"), ([1, 1, 1, 1], "at most 3 parts")],
)
async def test_parts_have_bounds(store: SqlStore, sizes: list[int], text: str) -> None:
    await store.uploads.create_upload("ann", UPLOAD, QUOTA)
    limits = UploadLimits(parts=3 if len(sizes) == 4 else 100)
    for number, size in enumerate(sizes[:-1]):
        await add(store, f"part_{number}", size, limits=limits)
    with pytest.raises(InvalidRequest, match=text) as refused:
        await add(store, "part_last", sizes[-1], limits=limits)
    assert refused.value.param == "data"
    assert len(await store.uploads.load_parts("ann", "upload_1")) == len(sizes) - 1


async def test_a_part_without_its_bytes_is_not_stored(store: SqlStore) -> None:
    await store.uploads.create_upload("ann", UPLOAD, QUOTA)
    part = StoredPart(id="part_1", upload_id="upload_1", size=1, created_at=2)
    with pytest.raises(BlobNotReserved):
        await store.uploads.add_part("ann", part, LIMITS, QUOTA)
    assert await store.files.measure_usage("ann") == FileUsage(0, 0)


@pytest.mark.parametrize("ended", ["completed", "cancelled", "expired", "unknown", "foreign"])
async def test_nothing_is_done_with_an_upload_that_is_not_pending(
    store: SqlStore, tables: Database, ended: str
) -> None:
    if ended != "unknown":
        await store.uploads.create_upload("bob" if ended == "foreign" else "ann", UPLOAD, QUOTA)
    if ended == "completed":
        await complete(store)
    elif ended == "cancelled":
        assert (await store.uploads.cancel_upload("ann", "upload_1")).status == "cancelled"
    elif ended == "expired":
        await expire(tables, read_clock_us() - 1)
    for work in (
        add(store, "part_1", 1),
        store.uploads.complete_upload("ann", "upload_1", FILE, QUOTA),
        store.uploads.cancel_upload("ann", "upload_1"),
    ):
        with pytest.raises(UploadNotPending) as refused:
            await work
        error = refused.value.build_client_error("upload_1")
        if ended in ("unknown", "foreign"):
            assert isinstance(error, UploadNotFound)
        else:
            assert isinstance(error, InvalidRequest)
            assert (error.code, ended in str(error)) == ("upload_not_pending", True)


async def test_impossible_ids_are_unknown(store: SqlStore) -> None:
    assert await store.uploads.load_upload("ann", "upload_\0") is None
    with pytest.raises(UploadNotPending):
        await store.uploads.cancel_upload("ann", "upload_\0")


async def test_of_two_ends_at_once_one_succeeds(store: SqlStore, other: SqlStore) -> None:
    await store.uploads.create_upload("ann", UPLOAD, QUOTA)
    await add(store, "part_1", 10)
    ends = await asyncio.gather(complete(store), other.uploads.cancel_upload("ann", "upload_1"), return_exceptions=True)
    assert sum(isinstance(end, StoredUpload) for end in ends) == 1


async def test_the_sweeper_deletes_parts_at_expiry_and_the_upload_a_day_later(
    store: SqlStore, tables: Database
) -> None:
    await store.uploads.create_upload("ann", UPLOAD, QUOTA)
    await add(store, "part_1", 10)
    retention = SqlRetention(tables, FileDeleter(), events_hours=1, idempotency_hours=1)
    await retention.delete_expired(before=0)
    assert len(await store.uploads.load_parts("ann", "upload_1")) == 1
    await expire(tables, read_clock_us() - 1)
    await retention.delete_expired(before=0)
    expired = await store.uploads.load_upload("ann", "upload_1")
    assert expired is not None
    assert expired.status == "expired"
    assert await store.files.measure_usage("ann") == FileUsage(0, 0)
    assert await store.files.list_unused_blobs(10) == [BlobKey("ann", "part_1")]
    await expire(tables, read_clock_us() - 86_500 * 1_000_000)
    await retention.delete_expired(before=0)
    assert await store.uploads.load_upload("ann", "upload_1") is None


async def expire(tables: Database, expires_us: int) -> None:
    async with tables.write_transaction() as connection:
        await connection.execute(update(uploads).values(expires_us=expires_us))
