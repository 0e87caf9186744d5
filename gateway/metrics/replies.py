"""`GET /metrics`: on the main port for administrators, or on a listener of its own for everybody who reaches it."""

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from gateway.errors import GatewayError, MethodNotAllowed, NotAdministrator, NotFound
from gateway.http.error_forms import ErrorReplyBuilder
from gateway.http.headers import headers_of
from gateway.http.middleware import FindRefusal
from gateway.metrics.place import MetricsPlace
from gateway.metrics.samples import Sample, WorkerSamples, merge_samples
from gateway.service.service import Service

if TYPE_CHECKING:
    from gateway.metrics.exposition import TextRenderer

PATH: Final = "/metrics"

_CACHED_S: Final = 1.0
"""Seconds for which a reply is repeated, whoever asks."""


_OPENMETRICS: Final = b"application/openmetrics-text"


class Format(NamedTuple):
    """A form of the text."""

    content_type: bytes
    is_openmetrics: bool


TEXT: Final = Format(b"text/plain; version=0.0.4; charset=utf-8", is_openmetrics=False)
OPENMETRICS: Final = Format(b"application/openmetrics-text; version=1.0.0; charset=utf-8", is_openmetrics=True)


def choose_format(accept: bytes) -> Format:
    """Returns the format for the header `Accept`: OpenMetrics if it is asked for."""
    return OPENMETRICS if _OPENMETRICS in accept.lower() else TEXT


class MetricsReplies:
    """Renders the figures of all workers."""

    def __init__(
        self, ask_all: Callable[[], Awaitable[list[WorkerSamples]]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask_all = ask_all
        self._clock = clock
        self._lock = asyncio.Lock()
        self._samples: list[Sample] = []
        self._texts: dict[Format, bytes] = {}
        self._renderers: dict[Format, TextRenderer] = {}
        self._read_at = float("-inf")

    async def build_reply(self, scope: Scope) -> Response:
        """Returns the reply to a request. Raises MethodNotAllowed."""
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"there is no {scope['method']:.20} {PATH}", headers={"allow": "GET, HEAD"})
        form = choose_format(headers_of(scope).get(b"accept", b""))
        text = await self._render(form)
        return Response(text, headers={"content-type": form.content_type.decode()})

    async def _render(self, form: Format) -> bytes:
        async with self._lock:  # whoever asks meanwhile gets the same text
            if self._clock() - self._read_at >= _CACHED_S:
                snapshots = await self._ask_all()
                self._samples = await asyncio.to_thread(merge_samples, snapshots)
                self._texts = {}
                self._read_at = self._clock()
            if (text := self._texts.get(form)) is None:
                text = self._texts[form] = await asyncio.to_thread(self._render_text, form)
            return text

    def _render_text(self, form: Format) -> bytes:
        if (renderer := self._renderers.get(form)) is None:
            from gateway.metrics.exposition import TextRenderer  # imports the library, which most tests never need

            renderer = self._renderers[form] = TextRenderer(as_openmetrics=form.is_openmetrics)
        return renderer.render(self._samples)


class MainPortFigures:
    """ASGI application of one path on the main port, for administrators. Its requests are neither logged nor counted.

    `build_figures` builds the reply, and `find_refusal` refuses requests from other sites, as for the application.
    """

    def __init__(
        self,
        build_figures: Callable[[Scope], Awaitable[Response]],
        service: Service,
        find_refusal: FindRefusal,
        build_error_reply: ErrorReplyBuilder,
    ) -> None:
        self._build_figures = build_figures
        self._service = service
        self._find_refusal = find_refusal
        self._build_error_reply = build_error_reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (reply := self._find_refusal(scope, headers_of(scope))) is None:
            try:
                self._authorize(scope)
                reply = await self._build_figures(scope)
            except GatewayError as error:
                reply = self._build_error_reply(error, scope)
        await reply(scope, receive, send)

    def _authorize(self, scope: Scope) -> None:
        """Raises NotAuthenticated, and NotAdministrator, if there are keys."""
        current = self._service.current
        if current.settings.auth is None:
            return
        if not current.authenticator.authenticate(headers_of(scope)).is_admin:
            raise NotAdministrator("only a key with `admin: true` in auth.keys of the configuration may read metrics")


def build_listener_app(replies: MetricsReplies, build_error_reply: ErrorReplyBuilder) -> ASGIApp:
    """Returns the application of a listener that serves nothing but `/metrics`."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            if scope["path"] != PATH:
                raise NotFound(f"there is only {PATH} here")
            reply = await replies.build_reply(scope)
        except GatewayError as error:
            reply = build_error_reply(error, scope)
        await reply(scope, receive, send)

    return serve


@asynccontextmanager
async def run_listener(listener: socket.socket, app: ASGIApp, place: MetricsPlace) -> AsyncGenerator[None, None]:
    """Serves `app` on a listening socket until the block ends, on connections that are kept as the server's own are."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        http=place.protocol,
        interface="asgi3",
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_keep_alive=place.idle_s,
    )
    config.load()
    state = ServerState()
    make: Callable[..., asyncio.BaseProtocol] = config.http_protocol_class
    server = await asyncio.get_running_loop().create_server(
        lambda: make(config=config, server_state=state, app_state={}), sock=listener.dup()
    )
    try:
        yield
    finally:
        server.close()
        for connection in list(state.connections):
            connection.shutdown()
