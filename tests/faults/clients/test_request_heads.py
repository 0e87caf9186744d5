"""Request heads that are endless, too large, too many or too slow, on real sockets and without a key."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.faults.client_view import CHAT, question
from tests.faults.config import LONG_S, StartGateway, config
from tests.faults.connection import Connection, connected
from tests.own_process import measuring_cost
from tests.polling import PROMPT_S
from tests.upstream import Hang, Reply, ScriptedUpstream
from tests.upstream.builders import SSE
from tests.upstream.faults import CHAT as ANSWER

KEYS = {"keys": [{"name": "alice", "key": "a-key-of-alice-that-nobody-else-has"}]}
HEAD_S = 1.0
FIRST_LINE = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\n"
FLOOD_BYTES = 64 * 1024 * 1024
PIECE = 64 * 1024


def start(gateway: StartGateway, **server: float) -> str:
    """Starts a gateway with keys, and returns its URL. Requests of these tests have no key."""
    return gateway({**config("http://127.0.0.1:9", "chat"), "auth": KEYS, "server": server}).v1


@pytest.fixture
def url(gateway: StartGateway) -> str:
    return start(gateway, head_s=LONG_S)


@pytest.fixture
def hurried_url(gateway: StartGateway) -> str:
    """The URL of a gateway with a deadline for heads that a test waits for."""
    return start(gateway, head_s=HEAD_S)


async def reply_of(client: Connection) -> tuple[int, dict, str]:
    """The status, the error and the whole head of the reply."""
    head = (await client.reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    return int(head.split()[1]), json.loads(await client.reader.readexactly(length))["error"], head


async def flood(client: Connection, pieces: Iterator[bytes], until: asyncio.Task[Any]) -> int:
    """Sends pieces as fast as they are taken, until the task is done. Returns the bytes sent."""
    sent = 0
    while not until.done() and sent < FLOOD_BYTES:
        client.writer.write(piece := next(pieces))
        sent += len(piece)
        with suppress(ConnectionError):
            await client.writer.drain()
        await asyncio.wait([until], timeout=0)
    return sent


def fields_without_end() -> Iterator[bytes]:
    while True:
        yield b"x-a: b\r\n" * (PIECE // 8)


def a_field_without_end() -> Iterator[bytes]:
    yield b"x-a: "
    while True:
        yield b"b" * PIECE


def a_name_without_end() -> Iterator[bytes]:
    while True:
        yield b"x" * PIECE


def a_target_without_end() -> Iterator[bytes]:
    while True:
        yield b"a" * PIECE


def empty_lines_without_end() -> Iterator[bytes]:
    while True:
        yield b"\r\n" * (PIECE // 2)


FLOODS: dict[str, tuple[bytes, Callable[[], Iterator[bytes]], int, str]] = {
    "fields": (FIRST_LINE, fields_without_end, 431, "server.max_head_fields"),
    "one field": (FIRST_LINE, a_field_without_end, 431, "server.max_head_kb"),
    "one name": (FIRST_LINE, a_name_without_end, 431, "server.max_head_kb"),
    "one target": (b"GET /", a_target_without_end, 414, "server.max_head_kb"),
    "empty lines": (b"", empty_lines_without_end, 431, "server.max_head_kb"),
}


@pytest.mark.parametrize(("begin", "pieces", "status", "limit"), FLOODS.values(), ids=FLOODS)
async def test_an_endless_head_is_refused_at_once(
    begin: bytes, pieces: Callable[[], Iterator[bytes]], status: int, limit: str, url: str
) -> None:
    async with connected(url) as client:
        with measuring_cost() as costs:
            client.writer.write(begin)
            reading = asyncio.create_task(reply_of(client))
            sent = await flood(client, pieces(), reading)
            got, error, head = await reading
    assert (got, error["type"]) == (status, "invalid_request_error")
    assert limit in error["message"]
    assert "connection: close" in head
    assert "x-request-id: req_" in head
    assert sent < FLOOD_BYTES / 8
    assert costs[0].processor_s < 1
    assert costs[0].peak_bytes < 64 * 1024 * 1024


@pytest.mark.parametrize(
    "sent", [b"", b"GET", FIRST_LINE, FIRST_LINE + b"x-a: b"], ids=["nothing", "a word", "a line", "half a field"]
)
async def test_a_head_that_does_not_arrive_in_time_ends_its_connection(sent: bytes, hurried_url: str) -> None:
    began = time.monotonic()
    async with connected(hurried_url) as client:
        client.writer.write(sent)
        if sent:
            status, error, _ = await reply_of(client)
            assert (status, error["code"]) == (408, "request_timeout")
            assert "server.head_s" in error["message"]
        else:
            assert await client.reader.read() == b""
        assert HEAD_S - 0.1 < time.monotonic() - began < HEAD_S + PROMPT_S


async def test_a_head_in_small_pieces_is_refused_despite_steady_progress(hurried_url: str) -> None:
    async with connected(hurried_url) as client:
        client.writer.write(FIRST_LINE)
        reading = asyncio.create_task(reply_of(client))
        async with asyncio.timeout(HEAD_S + PROMPT_S):
            while not reading.done():
                client.writer.write(b"x")
                await asyncio.wait([reading], timeout=0.02)
        status, error, _ = await reading
    assert (status, error["code"]) == (408, "request_timeout")


async def test_the_head_of_a_later_request_has_the_same_limits(hurried_url: str) -> None:
    async with connected(hurried_url) as client:
        client.writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert await client.status() == 200
        client.writer.write(FIRST_LINE)
        assert b"HTTP/1.1 408" in await client.reader.read()


EARLIER = {
    "of a whole request": (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", b"", 200),
    "of a late body": (FIRST_LINE + b"content-length: 5\r\n\r\n", b"hello", 401),
}


@pytest.mark.parametrize(("request_bytes", "late", "status"), EARLIER.values(), ids=EARLIER)
async def test_a_head_that_begins_in_the_read_of_an_earlier_request_has_its_deadline(
    request_bytes: bytes, late: bytes, status: int, hurried_url: str
) -> None:
    async with connected(hurried_url) as client:
        client.writer.write(request_bytes if late else request_bytes + b"G")
        assert await client.status() == status
        if late:
            client.writer.write(late + b"G")
        assert b"HTTP/1.1 408" in await client.reader.read()


@pytest.mark.parametrize(("count", "status"), [(99, 401), (100, 431)], ids=["a hundred", "one more"])
async def test_the_fields_are_counted(count: int, status: int, url: str) -> None:
    async with connected(url) as client:
        client.writer.write(FIRST_LINE + b"x-a: b\r\n" * count + b"\r\n")
        assert await client.status() == status


@pytest.mark.parametrize(("value", "status"), [(60_000, 401), (70_000, 431)], ids=["below", "above"])
@pytest.mark.parametrize("pieces", [1, 50], ids=["at once", "in pieces"])
async def test_the_bytes_are_counted(value: int, status: int, pieces: int, url: str) -> None:
    head = FIRST_LINE + b"x-a: " + b"b" * value + b"\r\n\r\n"
    async with connected(url) as client:
        for start in range(0, len(head), size := len(head) // pieces + 1):
            client.writer.write(head[start : start + size])
            await client.writer.drain()
        assert await client.status() == status


async def test_a_trailer_without_end_ends_its_request(gateway: StartGateway) -> None:
    url = gateway(config("http://127.0.0.1:9", "chat")).v1
    async with connected(url) as client:
        client.writer.write(FIRST_LINE + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nx-a: ")
        reading = asyncio.create_task(client.reader.read())
        assert await flood(client, a_name_without_end(), reading) < FLOOD_BYTES / 8
        with suppress(ConnectionError):
            assert await reading == b""


async def test_a_trailer_is_no_header(url: str) -> None:
    body = b"2\r\n{}\r\n0\r\nauthorization: Bearer a-key-of-alice-that-nobody-else-has\r\n\r\n"
    async with connected(url) as client:
        client.writer.write(FIRST_LINE + b"transfer-encoding: chunked\r\n\r\n" + body)
        assert await client.status() == 401


async def test_a_second_head_over_the_limit_leaves_the_reply_before_it_as_it_is(gateway: StartGateway) -> None:
    """Otherwise its refusal would be within the first reply."""
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[ANSWER.opening, Hang()]))
        url = gateway(config(upstream.url, "chat")).v1
        async with connected(url) as client:
            client.post(CHAT, question(CHAT, stream=True))
            await client.read_to(b"upstream")
            client.writer.write(FIRST_LINE + b"x-a: b\r\n" * 200)
            assert b"HTTP/1.1" not in await client.reader.read()


BODY = b"content-length: 2\r\n\r\n{}"
HOST = b"host: localhost\r\n"
UPGRADE = b"GET /v1/responses HTTP/1.1\r\n" + HOST + b"connection: upgrade\r\nupgrade: websocket\r\n"
VERSION = b"sec-websocket-version: 13\r\n"
KEY = b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
MALFORMED: dict[str, tuple[bytes, str]] = {
    "no HTTP": (b"what?\r\n\r\n", "first line"),
    "the beginning of TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32), "first line"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "first line"),
    "an unknown method": (b"ASK / HTTP/1.1\r\n" + HOST + BODY, "first line"),
    "no target": (b"POST  HTTP/1.1\r\n" + HOST + BODY, "first line"),
    "a tunnel": (b"CONNECT other.example:443 HTTP/1.1\r\n" + HOST + b"\r\n", "first line"),
    "an address without a host": (b"GET http:// HTTP/1.1\r\n" + HOST + b"\r\n", "first line"),
    "a target that is not ASCII": ("GET /gr\u00f6\u00dfe HTTP/1.1\r\n".encode() + HOST + b"\r\n", "first line"),
    "a header without a name": (FIRST_LINE + b": x\r\n" + BODY, "headers"),
    "a header with a null byte": (FIRST_LINE + b"x-a: \x00\r\n" + BODY, "headers"),
    "a space before the colon": (FIRST_LINE + b"x-a : b\r\n" + BODY, "headers"),
    "two lengths": (FIRST_LINE + b"content-length: 3\r\n" + BODY, "length"),
    "a length that is no number": (FIRST_LINE + b"content-length: two\r\n\r\n{}", "length"),
    "a length and chunks": (FIRST_LINE + b"transfer-encoding: chunked\r\n" + BODY, "length"),
    "a WebSocket without a version": (UPGRADE + KEY + b"\r\n", "Sec-WebSocket-Version"),
    "a WebSocket of an old version": (UPGRADE + KEY + b"sec-websocket-version: 8\r\n\r\n", "Sec-WebSocket-Version"),
    "a WebSocket without a key": (UPGRADE + VERSION + b"\r\n", "Sec-WebSocket-Key"),
    "a WebSocket with a short key": (UPGRADE + VERSION + b"sec-websocket-key: a2V5\r\n\r\n", "Sec-WebSocket-Key"),
    "a WebSocket with two keys": (UPGRADE + VERSION + KEY * 2 + b"\r\n", "Sec-WebSocket-Key"),
    "no host": (b"POST /v1/responses HTTP/1.1\r\n" + BODY, "exactly one header `Host`"),
    "two hosts": (FIRST_LINE + HOST + BODY, "exactly one header `Host`"),
    "two other hosts": (FIRST_LINE + b"Host: other.example\r\n" + BODY, "exactly one header `Host`"),
}


@pytest.mark.parametrize(("request_bytes", "words"), MALFORMED.values(), ids=MALFORMED)
async def test_what_is_no_http_gets_an_error_with_a_request_id(url: str, request_bytes: bytes, words: str) -> None:
    async with asyncio.timeout(60), connected(url) as client:
        client.writer.write(request_bytes)
        status, error, head = await reply_of(client)
        assert (status, error["code"], error["type"]) == (400, "malformed_request", "invalid_request_error")
        assert words in error["message"]
        assert "x-request-id: req_" in head
        assert "connection: close" in head
        assert await client.reader.read() == b""


async def test_a_client_of_http_1_0_needs_no_host(url: str) -> None:
    async with asyncio.timeout(60), connected(url) as client:
        client.writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b" 200 " in (await client.reader.readline())


async def test_a_chunk_without_a_size_is_refused(url: str) -> None:
    async with asyncio.timeout(60), connected(url) as client:
        key = b"authorization: Bearer " + KEYS["keys"][0]["key"].encode()
        client.writer.write(FIRST_LINE + key + b"\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n")
        status, error, _ = await reply_of(client)
        assert (status, error["code"]) == (400, "malformed_request")
