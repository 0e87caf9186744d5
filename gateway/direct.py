"""The hot routes, taken before FastAPI's own dispatch, which costs more than translating a short reply does."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.answers import error_answer
from gateway.errors import GatewayError
from gateway.guard import ClientLeft
from providers.errors import ProviderError
from translation.errors import TranslationError

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

_log = structlog.get_logger(__name__)


class Direct:
    """ASGI middleware. `POST` to a path in `handlers` goes there, everything else to `app`.

    The same paths are routes of `app` too, which is what documents them in /openapi.json.
    """

    def __init__(self, app: ASGIApp, handlers: Mapping[str, Handler]) -> None:
        self._app = app
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = None
        if scope["type"] == "http" and scope["method"] == "POST":
            handler = self._handlers.get(scope["path"])
        if handler is None:
            await self._app(scope, receive, send)
            return
        try:
            response = await handler(Request(scope, receive))
            await response(scope, receive, send)
        except ClientLeft:
            return
        except (GatewayError, ProviderError, TranslationError) as error:
            await error_answer(error)(scope, receive, send)
        except Exception as error:
            _log.exception("request_failed")
            await error_answer(error)(scope, receive, send)
