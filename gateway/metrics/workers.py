"""Exchanges figures between the workers of one server, each of which listens on a private socket in a shared folder."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Generic, TypeVar

import orjson
import structlog

Value = TypeVar("Value")

_ASK_S: Final = 2.0
"""Seconds in which another worker must answer. One that is stuck is left out, and `gateway_workers` says so."""

_MAX_BYTES: Final = 64 * 1024 * 1024

_READ_BYTES: Final = 256 * 1024

_log = structlog.get_logger(__name__)


class WorkerSockets(Generic[Value]):
    """The sockets on which all workers offer one kind of value. Without a folder there is only this worker."""

    def __init__(
        self,
        folder: Path | None,
        kind: str,
        take_value: Callable[[], Awaitable[Value]],
        parse_value: Callable[[bytes], Value],
    ) -> None:
        """`take_value` returns that of this worker, and `parse_value` reads one from JSON.

        `kind` is part of the names of the sockets.
        """
        self._folder = folder
        self._suffix = f".{kind}.sock"
        self._take_value = take_value
        self._parse_value = parse_value

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

    async def ask_all(self) -> list[Value]:
        """Returns the values of all workers that answer, the own one first."""
        own = await self._take_value()
        if self._folder is None:
            return [own]
        own_path = self._own_path(self._folder)
        others = [path for path in sorted(self._folder.glob(f"*{self._suffix}")) if path != own_path]
        answers = await asyncio.gather(*(self._ask(path) for path in others))
        return [own, *(answer for answer in answers if answer is not None)]

    def _own_path(self, folder: Path) -> Path:
        return folder / f"{os.getpid()}{self._suffix}"

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            value = await self._take_value()
            writer.write(await asyncio.to_thread(orjson.dumps, value, tuple))
            await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            return  # the worker that asked has not waited, or this one ends
        finally:
            writer.close()

    async def _ask(self, path: Path) -> Value | None:
        """Returns the value of a worker; None if it does not answer, mostly because it has died."""
        try:
            async with asyncio.timeout(_ASK_S):
                reader, writer = await asyncio.open_unix_connection(path)
                try:
                    content = await _read_whole(reader)
                finally:
                    writer.close()
            return await asyncio.to_thread(self._parse_value, content)
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
