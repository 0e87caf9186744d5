"""When connections of clients are closed for being idle."""

import asyncio
import os
import time
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from dataplane.http_protocol import HttpProtocol
from tests.unit.dataplane.protocol_client import ASKED, HEADERS, client_of

IDLE_S = 0.1


@pytest.mark.parametrize(
    "holds", [(0.0,), (0.0, 0.5), (0.0, 1.5, 0.0)], ids=["one request", "two", "one that takes longer than that"]
)
async def test_a_connection_is_closed_when_it_has_been_idle_for_its_time_since_its_last_reply(
    holds: tuple[float, ...],
) -> None:
    loop, left = asyncio.get_running_loop(), iter(holds)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        held = asyncio.Event()
        loop.call_later(next(left) * IDLE_S, held.set)
        await held.wait()
        assert client_of(scope).send_reply(HEADERS, b"{}")

    config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False)
    config.load()
    config.timeout_keep_alive = IDLE_S  # type: ignore[assignment]  # no test waits for whole seconds
    server = await loop.create_server(lambda: HttpProtocol(config, ServerState(), {}, loop), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for _ in holds:
            writer.write(ASKED)
            assert (await reader.readuntil(b"{}")).startswith(b"HTTP/1.1 200 OK\r\n")
        replied = loop.time()
        assert await reader.read() == b""
        assert loop.time() - replied > 0.9 * IDLE_S
        writer.close()
        await writer.wait_closed()


async def test_a_request_that_came_in_time_is_served_although_the_loop_was_busy() -> None:
    """The loop is blocked over the end of the idle time, while a request waits in the socket."""
    loop = asyncio.get_running_loop()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert client_of(scope).send_reply(HEADERS, b"{}")

    config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False)
    config.load()
    config.timeout_keep_alive = IDLE_S  # type: ignore[assignment]
    server = await loop.create_server(lambda: HttpProtocol(config, ServerState(), {}, loop), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for _ in range(3):
            writer.write(ASKED)
            assert (await reader.readuntil(b"{}")).startswith(b"HTTP/1.1 200 OK\r\n")
            connection = writer.get_extra_info("socket")
            os.write(connection.fileno(), ASKED)  # not through the loop, which sees nothing of it yet
            busy_until = time.perf_counter() + 2 * IDLE_S
            while time.perf_counter() < busy_until:
                pass
            assert (await reader.readuntil(b"{}")).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()
        await writer.wait_closed()
