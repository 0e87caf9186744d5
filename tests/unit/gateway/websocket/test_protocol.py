"""The server's side of the protocol, against peers that keep to the letter of it only."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from websockets.frames import Frame, Opcode

from gateway.websocket.protocol import WebSocketProtocol

PATIENCE_S = 60.0
HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class App:
    """Accepts a connection and stores its messages. It sends `answer` once, after the first message."""

    def __init__(self, answer: str = "", *, accepts: bool = True) -> None:
        self.received: asyncio.Queue[Any] = asyncio.Queue()
        self.ended = asyncio.Event()
        self._answer = answer
        self._accepts = accepts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        if not self._accepts:
            await send({"type": "websocket.http.response.start", "status": 401, "headers": []})
            await send({"type": "websocket.http.response.body", "body": b"no"})
            self.ended.set()
            return
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] != "websocket.disconnect":
            self.received.put_nowait(message)
            if self._answer:
                await send({"type": "websocket.send", "text": self._answer})
        self.ended.set()


@asynccontextmanager
async def served(app: App, **options: Any) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the application, its handshake answered."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, ws=WebSocketProtocol, lifespan="off", log_config=None, **options)
    server = uvicorn.Server(config)
    serving = asyncio.get_running_loop().create_task(server._serve([listener]))
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    try:
        writer.write(HANDSHAKE)
        await reader.readuntil(b"\r\n\r\n")
        yield reader, writer
    finally:
        writer.close()
        server.should_exit = True
        async with asyncio.timeout(PATIENCE_S):
            await serving


def frame(opcode: Opcode, content: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, content, fin).serialize(mask=True)


async def test_a_message_in_many_pieces_is_one() -> None:
    app = App()
    async with served(app) as (_, writer):
        writer.write(frame(Opcode.TEXT, b"", fin=False))
        for _ in range(1000):
            writer.write(frame(Opcode.CONT, b"", fin=False) + frame(Opcode.CONT, "ü".encode(), fin=False))
        writer.write(frame(Opcode.CONT, b"!"))
        async with asyncio.timeout(PATIENCE_S):
            assert (await app.received.get())["text"] == "ü" * 1000 + "!"


async def test_a_ping_is_answered() -> None:
    async with served(App()) as (reader, writer):
        writer.write(frame(Opcode.PING, b"here?"))
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.readexactly(7) == Frame(Opcode.PONG, b"here?").serialize(mask=False)


async def test_a_peer_that_answers_no_ping_and_reads_nothing_is_cut_off() -> None:
    app = App("x" * 8_000_000)
    async with served(app, ws_ping_interval=0.05, ws_ping_timeout=0.05) as (_, writer):
        writer.write(frame(Opcode.TEXT, b"go"))
        async with asyncio.timeout(PATIENCE_S):
            await app.ended.wait()


async def test_a_refused_handshake_is_no_error_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    app = App(accepts=False)
    with caplog.at_level(logging.WARNING):
        async with served(app) as (reader, _):
            async with asyncio.timeout(PATIENCE_S):
                assert await reader.read() == b"no"
    assert caplog.records == []


async def test_text_that_is_no_utf_8_closes_the_connection() -> None:
    async with served(App()) as (reader, writer):
        writer.write(frame(Opcode.TEXT, b"\xff"))
        async with asyncio.timeout(PATIENCE_S):
            closing = (1007).to_bytes(2, "big") + b"the message is not UTF-8 text: byte 0"
            assert await reader.read() == Frame(Opcode.CLOSE, closing).serialize(mask=False)
