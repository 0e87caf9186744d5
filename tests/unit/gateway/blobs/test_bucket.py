"""Blobs in a bucket of a real HTTP server: uploads in parts, what remains of those that end early, and failures."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import obstore
import pytest

from gateway.blobs.blob_store import BlobMissing
from gateway.blobs.bucket import Bucket
from gateway.config.storage_settings import BucketSettings
from gateway.errors import FileStorageUnavailable
from tests.own_process import find_descriptors, identify_file
from tests.polling import reach, wait_until
from tests.state.s3_server import Bucket as ServedBucket
from tests.state.s3_server import S3Server, s3_server

BLOB_ID = "file-0123456789"
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture
def served(server: S3Server) -> ServedBucket:
    return server.make_bucket()


@pytest.fixture
def blobs(served: ServedBucket) -> Bucket:
    return open_bucket(served)


def open_bucket(served: ServedBucket, **changed: Any) -> Bucket:
    return Bucket(BucketSettings.model_validate({**served.settings, **changed}))


async def write(blobs: Bucket, blob_id: str, *pieces: bytes) -> None:
    async with blobs.write_blob(blob_id) as writer:
        for piece in pieces:
            await writer.write(piece)
        await writer.finish()


async def read(blobs: Bucket, blob_id: str) -> bytes:
    async with blobs.read_blob(blob_id) as pieces:
        return b"".join([piece async for piece in pieces])


async def read_all(pieces: AsyncIterator[bytes]) -> None:
    async for _ in pieces:
        pass


@pytest.mark.parametrize("size", [0, 1, MIB, 5 * MIB - 1, 5 * MIB, 5 * MIB + 1, 12 * MIB + 7])
async def test_a_blob_is_read_as_it_was_written(size: int, blobs: Bucket, served: ServedBucket) -> None:
    content = os.urandom(size)
    half = size // 2
    await write(blobs, BLOB_ID, content[:half], content[half:])
    assert await read(blobs, BLOB_ID) == content
    assert served.list_names() == [BLOB_ID]
    assert served.list_unfinished() == []


async def test_a_child_process_gets_a_copy_that_it_can_only_read(blobs: Bucket) -> None:
    content = os.urandom(3 * MIB)
    await write(blobs, BLOB_ID, content)
    async with blobs.open_descriptor(BLOB_ID) as descriptor:
        copy = identify_file(descriptor)
        assert os.pread(descriptor, 4 * MIB, 0) == content
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == 0, "it is read from its beginning"
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(descriptor, b"x")
        assert descriptor in find_descriptors(copy)
    assert find_descriptors(copy) == []


@pytest.mark.parametrize("size", [10, 6 * MIB, 16 * MIB])
async def test_a_blob_that_is_not_finished_leaves_nothing(size: int, blobs: Bucket, served: ServedBucket) -> None:
    async with blobs.write_blob(BLOB_ID) as writer:
        await writer.write(bytes(size))
    assert (served.list_names(), served.list_unfinished()) == ([], [])
    with pytest.raises(BlobMissing):
        await read(blobs, BLOB_ID)
    with pytest.raises(BlobMissing):
        async with blobs.open_descriptor(BLOB_ID):
            pass


async def test_a_writer_that_is_cancelled_leaves_nothing(blobs: Bucket, served: ServedBucket) -> None:
    async def write_without_end() -> None:
        async with blobs.write_blob(BLOB_ID) as writer:
            await writer.write(bytes(6 * MIB))
            await asyncio.Event().wait()

    task = asyncio.create_task(write_without_end())
    await wait_until(served.list_unfinished)
    task.cancel()
    await asyncio.wait({task})
    assert (served.list_names(), served.list_unfinished()) == ([], [])


async def test_a_writer_that_is_cancelled_at_its_end_waits_for_what_may_still_arrive(
    blobs: Bucket, served: ServedBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, is_sending, may_arrive = obstore.put_async, asyncio.Event(), asyncio.Event()

    async def put_late(*args: Any, **options: Any) -> Any:
        is_sending.set()
        await may_arrive.wait()
        return await put(*args, **options)

    monkeypatch.setattr(obstore, "put_async", put_late)
    task = asyncio.create_task(write(blobs, BLOB_ID, b"x"))
    await reach(is_sending, task)
    task.cancel()
    await asyncio.sleep(0)
    may_arrive.set()
    await asyncio.wait({task})
    assert task.cancelled()
    assert served.list_names() == [BLOB_ID], "it arrives before its removal, which follows, and not after it"


async def test_removing_is_repeatable(blobs: Bucket, served: ServedBucket) -> None:
    await blobs.remove_blobs([])
    await write(blobs, BLOB_ID, b"x")
    await blobs.remove_blobs([BLOB_ID, "file-unknown"])
    await blobs.remove_blobs([BLOB_ID])
    assert served.list_names() == []
    assert await blobs.remove_strays() == 0


async def test_a_blob_that_is_removed_while_it_is_read_is_a_failure(blobs: Bucket) -> None:
    await write(blobs, BLOB_ID, bytes(3 * MIB))
    async with blobs.read_blob(BLOB_ID) as pieces:
        await anext(pieces)
        await blobs.remove_blobs([BLOB_ID])
        with pytest.raises(FileStorageUnavailable):
            await read_all(pieces)


async def test_an_outage_is_named_without_the_text_of_the_service(served: ServedBucket) -> None:
    blobs = open_bucket(served, endpoint="http://127.0.0.1:1", deadline_s=2)
    with pytest.raises(FileStorageUnavailable) as small:
        await write(blobs, BLOB_ID, b"x")
    with pytest.raises(FileStorageUnavailable) as large:
        await write(blobs, BLOB_ID, *(bytes(MIB) for _ in range(30)))
    with pytest.raises(FileStorageUnavailable):
        await read(blobs, BLOB_ID)
    with pytest.raises(FileStorageUnavailable):
        await blobs.remove_blobs([BLOB_ID])
    assert {small.value.reason, large.value.reason} == {"the bucket: GenericError"}


async def test_a_bucket_that_does_not_exist_is_a_failure(served: ServedBucket) -> None:
    with pytest.raises(FileStorageUnavailable):
        await write(open_bucket(served, bucket="no-such-bucket"), BLOB_ID, b"x")
