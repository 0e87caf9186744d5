"""Blobs in a folder: what remains of writers that end early, and who may read the bytes."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.blobs.blob_store import BlobMissing
from gateway.blobs.folder import BlobFolder
from gateway.blobs.open_blobs import find_folder
from gateway.config.settings import parse_settings
from gateway.errors import FileStorageUnavailable
from tests.own_process import find_open_files

BLOB_ID = "file-0123456789"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "files"


@pytest.fixture
def blobs(folder: Path) -> BlobFolder:
    return BlobFolder(folder)


async def write(blobs: BlobFolder, blob_id: str, *pieces: bytes) -> None:
    async with blobs.write_blob(blob_id) as writer:
        for piece in pieces:
            await writer.write(piece)
        await writer.finish()


async def read(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


def list_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_a_blob_is_read_as_it_was_written(blobs: BlobFolder) -> None:
    content = os.urandom(600_000)
    await write(blobs, BLOB_ID, content[:1], content[1:])
    async with blobs.read_blob(BLOB_ID) as pieces:
        assert await read(pieces) == content
    async with blobs.open_descriptor(BLOB_ID) as descriptor:
        assert os.read(descriptor, 10) == content[:10]
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(descriptor, b"x")


async def test_only_the_user_of_the_server_can_read_the_bytes(blobs: BlobFolder, folder: Path) -> None:
    await write(blobs, BLOB_ID, b"secret")
    (file,) = list_files(folder)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {stat.S_IMODE(each.stat().st_mode) for each in (folder, *file.parents[:1])} == {0o700}


async def test_a_blob_that_is_not_finished_leaves_nothing(blobs: BlobFolder, folder: Path) -> None:
    async with blobs.write_blob(BLOB_ID) as writer:
        await writer.write(b"half")
        assert len(list_files(folder)) == 1
    assert list_files(folder) == []
    with pytest.raises(BlobMissing):
        async with blobs.read_blob(BLOB_ID):
            pass


async def test_a_writer_that_is_cancelled_leaves_no_file_and_no_descriptor(blobs: BlobFolder, folder: Path) -> None:
    await write(blobs, BLOB_ID, b"first")
    for steps in range(12):
        task = asyncio.create_task(write(blobs, f"file-{steps:04}", b"a", b"b"))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        await blobs.remove_blobs([f"file-{steps:04}"])
    assert len(list_files(folder)) == 1
    assert find_open_files(folder) == []


async def test_a_start_removes_what_dead_writers_left_and_nothing_else(blobs: BlobFolder, folder: Path) -> None:
    assert await blobs.remove_strays() == 0  # there is no folder yet
    await write(blobs, BLOB_ID, b"finished")
    (folder / "tmp" / "file-dead").write_bytes(b"half")
    async with blobs.write_blob("file-alive") as writer:
        await writer.write(b"half")
        assert await BlobFolder(folder).remove_strays() == 1
        await writer.write(b" and half")
        await writer.finish()
    assert sorted(path.name for path in list_files(folder)) == [BLOB_ID, "file-alive"]


async def test_removing_is_repeatable(blobs: BlobFolder, folder: Path) -> None:
    await blobs.remove_blobs([BLOB_ID])
    await write(blobs, BLOB_ID, b"x")
    await blobs.remove_blobs([BLOB_ID, "file-unknown"])
    await blobs.remove_blobs([BLOB_ID])
    assert list_files(folder) == []


async def test_a_folder_that_cannot_be_made_is_named_as_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileStorageUnavailable) as unavailable:
        async with BlobFolder(tmp_path / "file" / "files").write_blob(BLOB_ID):
            pass
    assert unavailable.value.reason == "Not a directory"
    with pytest.raises(FileStorageUnavailable):
        async with BlobFolder(tmp_path / "file" / "files").read_blob(BLOB_ID):
            pass


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"store": {"url": "sqlite+aiosqlite:////data/state.db?timeout=3"}}, "/data/responses-gateway-files"),
        ({"store": {"url": "sqlite+aiosqlite:///state.db"}}, "responses-gateway-files"),
        ({"store": {"url": "postgresql+asyncpg://u@h/n"}}, "responses-gateway-files"),
        ({"store": {"url": "sqlite+aiosqlite:///state.db"}, "files": {"path": "/srv/files"}}, "/srv/files"),
    ],
)
def test_the_folder_is_beside_the_database_unless_it_is_named(config: dict[str, object], expected: str) -> None:
    assert find_folder(parse_settings(config, environ={})) == Path(expected)
