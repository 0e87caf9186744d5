"""What wraps every request: its id, one log line, and protocols that are not served."""

import time
from os import urandom

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.logs import note_only

_log = structlog.get_logger("gateway.access")

_MAX_ID_CHARS = 128

_WRAPPED = frozenset({"http", "websocket"})
_HEADS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
"""What a reply begins with; that to an accepted WebSocket has no status of its own."""

_SWITCHED = 101

BODY_SEND = "gateway.body_send"
"""Scope key of the server's own `send`: the body of a reply has nothing to pass through here, thousands of times."""


class Edge:
    """ASGI middleware. Takes a plain `x-request-id` from the client or makes one; every reply carries it.

    What inner layers note (client, model, provider) is in the log line; no body or header is.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in _WRAPPED:
            await self._app(scope, receive, send)
            return
        request_id = _given_id(scope) or f"req_{urandom(16).hex()}"
        began = time.perf_counter()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] in _HEADS:
                status = message.get("status", _SWITCHED)
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        scope[BODY_SEND] = send
        note_only(request_id=request_id)  # a request that waited in line begins within the one before it
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            elapsed_ms = round((time.perf_counter() - began) * 1000, 1)
            _log.info(
                "request", method=scope.get("method", "WEBSOCKET"), path=scope["path"], status=status, ms=elapsed_ms
            )
            note_only()


def _given_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text: str = value.decode("latin-1")
            return text if 0 < len(text) <= _MAX_ID_CHARS and text.isascii() and text.isprintable() else None
    return None
