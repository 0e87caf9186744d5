"""Replies that bypass uvicorn's coroutines have the bytes and effects of replies through them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import permutations
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from dataplane import bounded_protocol, http_protocol
from dataplane.http_protocol import CLIENT, HttpProtocol
from gateway.http.headers import headers_of
from gateway.http.middleware import ReplySender, RequestMiddleware
from tests.unit.dataplane.protocol_client import ASKED, HEADERS, client_of

App = Callable[[Any, Any, Any], Awaitable[None]]
OWN_KEYS = (CLIENT, http_protocol.CONNECTION, bounded_protocol.HEADERS)
OLD = ASKED.replace(b"HTTP/1.1", b"HTTP/1.0").replace(b"host", b"connection: keep-alive\r\nhost")
ASKED_BY: dict[str, bytes] = {
    "a client that stays": ASKED,
    "a client that wants to be hung up on": ASKED.replace(b"host", b"connection: close\r\nhost"),
    "a client that asks before it sends": ASKED.replace(b"host", b"expect: 100-continue\r\nhost"),
}


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol


class Connection:
    """A connection to a server of `app`."""

    def __init__(self, app: App, protocol: type[HttpToolsProtocol] = HttpProtocol, **settings: Any) -> None:
        config = uvicorn.Config(app, http=protocol, lifespan="off", log_config=None, access_log=False, **settings)
        config.load()
        state = ServerState()
        state.default_headers = [(b"date", b"now")]
        self.transport = Transport()
        self._tasks = state.tasks
        self.protocol = protocol(config, state, {"made": "at start"}, asyncio.get_running_loop())
        self.transport.set_protocol(self.protocol)
        self.protocol.connection_made(self.transport)

    async def ask(self, request: bytes = ASKED) -> bytes:
        """Returns the replies to all pipelined requests."""
        return await self.ask_in_pieces([request])

    async def ask_in_pieces(self, pieces: Sequence[bytes]) -> bytes:
        """Returns the replies to all requests in these reads."""
        self.transport.written.clear()
        for piece in pieces:
            self.protocol.data_received(piece)
        while self._tasks:
            await asyncio.gather(*self._tasks)
        return b"".join(self.transport.written)

    def close(self) -> None:
        """Cancels everything that waits."""
        self.protocol.connection_lost(None)


async def send_whole(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": b"{}"})


async def answer_whole(scope: Any, receive: Any, send: Any) -> None:
    assert client_of(scope).send_reply(HEADERS, b"{}")


async def send_pieces(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for piece in (b"a piece", b"another"):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def write_pieces(scope: Any, receive: Any, send: Any) -> None:
    assert client_of(scope).begin_stream([], b"a piece", last=False)
    assert client_of(scope).write_piece(b"another")
    await send({"type": "http.response.body", "body": b""})


async def write_pieces_and_the_end(scope: Any, receive: Any, send: Any) -> None:
    assert client_of(scope).begin_stream([], b"a piece", last=False)
    assert client_of(scope).end_stream(b"another")


async def send_nothing_but_a_head(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def begin_with_nothing(scope: Any, receive: Any, send: Any) -> None:
    assert client_of(scope).begin_stream([], b"", last=True)


@pytest.mark.parametrize("request_bytes", ASKED_BY.values(), ids=ASKED_BY)
@pytest.mark.parametrize(
    ("app", "server"),
    [
        (answer_whole, send_whole),
        (write_pieces, send_pieces),
        (write_pieces_and_the_end, send_pieces),
        (begin_with_nothing, send_nothing_but_a_head),
    ],
    ids=["a whole reply", "one in pieces", "one to its end", "an empty one"],
)
async def test_a_reply_is_on_the_wire_as_the_server_would_send_it(app: App, server: App, request_bytes: bytes) -> None:
    ours, theirs = Connection(app), Connection(server)
    for _ in range(2):
        reply = await ours.ask(request_bytes)
        assert reply == await theirs.ask(request_bytes)
        assert reply.startswith(b"HTTP/1.1 200 OK\r\ndate: now\r\n")
        assert ours.transport.closed == theirs.transport.closed == (b"connection: close" in reply)
        if ours.transport.closed:
            break
    for connection in (ours, theirs):
        connection.close()


async def test_a_whole_reply_is_one_write() -> None:
    connection = Connection(answer_whole)
    await connection.ask()
    assert len(connection.transport.written) == 1
    connection.close()


async def test_a_pipelined_request_is_answered_and_watched_in_its_turn() -> None:
    left: list[int] = []
    asked = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal asked
        asked += 1
        mine = asked
        client_of(scope).watch(lambda: left.append(mine))
        if mine == 2:
            connection.protocol.connection_lost(None)
        else:
            assert client_of(scope).send_reply(HEADERS, b"{}")
            client_of(scope).on_leave = None

    connection = Connection(app)
    assert (await connection.ask(ASKED + ASKED)).count(b"200 OK") == 1
    assert (asked, left) == (2, [2])


async def test_nothing_is_written_to_a_client_that_left_with_a_pipelined_request() -> None:
    output: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        client = client_of(scope)
        output.append(client.begin_stream([], b"a piece", last=False))
        connection.protocol.connection_lost(None)
        output.extend([client.ready, client.write_piece(b"another"), client.end_stream(b"")])

    connection = Connection(app)
    assert b"another" not in await connection.ask(ASKED + ASKED)
    assert output == [True, False, False, False]


@pytest.mark.parametrize("request_bytes", [ASKED, OLD], ids=["HTTP/1.1", "HTTP/1.0"])
@pytest.mark.parametrize("pipelined_count", [0, 1, 2])
@pytest.mark.parametrize("app_output", [send_whole, send_pieces], ids=["a whole reply", "one in pieces"])
async def test_a_request_whose_client_left_ends_quietly(
    app_output: App, pipelined_count: int, request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    messages: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        connection.transport.close()
        connection.protocol.connection_lost(None)
        messages.extend([(await receive())["type"], (await receive())["type"]])
        await app_output(scope, receive, send)

    connection = Connection(app)
    async with asyncio.timeout(60):
        assert await connection.ask(request_bytes + ASKED * pipelined_count) == b""
    assert messages == ["http.disconnect"] * 2
    assert caplog.records == []


NO_REQUESTS: dict[str, bytes] = {
    "the rest of a body that is longer than declared": b"}\n",
    "a body without a length": b'{"input": "x"}',
    "null bytes": bytes(9),
    "a head that is malformed": b"GET / HTTP/1.1\r\nhost: here\r\na : b\r\n\r\n",
    "a head without a host": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("rest", NO_REQUESTS.values(), ids=NO_REQUESTS)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("app", [send_whole, answer_whole], ids=["through the server", "in one write"])
@pytest.mark.parametrize("is_split", [False, True], ids=["in one read", "in two reads"])
async def test_requests_are_answered_before_what_follows_them_ends_the_connection(
    app: App, count: int, rest: bytes, is_split: bool
) -> None:
    connection = Connection(app)
    reply = await connection.ask_in_pieces([ASKED * count, rest, rest] if is_split else [ASKED * count + rest, rest])
    assert reply.count(b"HTTP/1.1") == reply.count(b"HTTP/1.1 200 OK") == count
    assert reply.count(b"connection: close") == 1
    assert b"connection: close" in reply[reply.rindex(b"HTTP/1.1") :]
    assert connection.transport.closed
    connection.close()


async def test_a_client_that_floods_what_is_no_request_is_not_waited_for() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        while not connection.transport.closed:
            connection.protocol.data_received(bytes(2**20))
            flooded.append(1)

    flooded: list[int] = []
    connection = Connection(app)
    connection.protocol.data_received(ASKED + b"?")
    await asyncio.sleep(0)
    assert 1 < len(flooded) < 9
    connection.close()


REFUSED: dict[str, tuple[bytes, list[tuple[bytes, bytes]]]] = {
    "a line break in a header": (ASKED, [*HEADERS, (b"a", b"b\r\nset-cookie: c")]),
    "a reply to HEAD": (b"HEAD / HTTP/1.1\r\nhost: here\r\n\r\n", HEADERS),
}


@pytest.mark.parametrize(("request_bytes", "headers"), REFUSED.values(), ids=REFUSED)
async def test_other_replies_are_left_to_uvicorn(request_bytes: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    output: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        output.append(client_of(scope).send_reply(headers, b"{}"))
        output.append(client_of(scope).begin_stream(headers, b"{}", last=True))
        assert connection.transport.written == []
        await send_whole(scope, receive, send)

    connection = Connection(app)
    reply = await connection.ask(request_bytes)
    assert output == [False, False]
    assert reply.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"set-cookie" not in reply
    connection.close()


async def test_a_reply_is_not_begun_twice() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert client_of(scope).send_reply(HEADERS, b"{}")
        assert not client_of(scope).send_reply(HEADERS, b"{}")

    connection = Connection(app)
    assert (await connection.ask()).count(b"200 OK") == 1
    connection.close()


async def test_a_reply_is_not_ended_twice() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert client_of(scope).begin_stream([], b"a piece", last=False)
        assert client_of(scope).end_stream(b"")
        assert not client_of(scope).end_stream(b"")

    connection = Connection(app)
    assert (await connection.ask()).count(b"0\r\n\r\n") == 1
    connection.close()


@pytest.mark.parametrize("stop", ["pause_writing", "connection_lost"])
async def test_nothing_is_written_directly_to_a_client_that_does_not_read(stop: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        client = client_of(scope)
        assert client.ready
        if stop == "pause_writing":
            connection.protocol.pause_writing()
        else:
            connection.protocol.connection_lost(None)
        assert not client.ready
        assert not client.write_piece(b"a piece")
        assert not client.end_stream(b"the last")
        assert not client.send_reply(HEADERS, b"{}")
        connection.protocol.resume_writing()
        assert client.ready == (stop == "pause_writing")
        await send_whole(scope, receive, send)

    connection = Connection(app)
    reply = await connection.ask()
    assert reply.count(b"200 OK") == (stop == "pause_writing")
    if stop == "pause_writing":
        connection.close()


async def test_a_received_body_is_read_once() -> None:
    output: list[bytes | None] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        output.extend([client_of(scope).take_body(1000), client_of(scope).take_body(1000)])
        await send_whole(scope, receive, send)

    connection = Connection(app)
    await connection.ask()
    assert output == [b"{}", None]
    connection.close()


@pytest.mark.parametrize(
    "request_bytes",
    [ASKED[:-1], ASKED_BY["a client that asks before it sends"]],
    ids=["a part of it", "it waits to be asked"],
)
async def test_an_incomplete_body_is_received(request_bytes: bytes) -> None:
    output: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        output.append(client_of(scope).take_body(1000))
        output.append((await receive())["body"])
        await send_whole(scope, receive, send)

    connection = Connection(app)
    await connection.ask(request_bytes)
    assert output[0] is None
    assert b"{}".startswith(output[1])
    connection.close()


async def test_replies_that_bypass_the_server_have_the_request_id() -> None:
    async def app(scope: Any, receive: Any, send: ReplySender) -> None:
        if scope["path"] == "/whole":
            assert send.send_reply(HEADERS, b"{}")
        else:
            assert send.begin_reply([], b"{}", last=True)
        assert send.status == 200

    connection = Connection(RequestMiddleware(app))  # type: ignore[arg-type]
    for path in (b"/whole", b"/pieces"):
        asked = ASKED.replace(b"/asked", path).replace(b"host", b"x-request-id: mine\r\nhost")
        assert b"\r\nx-request-id: mine\r\n" in await connection.ask(asked)
    connection.close()


TO_ANOTHER = b"connection: upgrade\r\nupgrade: h2c\r\nhost"
TO_SOCKET = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nhost"
)
IN_CHUNKS = b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"
HEADS: dict[str, bytes] = {
    **ASKED_BY,
    "an old client": ASKED.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "an old client that wants to stay": ASKED.replace(b"1.1\r\n", b"1.0\r\nconnection: keep-alive\r\n"),
    "nothing but a slash": ASKED.replace(b"/asked", b"/"),
    "a path with an id": ASKED.replace(b"/asked", b"/v1/responses/resp_0a-1.b"),
    "a path with a slash at its end": ASKED.replace(b"/asked", b"/v1/"),
    "a path with two slashes": ASKED.replace(b"/asked", b"//v1//responses"),
    "a query": ASKED.replace(b"/asked", b"/v1/responses?a=b%20c&d"),
    "an empty query": ASKED.replace(b"/asked", b"/v1?"),
    "a path to decode": ASKED.replace(b"/asked", b"/v1/a%2Fb%20c"),
    "a fragment": ASKED.replace(b"/asked", b"/v1#part"),
    "a whole address": ASKED.replace(b"/asked", b"http://here/v1/responses"),
    "about the server": b"OPTIONS * HTTP/1.1\r\nhost: here\r\n\r\n",
    "only a head": b"HEAD /v1 HTTP/1.1\r\nhost: here\r\n\r\n",
    "what has no body": b"GET /v1 HTTP/1.1\r\nhost: here\r\n\r\n",
    "headers in capitals": ASKED.replace(b"host: here", b"HOST: Here\r\nX-A:  b \r\nX-A: c"),
    "a body in chunks": ASKED.replace(b"content-length: 2\r\n\r\n{}", IN_CHUNKS),
    "a socket": b"GET /v1 HTTP/1.1\r\n" + TO_SOCKET + b": here\r\n\r\n",
    "a socket, by a client that says it has no body": (
        b"GET /v1 HTTP/1.1\r\n" + TO_SOCKET + b": here\r\ncontent-length: 0\r\n\r\n"
    ),
    "two in a row": ASKED + ASKED.replace(b"/asked", b"/v2"),
    "two in a row, the first the last": ASKED_BY["a client that wants to be hung up on"] + ASKED,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "below a path": {"root_path": "/below"},
    "with a limit": {"limit_concurrency": 1},
    "with room": {"limit_concurrency": 9},
}


H2C = (
    b"Connection: Upgrade, HTTP2-Settings, keep-alive\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
)
UPGRADES: dict[str, bytes] = {
    "to HTTP/2, with a body": ASKED.replace(b"host", H2C + b"host"),
    "to HTTP/2, with a body in chunks": ASKED.replace(b"content-length: 2\r\n\r\n{}", H2C + IN_CHUNKS),
    "to another protocol": ASKED.replace(b"host", TO_ANOTHER.replace(b"h2c", b"tls/1.2, h2c")),
    "to a WebSocket, which needs a GET (RFC 6455, section 4.1)": ASKED.replace(b"host", TO_SOCKET),
    "to a WebSocket, with a body in chunks": ASKED.replace(
        b"host: here\r\ncontent-length: 2\r\n\r\n{}", TO_SOCKET + b": here\r\n" + IN_CHUNKS
    ),
    "to a WebSocket, by a GET with a body": ASKED.replace(b"POST", b"GET").replace(b"host", TO_SOCKET),
    "to a WebSocket, by a GET with a body in chunks": ASKED.replace(b"POST", b"GET").replace(
        b"host: here\r\ncontent-length: 2\r\n\r\n{}", TO_SOCKET + b": here\r\n" + IN_CHUNKS
    ),
    **{
        f"named by several connection headers: {order}": ASKED.replace(
            b"host", b"".join(b"Connection: %b\r\n" % line for line in order) + b"Upgrade: h2c\r\nhost"
        )
        for order in permutations((b"Upgrade", b"HTTP2-Settings", b"keep-alive"))
    },
    "in several headers": ASKED.replace(b"host", b"connection: upgrade\r\nupgrade: a\r\nupgrade: b\r\nhost"),
}


@pytest.mark.parametrize("size", [1, 7, 10_000], ids=["byte by byte", "in pieces", "at once"])
@pytest.mark.parametrize("request_bytes", UPGRADES.values(), ids=UPGRADES)
async def test_an_upgrade_that_is_not_taken_is_ignored(request_bytes: bytes, size: int) -> None:
    """As RFC 9110, section 7.8, allows. Clients of the JVM send one with every request."""
    seen: list[tuple[list[tuple[bytes, bytes]], bytes]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message["body"]
            if not message["more_body"]:
                break
        seen.append((scope["headers"], body))
        await send_whole(scope, receive, send)

    connection = Connection(app, ws=Socket)
    whole = request_bytes + ASKED
    replies = await connection.ask_in_pieces([whole[start : start + size] for start in range(0, len(whole), size)])
    connection.close()
    assert replies.count(b"HTTP/1.1 200") == 2
    (headers, body), (_, next_body) = seen
    assert (body, next_body) == (b"{}", b"{}")
    assert not {name for name, _ in headers} & {b"upgrade", b"http2-settings"}
    assert b"upgrade" not in b",".join(value for name, value in headers if name == b"connection").lower()
    assert (b"host", b"here") in headers


@pytest.mark.parametrize("ask", ["a stream", "a whole reply", "by the framework", "in pieces by the framework"])
async def test_a_client_of_http_1_0_gets_a_body_that_ends_with_the_connection(ask: str) -> None:
    async def app(scope: Any, receive: Any, send: ReplySender) -> None:
        if ask == "a stream":
            assert not send.begin_reply([], b"{", last=False)
        if ask == "a whole reply":
            assert not send.send_reply(HEADERS, b"{}")
        pieces = [b"{}"] if ask == "by the framework" else [b"{", b"", b"}"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})

    connection = Connection(RequestMiddleware(app))  # type: ignore[arg-type]
    reply = await connection.ask(ASKED.replace(b"1.1\r\n", b"1.0\r\nconnection: keep-alive\r\n"))
    assert connection.transport.is_closing()
    head, _, body = reply.partition(b"\r\n\r\n")
    assert body == b"{}"
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head


class Socket(asyncio.Protocol):
    """A WebSocket server that sends the given messages."""

    def __init__(self, **_: Any) -> None:
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(b"a socket: " + data)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("request_bytes", HEADS.values(), ids=HEADS)
async def test_a_request_has_the_scope_that_uvicorn_gives_it(request_bytes: bytes, settings: dict[str, Any]) -> None:
    """Its head is read here, where it is a plain one: what uvicorn's next version does otherwise is to be seen."""
    seen: dict[type[HttpToolsProtocol], list[Any]] = {}
    for protocol in (HttpProtocol, HttpToolsProtocol):
        met = seen[protocol] = []

        async def app(scope: Any, receive: Any, send: Any, met: list[Any] = met) -> None:
            met.append({key: value for key, value in scope.items() if key not in OWN_KEYS})
            message = await receive()
            while message.get("more_body"):
                message = await receive()
            met.append(message)
            await send_whole(scope, receive, send)

        connection = Connection(app, protocol, ws=Socket, **settings)
        for _ in range(2):
            met += [await connection.ask(request_bytes), connection.transport.closed]
            if connection.transport.closed:
                break
        connection.close()
    assert seen[HttpProtocol] == seen[HttpToolsProtocol]


async def test_the_headers_of_a_request_are_in_its_scope_by_name() -> None:
    seen: list[tuple[Any, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope[bounded_protocol.HEADERS], headers_of({"headers": scope["headers"]})))
        await send_whole(scope, receive, send)

    repeated = ASKED.replace(b"\r\n", b"\r\nX-Key: first\r\nx-other: 1\r\nx-key: second\r\n", 1)
    for request in (ASKED, repeated):
        await Connection(app).ask(request)
    assert [by_server for by_server, _ in seen] == [here for _, here in seen]
    assert [by_server.get(b"x-key") for by_server, _ in seen] == [None, b"first"]
