"""Files in the store: their order, their quota, their expiry, and the list of blobs that none of them has."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.blobs.folder import BlobFolder
from gateway.errors import BodyTooSlow, FileStorageUnavailable, StorageQuotaExceeded
from gateway.files.blob_keeper import BlobKeeper
from gateway.state.database.database import Database
from gateway.state.database.tables import files
from gateway.state.file_records import BlobKey, BlobNotReserved, FileQuota, FileUsage, StoredFile
from gateway.state.records.files import FileDeleter, SqlFileStore
from gateway.state.sql.deletion import delete_in_batches
from gateway.state.sql.retention import SqlRetention
from gateway.state.sql.store import SqlStore
from gateway.state.upload_records import StoredPart, StoredUpload, UploadLimits
from gateway.state.values import PageRequest, UnknownCursor

QUOTA = FileQuota(files=100, size=1000)
FUTURE = 4_000_000_000
PAST = 1_000_000_000


def build_file(file_id: str, size: int = 1, **fields: Any) -> StoredFile:
    described = {"created_at": 1_700_000_000, "filename": "a.txt", "purpose": "user_data", **fields}
    return StoredFile(id=file_id, size=size, **described)


async def add(store: SqlStore, owner: str, file: StoredFile, quota: FileQuota = QUOTA) -> None:
    await store.files.reserve_blob(owner, file.id, hold_s=60)
    await store.files.create_file(owner, file, quota)


async def list_ids(store: SqlStore, owner: str, page: PageRequest | None = None, **selected: Any) -> list[str]:
    rows = (await store.files.list_files(owner, page or PageRequest(limit=10_000), **selected)).rows
    return [row["id"] for row in rows]


async def test_a_file_is_read_as_it_was_stored(store: SqlStore) -> None:
    file = build_file("file-1", 7, filename="日本 \ufffd.pdf", expires_at=FUTURE)
    await add(store, "ann", file)
    assert await store.files.load_file("ann", "file-1") == file
    assert await store.files.load_file("bob", "file-1") is None
    assert await store.files.load_file("ann", "file-\0") is None
    assert await store.files.load_files("ann", ["file-1", "file-2"]) == {"file-1": file}


async def test_files_are_listed_in_the_order_of_their_creation_even_within_one_second(store: SqlStore) -> None:
    ids = [f"file-{name}" for name in "dbeac"]
    for file_id in ids:
        await add(store, "ann", build_file(file_id))
    await add(store, "bob", build_file("file-z"))
    assert await list_ids(store, "ann") == ids[::-1]
    assert await list_ids(store, "ann", PageRequest(order="asc")) == ids
    assert await list_ids(store, "ann", PageRequest(after=ids[1], limit=2, order="asc")) == ids[2:4]
    assert await list_ids(store, "ann", PageRequest(after=ids[1])) == ids[:1]
    page = await store.files.list_files("ann", PageRequest(limit=4))
    assert page.has_more
    assert not (await store.files.list_files("ann", PageRequest(after=ids[1]))).has_more


async def test_a_list_may_have_one_purpose_only(store: SqlStore) -> None:
    await add(store, "ann", build_file("file-1", purpose="vision"))
    await add(store, "ann", build_file("file-2"))
    assert await list_ids(store, "ann", purpose="vision") == ["file-1"]
    assert await list_ids(store, "ann", purpose="evals") == []


@pytest.mark.parametrize("cursor", ["file-none", "file-of-bob", "file-expired", "\0"])
async def test_a_cursor_of_another_list_is_unknown(store: SqlStore, cursor: str) -> None:
    await add(store, "ann", build_file("file-1"))
    await add(store, "ann", build_file("file-expired", expires_at=PAST))
    await add(store, "bob", build_file("file-of-bob"))
    with pytest.raises(UnknownCursor):
        await store.files.list_files("ann", PageRequest(after=cursor))


async def test_an_expired_file_is_unknown_and_the_sweeper_deletes_it(store: SqlStore, tables: Database) -> None:
    await add(store, "ann", build_file("file-1", 5, expires_at=PAST))
    await add(store, "ann", build_file("file-2", 3, expires_at=FUTURE))
    assert await store.files.load_file("ann", "file-1") is None
    assert await list_ids(store, "ann") == ["file-2"]
    assert not await store.files.delete_file("ann", "file-1")
    retention = SqlRetention(tables, FileDeleter(), events_hours=1, idempotency_hours=1)
    assert await retention.delete_expired(before=0) == 1
    assert await store.files.measure_usage("ann") == FileUsage(1, 3)
    assert await store.files.list_unused_blobs(10) == [BlobKey("ann", "file-1")]


async def test_expired_files_of_one_owner_can_be_deleted_at_once(store: SqlStore) -> None:
    for owner in ("ann", "bob"):
        await add(store, owner, build_file(f"file-{owner}", expires_at=PAST))
    assert await store.files.delete_expired_files("ann") == 1
    assert await store.files.measure_usage("bob") == FileUsage(1, 1)


async def test_a_blob_is_unused_until_a_file_has_it_and_after_that_is_deleted(store: SqlStore) -> None:
    files = store.files
    await files.reserve_blob("ann", "file-1", hold_s=60)
    assert await files.list_unused_blobs(10) == []  # its request may still be running
    await files.create_file("ann", build_file("file-1"), QUOTA)
    assert not await files.release_blob("ann", "file-1")
    assert await files.delete_file("ann", "file-1")
    assert not await files.delete_file("ann", "file-1")
    assert await files.list_unused_blobs(10, owner="bob") == []
    assert await files.list_unused_blobs(10, owner="ann") == [BlobKey("ann", "file-1")]
    await files.remove_unused_blobs([BlobKey("ann", "file-1")])
    assert await files.list_unused_blobs(10) == []


async def test_a_released_blob_is_unused_at_once(store: SqlStore) -> None:
    await store.files.reserve_blob("ann", "file-1", hold_s=60)
    assert await store.files.release_blob("ann", "file-1")
    assert await store.files.list_unused_blobs(10) == [BlobKey("ann", "file-1")]


async def test_no_file_is_made_of_a_blob_that_was_removed_meanwhile(store: SqlStore) -> None:
    with pytest.raises(BlobNotReserved):
        await store.files.create_file("ann", build_file("file-1"), QUOTA)
    assert await store.files.measure_usage("ann") == FileUsage(0, 0)


@pytest.mark.parametrize("end", ["it took too long", "it was released", "the owner was erased"])
async def test_no_file_or_part_is_made_of_a_blob_whose_hold_has_ended(store: SqlStore, end: str) -> None:
    upload = StoredUpload(id="upload_1", size=9, created_at=1, expires_at=FUTURE, filename="a.txt", purpose="user_data")
    hold_s = 0 if end == "it took too long" else 60
    await store.files.reserve_blob("bob", "file-1", hold_s=60)
    await store.files.reserve_blob("ann", "file-1", hold_s=hold_s)
    await store.files.reserve_blob("ann", "part_1", hold_s=hold_s)
    if end == "it was released":
        assert await store.files.release_blob("ann", "file-1")
        assert await store.files.release_blob("ann", "part_1")
    elif end == "the owner was erased":
        await store.owner_data.erase_owner("ann")
    await store.uploads.create_upload("ann", upload, QUOTA)
    with pytest.raises(BlobNotReserved):
        await store.files.create_file("ann", build_file("file-1"), QUOTA)
    with pytest.raises(BlobNotReserved):
        await store.uploads.add_part(
            "ann", StoredPart(id="part_1", upload_id="upload_1", size=1, created_at=1), UploadLimits(9), QUOTA
        )
    assert await store.files.measure_usage("ann") == FileUsage(0, 0)
    assert sorted(await store.files.list_unused_blobs(10)) == [BlobKey("ann", "file-1"), BlobKey("ann", "part_1")]
    await store.files.create_file("bob", build_file("file-1"), QUOTA)


@pytest.mark.parametrize("is_swept", [False, True])
async def test_a_file_that_was_uploaded_during_an_erasure_leaves_nothing(
    store: SqlStore, tmp_path: Path, is_swept: bool
) -> None:
    folder = tmp_path / "files"
    keeper = BlobKeeper(store.files, BlobFolder(folder), 60)

    async def upload_during_erasure() -> None:
        async with keeper.write_blob("ann", "file-") as (file_id, blob):
            await blob.write(b"secret")
            await store.owner_data.erase_owner("ann")
            if is_swept:
                await keeper.remove_unused("ann")
            await blob.finish()
            await store.files.create_file("ann", build_file(file_id), QUOTA)

    with pytest.raises(FileStorageUnavailable if is_swept else BodyTooSlow):
        await upload_during_erasure()
    assert not any(path.is_file() for path in folder.rglob("*"))
    assert await list_ids(store, "ann") == []
    assert await store.files.list_unused_blobs(10) == []


@pytest.mark.parametrize(
    ("quota", "key"),
    [(FileQuota(files=100, size=10), "limits.files_mb"), (FileQuota(files=2, size=1000), "limits.files")],
)
async def test_files_beyond_the_quota_are_refused_with_the_key(store: SqlStore, quota: FileQuota, key: str) -> None:
    await add(store, "ann", build_file("file-1", 5), quota)
    await add(store, "ann", build_file("file-2", 5), quota)
    with pytest.raises(StorageQuotaExceeded, match=key):
        await add(store, "ann", build_file("file-3", 1), quota)
    assert await store.files.measure_usage("ann") == FileUsage(2, 10)
    await add(store, "bob", build_file("file-4", 5), quota)
    await store.files.delete_file("ann", "file-1")
    await add(store, "ann", build_file("file-5", 1), quota)


async def test_eight_files_at_once_cannot_pass_a_quota_together(store: SqlStore, other: SqlStore) -> None:
    quota = FileQuota(files=100, size=30)

    async def upload(number: int) -> bool:
        try:
            await add(store if number % 2 else other, "ann", build_file(f"file-{number}", 10), quota)
        except StorageQuotaExceeded:
            return False
        return True

    passed = await asyncio.gather(*map(upload, range(8)))
    assert sum(passed) == 3
    assert await store.files.measure_usage("ann") == FileUsage(3, 30)
    assert len(await list_ids(store, "ann")) == 3


async def test_everything_that_deletes_files_calls_the_hooks_in_its_transaction(
    store: SqlStore, tables: Database
) -> None:
    deleted: list[tuple[str, str]] = []

    async def hook(_: Any, keys: Any) -> None:
        deleted.extend(keys)
        if len(deleted) == 2:
            raise RuntimeError("the transaction has no effect")

    deleter = FileDeleter([hook])
    files = SqlFileStore(tables, deleter)
    await add(store, "ann", build_file("file-1"))
    await add(store, "ann", build_file("file-2", expires_at=PAST))
    assert await files.delete_file("ann", "file-1")
    with pytest.raises(RuntimeError):
        await files.delete_expired_files("ann")
    assert await files.measure_usage("ann") == FileUsage(1, 1)
    await SqlRetention(tables, deleter, events_hours=1, idempotency_hours=1).delete_expired(before=0)
    assert deleted == [("ann", "file-1"), ("ann", "file-2"), ("ann", "file-2")]


async def test_erasing_an_owner_deletes_its_files_and_lists_their_blobs(store: SqlStore) -> None:
    for number in range(120):
        await add(store, "ann", build_file(f"file-{number}"), FileQuota(1000, 1000))
    await add(store, "bob", build_file("file-of-bob"))
    exported = [found async for found in store.owner_data.export_owner("ann")]
    assert [found["object"] for found in exported] == ["file"] * 120
    assert await store.owner_data.erase_owner("ann") == 120
    assert await store.files.measure_usage("ann") == FileUsage(0, 0)
    assert {key.owner for key in await store.files.list_unused_blobs(1000)} == {"ann"}
    assert len(await store.files.list_unused_blobs(1000)) == 120
    assert await list_ids(store, "bob") == ["file-of-bob"]


async def test_an_empty_file_that_was_created_while_its_owner_was_erased_ends_no_uploads(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def delete_and_create(database: Database, table: Any, *conditions: Any, **named: Any) -> int:
        deleted = await delete_in_batches(database, table, *conditions, **named)
        if table is files:
            await add(store, "ann", build_file("file-empty", 0))
        return deleted

    await add(store, "ann", build_file("file-1"))
    monkeypatch.setattr("gateway.state.sql.owner_data.delete_in_batches", delete_and_create)
    assert await store.owner_data.erase_owner("ann") == 1
    for number in range(3):
        await add(store, "ann", build_file(f"file-later-{number}"))
    assert await store.files.measure_usage("ann") == FileUsage(4, 3)
