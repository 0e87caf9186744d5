"""Parses files for one event loop: sends them to the parser server, and reads what its children write."""

import asyncio
import socket
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing, suppress
from typing import Final

import orjson
import structlog

from gateway.retrieval.chunks import ChunkSizes
from gateway.retrieval.parsing.parsed_text import (
    IndexedChunk,
    ParsingBounds,
    ReadingMethod,
    ServiceNeeded,
    UnreadableFile,
)

_log = structlog.get_logger(__name__)

_MAX_FRAME: Final = 4_194_304
_READ_BYTES: Final = 65_536
_BYTES_PER_CHARACTER: Final = 64
"""The most bytes that a child may write for each character of a text. The text and the terms of its overlapping chunks
need fewer."""

_GRACE_S: Final = 10.0
"""Seconds beyond the time of a child, in which the parser server starts and the child is ended."""


class ParserPool:
    """The parser server of one event loop, which starts with the first file, and the turns of its children.

    `method` is who reads the files.
    """

    def __init__(self, workers: int, method: ReadingMethod = "builtin") -> None:
        self._method: Final[ReadingMethod] = method
        self._turns = asyncio.Semaphore(workers)
        self._starting = asyncio.Lock()
        self._server: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None

    async def parse(
        self, file: int, name: str, bounds: ParsingBounds, sizes: ChunkSizes
    ) -> AsyncGenerator[str | list[IndexedChunk], None]:
        """Yields the pieces of the text of a file, and then its chunks in order, some at a time.

        `file` is a descriptor for reading, at its beginning; it remains the caller's. The time that the caller takes
        for a part does not count. Raises UnreadableFile if the file has no text, or if reading it exceeds a limit:
        discard everything that was yielded before. Raises ServiceNeeded if a parser service is to convert it first.
        """
        async with self._turns, aclosing(self._read_child(file, name, bounds, sizes)) as parts:
            left_s = bounds.seconds + _GRACE_S
            while True:
                begun = time.monotonic()
                try:
                    async with asyncio.timeout(left_s):
                        part = await anext(parts, None)
                except TimeoutError:
                    raise _build_bounds_fault() from None
                if part is None:
                    return
                left_s -= time.monotonic() - begun
                yield part

    async def close(self) -> None:
        """Ends the parser server. Its children end with it."""
        server, self._server = self._server, None
        if self._control is not None:
            self._control.close()
            self._control = None
        if server is not None and server.returncode is None:
            with suppress(ProcessLookupError):
                server.kill()
            await server.wait()

    async def _read_child(
        self, file: int, name: str, bounds: ParsingBounds, sizes: ChunkSizes
    ) -> AsyncGenerator[str | list[IndexedChunk], None]:
        """Sends a file to the parser server, and yields what its child writes into a socket."""
        control = await self._start_server()
        # Not a pipe: uvloop closes the descriptor of a pipe twice if its connection is cancelled, and the second time
        # it may be another file's.
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:  # then only the child can write, so the socket ends with the child
                ours.setblocking(False)
                request = {"name": name, "method": self._method, "bounds": list(bounds), "sizes": list(sizes)}
                try:
                    socket.send_fds(control, [orjson.dumps(request) + b"\n"], [file, theirs.fileno()])
                except OSError:
                    if control is self._control:
                        await self.close()
                    raise _build_server_fault() from None
            received = _Received(ours)
            # A file may make its child misbehave, so the frames that a child sends are limited too.
            left = bounds.characters * _BYTES_PER_CHARACTER + _MAX_FRAME
            while True:
                await asyncio.sleep(0)  # asyncio receives what has arrived without a turn of its loop
                try:
                    size = int.from_bytes(await received.take(4), "big")
                    left -= size
                    if size > _MAX_FRAME or left < 0:
                        raise UnreadableFile("invalid_file", "The file has too much text.")
                    frame = orjson.loads(await received.take(size))
                except ConnectionError:
                    raise self._explain_end(control) from None
                if "text" in frame:
                    yield frame["text"]
                elif "chunks" in frame:
                    yield [IndexedChunk(*chunk) for chunk in frame["chunks"]]
                elif "service" in frame:
                    raise ServiceNeeded(frame["service"])
                elif "fault" in frame:
                    raise UnreadableFile(*frame["fault"])
                else:
                    return

    def _explain_end(self, control: socket.socket) -> UnreadableFile:
        """Returns why a child ended in the middle: it went beyond its bounds, or its parser server is gone.

        `control` is the socket to that server.
        """
        if _is_served(control):
            return _build_bounds_fault()
        _log.warning("parser_server_ended")
        return _build_server_fault()

    async def _start_server(self) -> socket.socket:
        async with self._starting:
            if self._control is not None and _is_served(self._control):
                return self._control
            await self.close()
            ours, theirs = socket.socketpair()
            with theirs, ExitStack() as unless_started:
                unless_started.enter_context(ours)
                self._server = await start_parser_server(theirs.fileno(), self._method)
                unless_started.pop_all()
            ours.setblocking(False)
            self._control = ours
            return ours


async def start_parser_server(control: int, method: ReadingMethod) -> asyncio.subprocess.Process:
    """Starts a parser server that serves requests on a socket. `control` is its descriptor."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gateway.retrieval.parsing.parser_server",
        str(control),
        method,
        pass_fds=[control],
        stdin=asyncio.subprocess.DEVNULL,
    )


class _Received:
    """The bytes that arrive at a socket, in portions of the sizes that are wanted."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._bytes = bytearray()

    async def take(self, size: int) -> bytes:
        """Returns the next `size` bytes. Raises ConnectionError if the socket ends before them."""
        loop = asyncio.get_running_loop()
        while len(self._bytes) < size:
            more = await loop.sock_recv(self._connection, _READ_BYTES)
            if not more:
                raise ConnectionResetError
            self._bytes += more
        portion = bytes(self._bytes[:size])
        del self._bytes[:size]
        return portion


def _is_served(control: socket.socket) -> bool:
    """Whether the parser server at the other end of a socket runs.

    The system closes the sockets of a process before its children end with it, and before its parent hears of its end.
    """
    try:
        return control.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def _build_server_fault() -> UnreadableFile:
    return UnreadableFile("server_error", "The file could not be read now: try again.")


def _build_bounds_fault() -> UnreadableFile:
    return UnreadableFile("invalid_file", "Reading the file takes too much time or memory.")
