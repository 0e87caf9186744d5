"""A client of the server's protocol, and requests in bytes."""

from typing import Any

from dataplane.http_protocol import CLIENT, ClientWriter

HEADERS = [(b"content-length", b"2"), (b"content-type", b"application/json")]
ASKED = b"POST /asked HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\n{}"


def client_of(scope: Any) -> ClientWriter:
    client: ClientWriter = scope[CLIENT]
    return client
