"""A thousand clients that stop reading, before a server in a process of its own."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from tests.faults.client_view import CHAT, RESPONSES, ask, question
from tests.faults.config import config
from tests.faults.connection import Connection
from tests.serving import Command, command
from tests.upstream import Exchange, ScriptedUpstream, chat_text
from tests.upstream.builders import DONE, chat_chunk, data_frame

READERS = 1_000
PATHS = (RESPONSES, CHAT)
BOUND = 1024 * 1024
"""Bytes of the server's memory for each. What was read and is not translated is at most 256 KiB and a read, what is
translated and not sent 64 KiB and what one read makes; and the end of a response repeats its text so far."""

_TEXT = "x" * 8_000
_FRAMES = 400
_OPENING = 4_096
_SMALL, _LARGE = 4_096, 1024 * 1024
_END = b"data: [DONE]\n\n\r\n0\r\n\r\n"
_SEGMENT = 1_000
_AT_ONCE = 50
_SILENCE_S = 2.0
_PATIENCE_S = 60.0

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="without /proc nothing tells a process's memory"),
    pytest.mark.timeout(120),
]


class LongReply:
    """A script of an upstream: three megabytes of text for some requests, one word for all others."""

    def __init__(self) -> None:
        self.frames_sent = 0
        """Frames that the kernel took."""
        self._moved = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        if json.loads(exchange.request.content)["model"] != "much":
            await chat_text("a word")(exchange)
            return
        transport = cast("Any", exchange).transport
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SMALL)
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for frame in [*[data_frame(chat_chunk({"content": _TEXT}))] * _FRAMES, _end(), DONE]:
            await exchange.send(frame)
            self.frames_sent += 1
            self._moved.set()
        await exchange.flush()
        exchange.close()

    async def wait_until_stalled(self) -> None:
        """Returns when no client has read anything for a while."""
        while True:
            self._moved.clear()
            try:
                async with asyncio.timeout(_SILENCE_S):
                    await self._moved.wait()
            except TimeoutError:
                return


def _end() -> bytes:
    return data_frame(chat_chunk({}, finish_reason="stop"))


@asynccontextmanager
async def stalled(url: str, path: str, gate: asyncio.Semaphore) -> AsyncIterator[Connection]:
    """A reader that has read the beginning of its stream and no more. What the kernel holds for it is little, so that
    the rest is the server's."""
    address = urlsplit(url)
    plug = socket.socket()
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
    plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT)
    plug.setblocking(False)
    async with gate:
        await asyncio.get_running_loop().sock_connect(plug, (address.hostname, address.port))
        connection = Connection(*await asyncio.open_connection(sock=plug, limit=_SMALL))
        connection.post(path, question(path, stream=True) | {"model": "much"})
        assert await connection.status() == 200
        await connection.reader.readexactly(_OPENING)
    try:
        yield connection
    finally:
        await connection.leave()


def resident(server: Command) -> int:
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


async def rest(reader: Connection) -> bytes:
    """Returns the data that a reader has not read yet."""
    reader.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _LARGE)
    content = bytearray()
    while not content.endswith(_END):
        content += await reader.reader.read(_LARGE)
    return bytes(content)


async def others_are_served(server: Command) -> None:
    for path in PATHS:
        assert (await ask(server.v1, path, stream=True, model="little")).text == "a word"


async def test_a_thousand_clients_that_do_not_read_cost_bounded_memory_and_delay_no_others(
    tmp_path: Path,
) -> None:
    telling = LongReply()
    async with ScriptedUpstream() as upstream:
        upstream.script(telling)
        with command({"store": {"url": None}, **config(upstream.url, "chat")}, tmp_path) as server:
            await others_are_served(server)
            at_rest = resident(server)
            before = len(upstream.requests)
            gate = asyncio.Semaphore(_AT_ONCE)
            async with AsyncExitStack() as stack:
                paths = [PATHS[number % len(PATHS)] for number in range(READERS)]
                begun = [stack.enter_async_context(stalled(server.url, path, gate)) for path in paths]
                readers = await asyncio.gather(*begun)
                await telling.wait_until_stalled()
                assert telling.frames_sent < READERS * _FRAMES / 2, "the upstreams were not held back"
                assert (resident(server) - at_rest) / READERS < BOUND
                await others_are_served(server)
                for reader in readers[: len(PATHS)]:
                    assert (await rest(reader)).count(_TEXT.encode()) >= _FRAMES - 1, "what waited was lost"
                asked = upstream.requests[before : before + READERS]
            async with asyncio.timeout(_PATIENCE_S):
                await asyncio.gather(*(request.closed for request in asked))
            await others_are_served(server)
