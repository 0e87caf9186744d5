"""What wraps every request: its id, one log line, and protocols that are not served."""

import time
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dataplane.http_protocol import CLIENT, ClientWriter
from gateway.http.headers import headers_of
from gateway.logs import log_request, reset_fields
from providers.new_id import random_hex

_MAX_ID_CHARS = 128
_ID_DIGITS = 32

_SCOPE_TYPES = frozenset({"http", "websocket"})
_START_MESSAGES = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
"""What a reply begins with; that to an accepted WebSocket has no status of its own."""

_SWITCHING_PROTOCOLS = 101

BODY_SEND = "gateway.body_send"
"""Scope key of the server's own `send`: the body of a reply has nothing to pass through here, thousands of times."""


class ReplySender:
    """One request's `send`. Whoever is handed it, and not what another middleware made of it, may ask it for more."""

    __slots__ = ("_client", "_id_header", "_send", "status")

    def __init__(self, send: Send, client: ClientWriter | None, request_id: str) -> None:
        self._send = send
        self._client = client
        self._id_header = (b"x-request-id", request_id.encode())
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] in _START_MESSAGES:
            self.status = message.get("status", _SWITCHING_PROTOCOLS)
            message["headers"] = [*message.get("headers", ()), self._id_header]
        await self._send(message)

    def send_reply(self, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send a whole reply of status 200 in one write. `headers` tell its length. False: nothing was sent."""
        if self._client is None or not self._client.send_reply((*headers, self._id_header), body):
            return False
        self.status = 200
        return True

    def begin_reply(self, headers: Sequence[tuple[bytes, bytes]], piece: bytes, *, last: bool) -> bool:
        """The same with a reply of status 200 that has no length, and what there is of its body."""
        if self._client is None or not self._client.begin_stream((*headers, self._id_header), piece, last=last):
            return False
        self.status = 200
        return True


class RequestMiddleware:
    """ASGI middleware. Takes a plain `x-request-id` from the client or makes one; every reply carries it.

    What inner layers note (client, model, provider) is in the log line; no body or header is.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in _SCOPE_TYPES:
            await self._app(scope, receive, send)
            return
        client_id = headers_of(scope).get(b"x-request-id")
        request_id = (client_id and _parse_request_id(client_id)) or f"req_{random_hex()[:_ID_DIGITS]}"
        began = time.perf_counter_ns()
        reply_sender = ReplySender(send, scope.get(CLIENT), request_id)
        scope[BODY_SEND] = send
        reset_fields(request_id=request_id)  # a request that waited in line begins within the one before it
        try:
            await self._app(scope, receive, reply_sender)
        finally:
            # To a tenth; `round` takes a microsecond.
            elapsed_ms = (time.perf_counter_ns() - began + 50_000) // 100_000 / 10
            log_request(scope.get("method", "WEBSOCKET"), scope["path"], reply_sender.status, elapsed_ms)
            # Both lead back to the scope: without them a request leaves nothing for the collector to look for.
            del scope[BODY_SEND]
            scope.pop(CLIENT, None)


def _parse_request_id(given: bytes) -> str | None:
    if len(given) > _MAX_ID_CHARS or not given.isascii():
        return None
    text = given.decode()
    return text if text.isprintable() else None
