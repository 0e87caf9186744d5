"""The workers of one server tell each other their figures, each on a private socket in a folder that they share."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import orjson
import structlog

from gateway.metrics.samples import Sample, WorkerSamples

_ASK_S: Final = 2.0
"""Seconds in which another worker must answer. One that is stuck is left out, and `gateway_workers` says so."""

_MAX_BYTES: Final = 64 * 1024 * 1024

_READ_BYTES: Final = 256 * 1024

_SUFFIX: Final = ".sock"

_log = structlog.get_logger(__name__)


class WorkerSockets:
    """The sockets of all workers. Without a folder there is only this worker."""

    def __init__(self, folder: Path | None, take_snapshot: Callable[[], Awaitable[WorkerSamples]]) -> None:
        self._folder = folder
        self._take_snapshot = take_snapshot

    @asynccontextmanager
    async def listen(self) -> AsyncGenerator[None, None]:
        """Answers the other workers until the block ends."""
        if self._folder is None:
            yield
            return
        path = self._own_path(self._folder)
        try:
            server = await asyncio.start_unix_server(self._answer, path)
        except OSError as error:  # models are served without metrics too
            _log.warning("worker_figures_missing", socket=path.name, cause=type(error).__name__)
            yield
            return
        try:
            yield
        finally:
            server.close()
            path.unlink(missing_ok=True)

    async def ask_all(self) -> list[WorkerSamples]:
        """Returns the figures of all workers that answer, the own ones first."""
        own = await self._take_snapshot()
        if self._folder is None:
            return [own]
        own_path = self._own_path(self._folder)
        others = [path for path in sorted(self._folder.glob(f"*{_SUFFIX}")) if path != own_path]
        answers = await asyncio.gather(*(_ask(path) for path in others))
        return [own, *(answer for answer in answers if answer is not None)]

    @staticmethod
    def _own_path(folder: Path) -> Path:
        return folder / f"{os.getpid()}{_SUFFIX}"

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            snapshot = await self._take_snapshot()
            writer.write(await asyncio.to_thread(orjson.dumps, snapshot, tuple))
            await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            return  # the worker that asked has not waited, or this one ends
        finally:
            writer.close()


async def _ask(path: Path) -> WorkerSamples | None:
    """Returns the figures of a worker; None if it does not answer, mostly because it has died."""
    try:
        async with asyncio.timeout(_ASK_S):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                content = await _read_whole(reader)
            finally:
                writer.close()
        return await asyncio.to_thread(_parse_snapshot, content)
    except (FileNotFoundError, ConnectionRefusedError):
        return None  # the worker was killed, so it could not remove its socket
    except (OSError, TimeoutError, ValueError) as error:
        _log.warning("worker_figures_missing", socket=path.name, cause=type(error).__name__)
        return None


async def _read_whole(reader: asyncio.StreamReader) -> bytes:
    """Returns all that is sent. Raises ValueError if it is too much."""
    content = bytearray()
    while read := await reader.read(_READ_BYTES):
        content += read
        if len(content) > _MAX_BYTES:
            raise ValueError("the figures of a worker are too long")
    return bytes(content)


def _parse_snapshot(content: bytes) -> WorkerSamples:
    return [
        Sample(family, tuple(labels), value, tuple(counts)) for family, labels, value, counts in orjson.loads(content)
    ]
