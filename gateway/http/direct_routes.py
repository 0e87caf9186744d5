"""Dispatches the hot routes before FastAPI does, whose own dispatch costs more than translating a short reply."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import structlog
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.errors import GatewayError, NotFound
from gateway.http.error_forms import ErrorReplyBuilder
from gateway.http.guard import ClientDisconnected
from gateway.http.json_reply import JsonReply
from providers.errors import ProviderError
from translation.errors import TranslationError

Handler: TypeAlias = Callable[[Scope, Receive], Awaitable[Response]]

_log = structlog.get_logger(__name__)


class DirectRouter:
    """ASGI middleware. Dispatches `POST` to `handlers` and WebSockets to `sockets` by exact path, all else to `app`.

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
        if scope["type"] == "websocket":
            await self._serve_websocket(scope, receive, send)
            return
        handler = None
        if scope["type"] == "http" and scope["method"] == "POST":
            handler = self._handlers.get(scope["path"])
        if handler is None:
            await self._app(scope, receive, send)
            return
        try:
            response = await handler(scope, receive)
            if not (isinstance(response, JsonReply) and response.try_send(send)):
                await response(scope, receive, send)
        except ClientDisconnected:
            return
        except (GatewayError, ProviderError, TranslationError) as error:
            await self._build_error_reply(error, scope)(scope, receive, send)
        except Exception as error:
            _log.exception("request_failed")
            await self._build_error_reply(error, scope)(scope, receive, send)

    async def _serve_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if (socket_app := self._sockets.get(scope["path"])) is None:
                known = ", ".join(self._sockets)
                raise NotFound(f"there is no WebSocket at {scope['path']:.200}: there is one at {known}")
            await socket_app(scope, receive, send)
        except (GatewayError, TranslationError) as error:
            await self._build_error_reply(error, scope)(scope, receive, send)
