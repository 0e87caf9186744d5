"""Clients of HTTP/1.0, and clients that would rather speak HTTP/2, on the server's socket."""

import json
import socket
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest

from tests.serving import Gateway, serving

CONFIG: dict[str, Any] = {"providers": {"p": {"type": "scripted"}}, "models": {"demo": {"provider": "p"}}}
MESSAGES = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/responses": {"input": "Hi"},
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 50},
    "/api/chat": {"messages": MESSAGES},
    "/generate": {"messages": MESSAGES},
}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with serving(CONFIG) as gateway:
        yield gateway


def talk(gateway: Gateway, request: bytes) -> tuple[bytes, bytes]:
    """The head, in lower case, and all that follows until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2])), timeout=20) as connection:
        connection.sendall(request)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    return head.lower(), body


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_of_http_1_0_gets_no_chunks(path: str, stream: bool, gateway: Gateway) -> None:
    content = json.dumps({"model": "demo", **BODIES[path], "stream": stream}).encode()
    # As nginx sends it by default. It closes its side only after the reply.
    request = b"POST %b HTTP/1.0\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
    head, body = talk(gateway, request % (path.encode(), len(content), content))
    assert head.startswith(b"http/1.1 200")
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    lines = body.split(b"\n") if stream else [body]
    for line in filter(None, lines):
        text = line.removeprefix(b"data: ")
        assert text.startswith((b"{", b"event: ", b"[DONE]")), line
    assert b"completed" in body or b"stop" in body or b"done" in body


@pytest.mark.parametrize("path", BODIES)
def test_a_body_that_is_sent_with_the_handshake_of_a_websocket_is_served(path: str, gateway: Gateway) -> None:
    content = json.dumps({"model": "demo", **BODIES[path], "stream": False}).encode()
    request = (
        b"POST %b HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nHost: localhost\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nContent-Length: %d\r\n\r\n%b"
    ) % (path.encode(), len(content), content)
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    head, rest = talk(gateway, request + last)
    assert head.startswith(b"http/1.1 200"), head + rest
    assert rest.endswith(b'{"status":"ok"}')


@pytest.mark.parametrize("in_chunks", [False, True])
@pytest.mark.parametrize("path", BODIES)
def test_a_client_that_offers_http_2_is_served(path: str, in_chunks: bool, gateway: Gateway) -> None:
    content = json.dumps({"model": "demo", **BODIES[path], "stream": False}).encode()
    # As Java's HttpClient sends it with the first request to a server.
    request = (
        b"POST %b HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nHost: localhost\r\n"
        b"HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAABgAGAAA\r\nUpgrade: h2c\r\n"
    ) % path.encode()
    framing = b"Content-Length: %d\r\n\r\n%b" % (len(content), content)
    if in_chunks:
        framing = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    head, rest = talk(gateway, request + framing + last)
    assert head.startswith(b"http/1.1 200"), head + rest
    assert b"connection: close" not in head
    assert rest.endswith(b'{"status":"ok"}')


@pytest.mark.parametrize("in_chunks", [False, True])
@pytest.mark.parametrize("order", list(permutations((b"Upgrade", b"HTTP2-Settings", b"keep-alive"))))
def test_several_connection_headers_are_one_list(order: tuple[bytes, ...], in_chunks: bool, gateway: Gateway) -> None:
    content = json.dumps({"model": "demo", "input": "Hi"}).encode()
    connection = b"".join(b"Connection: %b\r\n" % option for option in order)
    request = b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\n" + connection + b"Upgrade: h2c\r\n"
    framing = b"Content-Length: %d\r\n\r\n%b" % (len(content), content)
    if in_chunks:
        framing = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    head, rest = talk(gateway, request + framing + last)
    assert head.startswith(b"http/1.1 200"), head + rest
    assert rest.endswith(b'{"status":"ok"}')
