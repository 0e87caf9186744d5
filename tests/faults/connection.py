"""A client's connection to the gateway, to be left or not read at will."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from tests.faults.client_view import Json

EXIT_S = 60
"""Seconds in which a server that was told to stop closes its port, and in which its process ends."""


class Connection:
    """One connection, on which all sent and received data is bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def post(self, path: str, body: Json | bytes, *, length: int | None = None) -> None:
        """Sends a request to `path` (without the /v1). `length` may declare more than is sent."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"POST /v1{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        size = len(content) if length is None else length
        self.writer.write(f"{head}Content-Length: {size}\r\n\r\n".encode() + content)

    async def status(self) -> int:
        """Reads the head of the reply. Returns its status."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1])

    async def read_to(self, mark: bytes) -> bytes:
        """Reads until these bytes have arrived."""
        return await self.reader.readuntil(mark)

    async def leave(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@asynccontextmanager
async def connected(base_url: str) -> AsyncIterator[Connection]:
    """Opens a connection, which is closed at the end of the block at the latest."""
    address = urlsplit(base_url)
    connection = Connection(*await asyncio.open_connection(address.hostname, address.port))
    try:
        yield connection
    finally:
        await connection.leave()


async def refuses_connections(base_url: str) -> None:
    """Returns once the server of `base_url` has closed its port."""
    async with asyncio.timeout(EXIT_S):
        while True:
            try:
                async with connected(base_url):
                    await asyncio.sleep(0)
            except ConnectionResetError:
                continue  # in the queue of the listener just as it closed
            except ConnectionRefusedError:
                return
