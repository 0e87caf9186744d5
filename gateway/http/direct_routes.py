"""Dispatches the hot routes before FastAPI does, whose own dispatch costs more than translating a short reply."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import structlog
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.errors import GatewayError, NotFound
from gateway.http.error_forms import ErrorReplyBuilder
from gateway.http.guard import CLIENT_LEFT, ClientDisconnected
from gateway.http.json_reply import JsonReply
from gateway.http.owner_counts import ON_END
from providers.errors import ProviderError
from translation.errors import TranslationError

Handler: TypeAlias = Callable[[Scope, Receive], Awaitable[Response]]

_STREAM_PARAMETER: Final = re.compile(rb"(?:^|(?<=&))stream=[^&]*&?")

_log = structlog.get_logger(__name__)


class DirectRouter:
    """ASGI middleware. Dispatches `POST` to `handlers` and WebSockets to `sockets` by exact path, all else to `app`.

    `app` gets a `HEAD` as the `GET` of the same path.

    The paths of `handlers` are also routes of `app`, so that /openapi.json documents them. A WebSocket to an unknown
    path is refused with 404. `build_error_reply` returns the reply to a failure.
    """

    def __init__(
        self,
        app: ASGIApp,
        handlers: Mapping[str, Handler],
        sockets: Mapping[str, ASGIApp],
        build_error_reply: ErrorReplyBuilder,
    ) -> None:
        self._app = app
        self._build_error_reply = build_error_reply
        self._handlers = handlers
        self._sockets = sockets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self._handlers.get(scope["path"]) if scope.get("method") == "POST" else None
        if handler is None:
            await self._serve_other(scope, receive, send)
            return
        try:
            response = await handler(scope, receive)
            if not (isinstance(response, JsonReply) and response.try_send(send)):
                await response(scope, receive, send)
        except ClientDisconnected:  # before a reply was begun: nobody gets this one, and the log line has its status
            await Response(status_code=CLIENT_LEFT)(scope, receive, send)
        except (GatewayError, ProviderError, TranslationError) as error:
            await self._build_error_reply(error, scope)(scope, receive, send)
        except Exception as error:
            _log.exception("request_failed")
            await self._build_error_reply(error, scope)(scope, receive, send)

    def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "websocket":
            return self._serve_websocket(scope, receive, send)
        return (self._serve_head if scope.get("method") == "HEAD" else self._app)(scope, receive, send)

    async def _serve_head(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves `HEAD` as `GET`, of which it is the head (RFC 9110, section 9.3.2). The server drops the body.

        A stream is not begun: without a body it would only keep the connection from the next request.
        """
        query = _STREAM_PARAMETER.sub(b"", scope["query_string"])
        get_scope = {**scope, "method": "GET", "query_string": query}
        try:
            await self._app(get_scope, receive, send)
        finally:
            if (on_end := get_scope.pop(ON_END, None)) is not None:
                scope[ON_END] = on_end

    async def _serve_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if (socket_app := self._sockets.get(scope["path"])) is None:
                known = ", ".join(self._sockets)
                raise NotFound(f"there is no WebSocket at {scope['path']:.200}: there is one at {known}")
            await socket_app(scope, receive, send)
        except (GatewayError, TranslationError) as error:
            await self._build_error_reply(error, scope)(scope, receive, send)
