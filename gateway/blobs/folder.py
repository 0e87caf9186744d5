"""Blobs as files in a folder, which servers on one machine, or with one mount, share.

A blob is written to a file in the folder `tmp`, which its writer locks, and moved to its place when it is finished. A
server that starts recognizes what dead writers have left by the missing lock.
"""

import fcntl
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from dataplane.sharing.fair_turns import PerLoop
from dataplane.sharing.threaded_file import ThreadedFile, open_in_pool
from dataplane.sharing.work_pool import WorkPool
from gateway.blobs.blob_store import BlobMissing
from gateway.errors import FileStorageUnavailable

_PIECE_BYTES: Final = 256 * 1024
_READ_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_SHARD_CHARS: Final = 2

_ResultT = TypeVar("_ResultT")

_pools: Final = PerLoop(WorkPool)
"""Threads of their own: a slow disk must not delay the parsing of requests."""


class BlobFolder:
    """Implements `BlobStore` in a folder. The folder is made when the first blob is written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path / "tmp"

    @asynccontextmanager
    async def write_blob(self, blob_id: str) -> AsyncGenerator["FileWriter", None]:
        temporary = self._temporary / blob_id
        writer = FileWriter(ThreadedFile(os.close), temporary, self._place_of(blob_id))
        try:
            await writer.create(self._path)
            yield writer
        finally:
            await _run(writer.close)

    @asynccontextmanager
    async def read_blob(self, blob_id: str) -> AsyncGenerator[AsyncIterator[bytes], None]:
        async with self._open(blob_id) as descriptor:
            yield _iterate_pieces(descriptor)

    @asynccontextmanager
    async def open_descriptor(self, blob_id: str) -> AsyncGenerator[int, None]:
        async with self._open(blob_id) as descriptor:
            yield descriptor.use(lambda number: number)

    def _open(self, blob_id: str) -> AbstractAsyncContextManager[ThreadedFile[int]]:
        return open_in_pool(_run, partial(_open_blob, self._place_of(blob_id), blob_id), os.close)

    async def remove_blobs(self, blob_ids: Sequence[str]) -> None:
        places = [place for blob_id in blob_ids for place in (self._temporary / blob_id, self._place_of(blob_id))]
        await _run(partial(_remove_files, places))

    async def remove_strays(self) -> int:
        return await _run(partial(_remove_unlocked, self._temporary))

    async def aclose(self) -> None:
        """Has nothing to close."""

    def _place_of(self, blob_id: str) -> Path:
        # The end of an id is random, so the folders fill evenly.
        return self._path / blob_id[-_SHARD_CHARS:] / blob_id


class FileWriter:
    """Implements `BlobWriter` for a file that is open and locked from `create` to `close`."""

    def __init__(self, descriptor: ThreadedFile[int], temporary: Path, place: Path) -> None:
        self._descriptor = descriptor
        self._temporary = temporary
        self._place = place
        self._has_finished = False

    async def create(self, folder: Path) -> None:
        """Creates the file, and `folder` with the folders below it if they are missing."""
        await _run(partial(self._descriptor.open, partial(_create_locked, folder, self._temporary)))

    async def write(self, data: bytes) -> None:
        await _run(partial(self._descriptor.use, partial(_write_all, data)))

    async def finish(self) -> None:
        await _run(partial(self._descriptor.use, self._move))

    def close(self) -> None:
        """Closes the file, and removes it unless it was finished."""
        self._descriptor.close()
        if not self._has_finished:
            self._temporary.unlink(missing_ok=True)

    def _move(self, descriptor: int) -> None:
        os.fsync(descriptor)
        self._place.parent.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        self._temporary.rename(self._place)
        self._has_finished = True
        _sync_folder(self._place.parent)


async def _run(call: Callable[[], _ResultT]) -> _ResultT:
    """Returns what a function returns that works with files, in a thread. Raises FileStorageUnavailable."""
    try:
        return await _pools.get().run(call)
    except OSError as error:
        raise FileStorageUnavailable(error.strerror or type(error).__name__) from error


def _open_blob(place: Path, blob_id: str) -> int:
    try:
        return os.open(place, _READ_FLAGS)
    except FileNotFoundError:
        raise BlobMissing(blob_id) from None


def _create_locked(folder: Path, temporary: Path) -> int:
    for each in (folder, temporary.parent):
        each.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    while True:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _FILE_MODE)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # a server that started took it for a stray one before it was locked


def _write_all(data: bytes, descriptor: int) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


async def _iterate_pieces(descriptor: ThreadedFile[int]) -> AsyncIterator[bytes]:
    while piece := await _run(partial(descriptor.use, lambda number: os.read(number, _PIECE_BYTES))):
        yield piece


def _remove_files(places: Sequence[Path]) -> None:
    for place in places:
        place.unlink(missing_ok=True)


def _remove_unlocked(folder: Path) -> int:
    """Removes the files of a folder whose writers are gone. Returns how many."""
    removed_count = 0
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                removed_count += _remove_if_unlocked(Path(entry.path))
    return removed_count


def _remove_if_unlocked(path: Path) -> bool:
    descriptor = os.open(path, _READ_FLAGS)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
