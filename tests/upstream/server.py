"""An HTTP/1.1 server on a real socket that sends exactly the bytes of its script.

It has no framework under it because a framework would repair what the tests want broken.
"""

import asyncio
import socket
import struct
import time
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Self, cast

from .builders import json_reply
from .request import Request
from .script import Script

_PREFIX = "/v1"
_LISTS = ("/models", "/api/tags")
_PATIENCE_S = 60.0
_TLS_HELLO = b"\x16"
_RST_ON_CLOSE = struct.pack("ii", 1, 0)


class ScriptedUpstream:
    """`async with ScriptedUpstream() as up:` listens on a free loopback port until the block ends.

    `up.url` is the base URL of its API (it ends in /v1), `up.requests` what arrived, in order. What it answers is
    said with `on` for one path and `script` for all others; without either it answers 404. An exception in a script
    is raised where the block ends. The gateway asks for a list of models when it wants to: without a script of its own
    there is none, and that it was asked for is not among the requests.
    """

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.accepted = 0
        self._port = port
        self._scripts: dict[str | None, deque[Script]] = {}
        self._connections: set[_Connection] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._tasks = await asyncio.TaskGroup().__aenter__()
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self), "127.0.0.1", self._port
        )
        self.port = int(self._server.sockets[0].getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}{_PREFIX}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        for connection in list(self._connections):
            connection.transport.abort()
        # What the block raised stays as it is, the group would wrap it; it cancels the block when a script fails.
        told = (kind, error, trace) if isinstance(error, asyncio.CancelledError) else (None, None, None)
        await self._tasks.__aexit__(*told)

    @property
    def open_connections(self) -> int:
        """Returns the number of open connections, including idle ones in a client's pool."""
        return len(self._connections)

    def drop_connections(self) -> None:
        """Breaks all connections, whatever is on its way."""
        for connection in self._connections:
            connection.transport.abort()

    def on(self, path: str, *scripts: Script) -> None:
        """Sets the replies to requests to `path` (without the /v1), in order. The last one is repeated."""
        self._scripts[path] = deque(scripts)

    def script(self, *scripts: Script) -> None:
        """Sets the replies to requests to all paths without a script of their own, as `on` does."""
        self._scripts[None] = deque(scripts)

    async def received(self, count: int) -> Request:
        """Waits for the request with this number, counted from 1. Raises TimeoutError if it does not arrive."""
        async with asyncio.timeout(_PATIENCE_S):
            while len(self.requests) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.requests[count - 1]

    async def serve_forever(self) -> None:
        """Serves until it is cancelled."""
        await self._server.serve_forever()

    def _take(self, request: Request) -> Script:
        path = request.path.partition("?")[0].removeprefix(_PREFIX)
        if path in _LISTS and path not in self._scripts:
            return json_reply({"error": {"message": "there is no list", "code": "not_scripted"}}, 404)
        self.requests.append(request)
        self._arrived.set()
        scripts = self._scripts.get(path) or self._scripts.get(None)
        if not scripts:
            return json_reply({"error": {"message": f"nothing is scripted for {path}", "code": "not_scripted"}}, 404)
        return scripts.popleft() if len(scripts) > 1 else scripts[0]


class _Connection(asyncio.Protocol):
    """One connection: reads requests, lets scripts reply, and notices when the peer leaves."""

    transport: asyncio.Transport
    request: Request

    def __init__(self, upstream: ScriptedUpstream) -> None:
        self._upstream = upstream
        self._buffer = bytearray()
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = False
        self._closed: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's own has no common class with it
        if not self._upstream._server.is_serving():  # it was accepted just before the end
            self.transport.abort()
            return
        # Writable then means that everything written is with the kernel.
        self.transport.set_write_buffer_limits(high=0)
        self._upstream.accepted += 1
        self._upstream._connections.add(self)
        task = self._upstream._tasks.create_task(self._serve())
        self._upstream._serving.add(task)
        task.add_done_callback(self._upstream._serving.discard)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._readable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._upstream._connections.discard(self)
        self._readable.set()
        self._writable.set()
        if not self._closed.done():
            self._closed.set_result(time.monotonic())

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def send(self, raw: bytes) -> None:
        await self._writable.wait()
        if self._lost or self.transport.is_closing():
            raise ConnectionResetError("the peer left")
        self.transport.write(raw)

    async def flush(self) -> None:
        await self._writable.wait()

    def reset(self) -> None:
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
        self.transport.abort()

    def close(self) -> None:
        self.transport.close()

    async def _serve(self) -> None:
        # A peer that leaves is what many tests are about; `Request.closed` records it.
        with suppress(ConnectionError):
            while not self.transport.is_closing():
                self.request = await self._read_request()
                await self._upstream._take(self.request)(self)
        self.transport.close()

    async def _read_request(self) -> Request:
        head = await self._read_until(b"\r\n\r\n")
        received_at = time.monotonic()
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("transfer-encoding") == "chunked":
            content = await self._read_chunks()
        else:
            content = await self._read_exactly(int(headers.get("content-length", 0)))
        return Request(method, path, headers, content, received_at, self._closed)

    async def _read_chunks(self) -> bytes:
        chunks: list[bytes] = []
        while size := int(await self._read_until(b"\r\n"), 16):
            chunks.append(await self._read_exactly(size))
            await self._read_until(b"\r\n")
        await self._read_until(b"\r\n")
        return b"".join(chunks)

    async def _read_until(self, mark: bytes) -> bytes:
        while (end := self._buffer.find(mark)) < 0:
            await self._read_more()
        taken = bytes(self._buffer[:end])
        del self._buffer[: end + len(mark)]
        return taken

    async def _read_exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            await self._read_more()
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    async def _read_more(self) -> None:
        if self._lost:
            raise ConnectionResetError("the peer left between requests")
        if self._buffer.startswith(_TLS_HELLO):
            raise ConnectionAbortedError("the peer speaks TLS")
        self._readable.clear()
        await self._readable.wait()


def closed_port() -> int:
    """A loopback port on which nothing listens, for connections that must be refused.

    A socket of this process has it as long as the process runs, so that no server of another test gets it.
    """
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    port = int(holder.getsockname()[1])
    holder.detach()
    return port
