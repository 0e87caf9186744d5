"""Blobs as objects of a bucket with the API of S3, which all servers of a database share.

An object exists once it was written as a whole, so nothing of an unfinished one can be read. This module imports
obstore, so it is imported only if a bucket is configured.
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from operator import methodcaller
from typing import IO, Any, Final, TypeVar

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from dataplane.sharing.fair_turns import PerLoop
from dataplane.sharing.threaded_file import open_in_pool
from dataplane.sharing.work_pool import WorkPool
from gateway.blobs.blob_store import BlobMissing
from gateway.config.storage_settings import BucketSettings
from gateway.errors import FileStorageUnavailable

_PART_BYTES: Final = 5 * 1024 * 1024
"""The smallest part of an upload in parts that S3 takes. Smaller blobs are uploaded in one request."""

_PIECE_BYTES: Final = 1024 * 1024
_PARTS_AT_ONCE: Final = 2
_MAX_RETRIES: Final = 3
_CONNECT_S: Final = 5.0

_ResultT = TypeVar("_ResultT")

_close_file: Final = methodcaller("close")

_pools: Final = PerLoop(WorkPool)
"""Threads for the copies that child processes read."""


class _Abandoned(Exception):
    """Ends an upload in parts, whose parts are then removed."""


class Bucket:
    """Implements `BlobStore` in a bucket."""

    def __init__(self, settings: BucketSettings) -> None:
        self._store = _open_store(settings)

    @asynccontextmanager
    async def write_blob(self, blob_id: str) -> AsyncGenerator["ObjectWriter", None]:
        writer = ObjectWriter(self._store, blob_id)
        try:
            yield writer
        finally:
            await writer.close()

    @asynccontextmanager
    async def read_blob(self, blob_id: str) -> AsyncGenerator[AsyncIterator[bytes], None]:
        size = await self._measure(blob_id)
        yield self._iterate_pieces(blob_id, size)

    @asynccontextmanager
    async def open_descriptor(self, blob_id: str) -> AsyncGenerator[int, None]:
        """Opens a copy of the blob, which disappears with the descriptor."""
        size = await self._measure(blob_id)
        async with open_in_pool(_run_in_pool, tempfile.NamedTemporaryFile, _close_file) as copy:
            async for piece in self._iterate_pieces(blob_id, size):
                await _run_in_pool(partial(copy.use, partial(_write_piece, piece)))
            async with open_in_pool(_run_in_pool, partial(copy.use, _open_for_reading), _close_file) as reading:
                yield reading.use(lambda file: file.fileno())

    async def remove_blobs(self, blob_ids: Sequence[str]) -> None:
        if blob_ids:
            await _translate(obstore.delete_async(self._store, list(blob_ids)))

    async def remove_strays(self) -> int:
        """Has nothing to remove: the service keeps the parts of an upload that died, and its rules delete them."""
        return 0

    async def aclose(self) -> None:
        """Has nothing to close."""

    async def _measure(self, blob_id: str) -> int:
        try:
            head = await _translate(obstore.head_async(self._store, blob_id))
        except FileStorageUnavailable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise BlobMissing(blob_id) from None
            raise
        return head["size"]

    async def _iterate_pieces(self, blob_id: str, size: int) -> AsyncIterator[bytes]:
        """Yields the bytes of a blob. Each piece is a request, so a slow client exceeds no deadline."""
        for start in range(0, size, _PIECE_BYTES):
            length = min(_PIECE_BYTES, size - start)
            piece = await _translate(obstore.get_range_async(self._store, blob_id, start=start, length=length))
            if len(piece) != length:
                raise FileStorageUnavailable("a piece of an object is shorter than requested")
            yield piece.to_bytes()


class ObjectWriter:
    """Implements `BlobWriter` for one object. At most a few parts of it are in memory."""

    def __init__(self, store: S3Store, blob_id: str) -> None:
        self._store = store
        self._blob_id = blob_id
        self._pending = bytearray()
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        """The pieces that are sent next; None is the end of an object that is abandoned."""
        self._is_complete = False
        self._upload: asyncio.Task[Any] | None = None
        """The upload, which begins with the first full part or at the end. Whoever removes the blob has to wait for it:
        an upload that is cancelled may still arrive after the removal."""

    async def write(self, data: bytes) -> None:
        self._pending += data
        # obstore makes parts of the pieces. Whole parts would take more memory, because several wait on the way there.
        while len(self._pending) >= (_PART_BYTES if self._upload is None else _PIECE_BYTES):
            piece = bytes(memoryview(self._pending)[:_PIECE_BYTES])
            del self._pending[:_PIECE_BYTES]
            await self._send(piece)

    async def finish(self) -> None:
        rest = bytes(self._pending)
        self._pending.clear()
        if self._upload is None:
            self._upload = asyncio.get_running_loop().create_task(self._upload_whole(rest))
        else:
            if rest:
                await self._send(rest)
            self._is_complete = True
            await self._send(b"")
        await _translate(asyncio.shield(self._upload))

    async def close(self) -> None:
        """Ends the upload, and removes its parts unless the object was finished."""
        if self._upload is None:
            return
        if self._upload.done():
            if not self._upload.cancelled():
                self._upload.exception()  # the writer was told of it, or has left before
            return
        self._is_complete = False
        closing = asyncio.get_running_loop().create_task(self._abandon(self._upload))
        await asyncio.shield(closing)

    async def _abandon(self, upload: asyncio.Task[Any]) -> None:
        sending = asyncio.get_running_loop().create_task(self._pieces.put(None))
        await asyncio.wait([sending, upload], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([upload])
        sending.cancel()
        upload.exception()  # it is that of the abandonment, or of the service, which cannot be asked to do more

    async def _send(self, piece: bytes) -> None:
        """Hands a piece to the upload, which begins with the first one. Raises FileStorageUnavailable if it failed."""
        if self._upload is None:
            self._upload = asyncio.get_running_loop().create_task(self._upload_parts())
        sending = asyncio.get_running_loop().create_task(self._pieces.put(piece))
        try:
            await asyncio.wait([sending, self._upload], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
        if self._upload.done() and not self._is_complete:
            await _translate(self._upload)

    async def _upload_whole(self, data: bytes) -> None:
        await obstore.put_async(self._store, self._blob_id, data, use_multipart=False)

    async def _upload_parts(self) -> None:
        await obstore.put_async(
            self._store,
            self._blob_id,
            self._iterate_pieces(),
            use_multipart=True,
            chunk_size=_PART_BYTES,
            max_concurrency=_PARTS_AT_ONCE,
        )

    async def _iterate_pieces(self) -> AsyncIterator[bytes]:
        while piece := await self._pieces.get():
            yield piece
        if piece is None:
            raise _Abandoned


def _open_store(settings: BucketSettings) -> S3Store:
    deadline = timedelta(seconds=settings.deadline_s)
    connect = timedelta(seconds=min(_CONNECT_S, settings.deadline_s))
    keys: dict[str, Any] = {}
    if settings.access_key is not None and settings.secret_key is not None:
        keys["access_key_id"] = settings.access_key.get_secret_value()
        keys["secret_access_key"] = settings.secret_key.get_secret_value()
    if settings.region is not None:
        keys["region"] = settings.region
    if settings.endpoint is not None:
        keys |= {"endpoint": settings.endpoint, "virtual_hosted_style_request": False}
    return S3Store(
        settings.bucket,
        prefix=settings.prefix or None,
        client_options={
            "allow_http": (settings.endpoint or "").startswith("http://"),
            "timeout": deadline,
            "connect_timeout": connect,
        },
        retry_config={"max_retries": _MAX_RETRIES, "retry_timeout": deadline},
        **keys,
    )


async def _translate(request: Awaitable[_ResultT]) -> _ResultT:
    """Returns the result of a request to the service. Raises FileStorageUnavailable.

    The reason is the kind of the error: its text has the names of objects, and whatever the service wrote.
    """
    try:
        return await request
    except (BaseError, OSError) as error:
        raise FileStorageUnavailable(f"the bucket: {type(error).__name__}") from error


def _write_piece(piece: bytes, copy: IO[bytes]) -> None:
    copy.write(piece)


def _open_for_reading(copy: IO[bytes]) -> IO[bytes]:
    """Opens a copy anew, so that a child process can only read it, and from its beginning."""
    copy.flush()
    return open(copy.name, "rb", buffering=0)


async def _run_in_pool(call: Any) -> Any:
    """Returns what a function returns that works with a file. Raises FileStorageUnavailable."""
    try:
        return await _pools.get().run(call)
    except OSError as error:
        raise FileStorageUnavailable(error.strerror or type(error).__name__) from error
