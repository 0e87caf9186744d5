"""Accepts WebSocket handshakes: checks the API key and the number of connections.

Refusals are HTTP replies.
"""

from contextlib import suppress
from functools import partial

import structlog
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from gateway.config.settings import Settings
from gateway.errors import ShuttingDown, TooManyConnections, TooManySockets
from gateway.http.headers import headers_of
from gateway.http.middleware import BODY_SEND
from gateway.http.owner_counts import OwnerCounts
from gateway.replies.endpoints import Endpoint
from gateway.service.service import Service, is_strict
from gateway.websocket.connection import ConnectionLimits, WebSocketConnection
from gateway.websocket.turn import ConnectionClient

_log = structlog.get_logger(__name__)

_CLOSE_INTERNAL_ERROR = 1011
"""Close code of RFC 6455 for an internal error of the server."""


class WebSocketApp:
    """The ASGI application for `GET /v1/responses` with an Upgrade. One per server process.

    `endpoint` is that of the Responses API. Before it accepts a connection, it raises errors that
    `gateway/error_replies.py` renders as HTTP replies.
    """

    def __init__(self, service: Service, endpoint: Endpoint, settings: Settings) -> None:
        self._service = service
        self._endpoint = endpoint
        self._drain = service.drain
        self._open_count = 0
        self._max_connections = settings.websocket.max_connections
        self._owner_counts = OwnerCounts(settings.limits.websockets, TooManySockets)
        self._limits = ConnectionLimits(
            body=service.body_limits,
            max_s=settings.websocket.max_minutes * 60,
            hold_s=settings.server.keepalive_s,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handshake = HTTPConnection(scope)
        principal = self._service.authenticate(handshake)
        strict = is_strict(headers_of(scope))
        if self._drain.begun:
            raise ShuttingDown
        if self._open_count >= self._max_connections:
            raise TooManyConnections(
                f"there are {self._open_count} WebSocket connections already: use POST /v1/responses instead"
            )
        limits = principal.limits
        self._owner_counts.add(principal.owner, None if limits is None else limits.websockets)
        self._open_count += 1
        try:
            await receive()
            await send({"type": "websocket.accept"})
            send_direct = scope.get(BODY_SEND, send)
            connection = WebSocketConnection(
                self._service,
                self._endpoint,
                ConnectionClient(principal, scope, strict, partial(self._service.authenticate, handshake)),
                self._limits,
                receive,
                send_direct,
            )
            try:
                await connection.serve()
            except Exception:  # the client gets a close code; an exception would only drop the connection
                _log.exception("websocket_failed")
                with suppress(OSError):
                    await send({"type": "websocket.close", "code": _CLOSE_INTERNAL_ERROR})
        finally:
            self._open_count -= 1
            self._owner_counts.remove(principal.owner)
