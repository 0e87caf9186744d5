"""When connections of clients are closed for being idle."""

import asyncio
import os
import socket
import struct
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from dataplane.http_protocol import HttpProtocol
from tests.polling import wait_until
from tests.unit.dataplane.protocol_client import ASKED, HEADERS, client_of

IDLE_S = 0.4
"""Within it a client of the same loop sends its next request, on a busy machine too."""
LONG_S = 3600


@pytest.mark.parametrize(
    "holds", [(0.0,), (0.0, 0.5), (0.0, 1.5, 0.0)], ids=["one request", "two", "one that takes longer than that"]
)
async def test_a_connection_is_closed_when_it_has_been_idle_for_its_time_since_its_last_reply(
    holds: tuple[float, ...],
) -> None:
    loop, left = asyncio.get_running_loop(), iter(holds)
    replied = 0.0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal replied
        held = asyncio.Event()
        loop.call_later(next(left) * IDLE_S, held.set)
        await held.wait()
        replied = loop.time()
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
            threading.Event().wait(2 * IDLE_S)
            assert (await reader.readuntil(b"{}")).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def connections_to(
    protocol: type[HttpProtocol], app: Any, idle_s: float = LONG_S
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, ServerState]]:
    """Yields a client's connection to a server with this protocol, and the connections that the server knows."""
    loop, state = asyncio.get_running_loop(), ServerState()
    config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False)
    config.load()
    config.timeout_keep_alive = idle_s  # type: ignore[assignment]
    server = await loop.create_server(lambda: protocol(config, state, {}, loop), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await wait_until(lambda: state.connections)
        yield reader, writer, state
        writer.close()
        await writer.wait_closed()


def only_connection(state: ServerState) -> HttpProtocol:
    (connection,) = state.connections
    assert isinstance(connection, HttpProtocol)
    return connection


def make_protocol() -> type[HttpProtocol]:
    """Makes a class of its own, because a server that stops changes it."""
    return type("StoppingProtocol", (HttpProtocol,), {})


def stop(protocol: type[HttpProtocol], state: ServerState, last_idle_s: int) -> None:
    protocol.close_connections_after_replies(last_idle_s)
    for connection in state.connections:
        connection.shutdown()


async def reply_at_once(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": b"{}"})


async def test_an_idle_connection_is_closed_by_a_stop() -> None:
    protocol = make_protocol()
    async with connections_to(protocol, reply_at_once) as (reader, writer, state):
        writer.write(ASKED)
        await reader.readuntil(b"{}")
        stop(protocol, state, 0)
        assert await reader.read() == b""


async def test_a_request_that_has_arrived_before_a_stop_is_served_after_it() -> None:
    """It waits in the socket, on a new connection or on one that is idle, and the server has not read it yet."""
    for earlier_requests in (0, 1):
        protocol = make_protocol()
        async with connections_to(protocol, reply_at_once) as (reader, writer, state):
            for _ in range(earlier_requests):
                writer.write(ASKED)
                await reader.readuntil(b"{}")
            os.write(writer.get_extra_info("socket").fileno(), ASKED)
            stop(protocol, state, 0)
            reply = await reader.read()
            assert reply.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"connection: close" in reply


async def test_a_request_whose_head_has_begun_to_arrive_before_a_stop_is_served_after_it() -> None:
    for earlier_requests in (0, 1):
        protocol = make_protocol()
        async with connections_to(protocol, reply_at_once) as (reader, writer, state):
            for _ in range(earlier_requests):
                writer.write(ASKED)
                await reader.readuntil(b"{}")
            connection = only_connection(state)
            writer.write(ASKED[:20])
            await wait_until(partial(getattr, connection, "_in_head"))
            stop(protocol, state, 0)
            writer.write(ASKED[20:])
            reply = await reader.read()
            assert reply.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"connection: close" in reply


async def test_a_new_connection_without_a_request_is_closed_after_a_stop() -> None:
    protocol = make_protocol()
    async with connections_to(protocol, reply_at_once) as (reader, _, state):
        stop(protocol, state, 0)
        assert await reader.read() == b""


async def test_a_stop_waits_for_requests_of_clients_that_have_just_been_served() -> None:
    protocol = make_protocol()
    async with connections_to(protocol, reply_at_once) as (reader, writer, state):
        writer.write(ASKED)
        assert b"connection: close" not in await reader.readuntil(b"{}")
        connection = only_connection(state)
        stop(protocol, state, LONG_S)
        assert connection._overdue_since is None, "it is not closed as soon as what was sent is read"
        writer.write(ASKED)
        assert b"connection: close" in await reader.read()


async def test_a_stop_waits_for_the_next_request_after_a_reply_that_could_not_announce_the_end() -> None:
    """It waits for as long as the server says, and gives the connection up when the server says so."""
    protocol, go_on = make_protocol(), asyncio.Event()

    async def begin_reply(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
        await go_on.wait()
        await send({"type": "http.response.body", "body": b"}"})

    async with connections_to(protocol, begin_reply) as (reader, writer, state):
        writer.write(ASKED)
        await reader.readuntil(b"{")
        stop(protocol, state, LONG_S)
        go_on.set()
        await reader.readuntil(b"}")
        writer.write(ASKED)
        assert b"connection: close" in await reader.read()

    protocol = make_protocol()
    async with connections_to(protocol, begin_reply) as (reader, writer, state):
        go_on.clear()
        writer.write(ASKED)
        await reader.readuntil(b"{")
        stop(protocol, state, LONG_S)
        go_on.set()
        await reader.readuntil(b"}")
        stop(protocol, state, 0)
        assert await reader.read() == b""


async def test_only_connections_that_are_idle_for_longer_are_closed_for_others() -> None:
    async with connections_to(make_protocol(), reply_at_once) as (reader, writer, state):
        connection = only_connection(state)
        connection.close_if_idle(-1)
        assert not connection.transport.is_closing(), "a new connection is not idle"
        writer.write(ASKED)
        await reader.readuntil(b"{}")
        connection.close_if_idle(LONG_S)
        assert not connection.transport.is_closing()
        connection.close_if_idle(-1)
        assert await reader.read() == b""


@pytest.mark.parametrize("end", ["idle", "connection: close", "a failure in the middle"])
async def test_a_closed_connection_ends_although_its_client_leaves_a_little_unread(end: str) -> None:
    loop = asyncio.get_running_loop()
    stalls: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if end == "a failure in the middle":
            assert client_of(scope).begin_stream(HEADERS[1:], b"{}", last=False)
            raise ValueError
        assert client_of(scope).send_reply(HEADERS, b"{}")

    class LittleUnread(HttpProtocol):
        unread_s = 0.2

        def connection_made(self, transport: Any) -> None:
            super().connection_made(cast("Any", FilledTransport(transport)))

        def on_stall(self, unread_bytes: int) -> None:
            stalls.append(unread_bytes)

    config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False)
    config.load()
    config.timeout_keep_alive = 0.1 if end == "idle" else LONG_S  # type: ignore[assignment]
    server = await loop.create_server(lambda: LittleUnread(config, ServerState(), {}, loop), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(ASKED.replace(b"host: here", b"host: here\r\nconnection: close") if "close" in end else ASKED)
        await reader.readuntil(b"{}")
        with pytest.raises(ConnectionError):
            await reader.readuntil(b"never")
        writer.close()
    assert stalls == [FilledTransport.WAITING]


class FilledTransport:
    """A transport that always has a little that its client does not read."""

    WAITING = 1000

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_closing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def get_write_buffer_size(self) -> int:
        return self.WAITING

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Closes nothing: a real transport waits until all is sent."""
        self._is_closing = True

    def abort(self) -> None:
        plug = self._transport.get_extra_info("socket")
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()
