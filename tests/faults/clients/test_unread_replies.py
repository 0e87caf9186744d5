"""Clients that do not read the rest of a reply: their requests stay open, and after a time they are cut off."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest

from tests.faults.client_view import CHAT, question
from tests.faults.config import config
from tests.faults.connection import Connection
from tests.polling import wait_until
from tests.serving import Command, command
from tests.upstream import Exchange, ScriptedUpstream, chat_text

KEY = "a-key-of-a-client-0123456789"
UNREAD_S = 0.4
_SMALL = 4_096
_PIECE = 256 * 1024
_SIZE = 64 * _PIECE
"""More than the system takes from a server for a client: then bytes wait in the server."""


class Way(NamedTuple):
    """How a client asks, and ends its side."""

    version: str = "1.1"
    headers: str = ""
    stream: bool = False
    ends_its_side: bool = False


WAYS = {
    "a whole reply": Way(),
    "a whole reply that ends its connection": Way(headers="Connection: close\r\n"),
    "a whole reply of HTTP/1.0": Way(version="1.0"),
    "a whole reply to a client that has ended its side": Way(ends_its_side=True),
    "a stream": Way(stream=True),
    "a stream of HTTP/1.0": Way(version="1.0", stream=True),
}


async def answer(exchange: Exchange) -> None:
    """Replies with a long text to a request for `much`, and with a word to others."""
    pieces = ["x" * _PIECE] * (_SIZE // _PIECE) if exchange.request.json["model"] == "much" else ["a word"]
    await chat_text(*pieces)(exchange)


@contextmanager
def serving_one_request(upstream: ScriptedUpstream, folder: Path, **server: float) -> Iterator[Command]:
    """Serves a key that may have one open request."""
    upstream.script(answer)
    settings = {
        **config(upstream.url, "chat", server=server, max_line_mb=2 * _SIZE // _PIECE),
        "auth": {"keys": [{"name": "ada", "key": KEY}]},
        "limits": {"open_requests": 1},
        "store": {"url": None},
    }
    with command(settings, folder, forked=True) as running:
        yield running


@asynccontextmanager
async def asking_for_much(server: Command, way: Way) -> AsyncIterator[Connection]:
    """A client that has read the head of a long reply, and no more. What the system holds for it is little."""
    address = urlsplit(server.url)
    plug = socket.socket()
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
    plug.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plug, (address.hostname, address.port))
    connection = Connection(*await asyncio.open_connection(sock=plug, limit=_SMALL))
    body = json.dumps(question(CHAT, stream=way.stream) | {"model": "much"})
    head = (
        f"POST /v1{CHAT} HTTP/{way.version}\r\nHost: localhost\r\nContent-Type: application/json\r\n{way.headers}"
        f"Authorization: Bearer {KEY}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection.writer.write(head.encode() + body.encode())
    if way.ends_its_side:
        connection.writer.write_eof()
    try:
        while (status := await connection.status()) == 102:  # a probe whether the client is there
            continue
        assert status == 200
        yield connection
    finally:
        await connection.leave()


async def ask(server: Command) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        body = question(CHAT, stream=False) | {"model": "little"}
        return await client.post(f"{server.v1}{CHAT}", json=body, headers={"authorization": f"Bearer {KEY}"})


async def is_served(server: Command) -> bool:
    return (await ask(server)).status_code == 200


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_client_that_reads_nothing_is_cut_off(way: Way, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        with serving_one_request(upstream, tmp_path, unread_s=UNREAD_S, idle_s=1) as server:
            async with asking_for_much(server, way) as client:
                await wait_until(lambda: "client_stalled" in server.read_log())
                (line,) = [line for line in server.read_log_lines() if line["message"] == "client_stalled"]
                assert line["unread_bytes"] > 0
                await wait_until(is_served, server)
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await client.reader.readexactly(_SIZE)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_request_is_open_until_its_client_has_read_the_reply(way: Way, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        with serving_one_request(upstream, tmp_path) as server:
            async with asking_for_much(server, way) as client:
                assert (await ask(server)).json()["error"]["code"] == "too_many_open_requests"
                assert len(await client.reader.readexactly(_SIZE)) == _SIZE
                await wait_until(is_served, server)
        assert "client_stalled" not in server.read_log()
