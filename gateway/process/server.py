"""Runs the application in one process, from its start to an orderly end."""

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Callable, Mapping

import uvicorn

from dataplane.http_protocol import GatheringHttpProtocol, HttpProtocol
from gateway.config.settings import Settings
from gateway.http.guard import Drain
from gateway.logs import configure_logs
from gateway.process.app import build_providers, create_app
from gateway.process.huge_pages import use_huge_pages
from gateway.service.embedded_engines import EmbeddedEngines
from gateway.websocket.protocol import WebSocketProtocol
from providers.base import Provider

_MB = 1024 * 1024

_READABLE_FACTOR = 2
"""A WebSocket message over `server.max_body_mb` is refused by name up to this many times of it, and then with the
connection, since the protocol knows no other way."""

_PONG_TIMEOUT_S = 60.0
"""For a WebSocket's peer to answer a ping; some answer only once they read again."""

_CLOSE_TIMEOUT_S = 5
"""After draining: for the last frames to leave and connections to close."""


_GC_THRESHOLDS = (20_000, 20, 20)
"""Allocations between collections. Requests leave next to no cycles behind; by default every few deltas would pay for a
search for some: a sixth of the CPU per delta where deltas come one by one."""


class GatewayServer(uvicorn.Server):
    """A uvicorn server that says when it is ready, and that, when told to stop, lets open requests finish for `drain_s`
    and then ends each in its own words."""

    def __init__(
        self,
        config: uvicorn.Config,
        engines: EmbeddedEngines,
        drain: Drain,
        drain_s: float,
        on_ready: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._engines = engines
        self._drain = drain
        self._drain_s = drain_s
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        # What is imported by now stays: the collector need not look at it again and again while streams run.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)

    async def main_loop(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            announcing = tasks.create_task(self._announce_ready())
            await super().main_loop()
            announcing.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._drain.begin()
        expiry = asyncio.get_running_loop().call_later(self._drain_s, self._drain.expire)
        await super().shutdown(sockets=sockets)
        expiry.cancel()

    async def _announce_ready(self) -> None:
        """An engine that failed has said why in the log; what needs none is served all the same."""
        await self._engines.wait_until_settled()
        self._on_ready()


def run_server(settings: Settings, listener: socket.socket, on_ready: Callable[[], None]) -> None:
    """One server process, until it is told to stop."""
    configure_logs()
    # uvicorn raises the signal once more when it has drained, and stopping when told to is no failure.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    server = make_server(settings, on_ready)
    use_huge_pages()  # before an engine is here too
    server.run(sockets=[listener])
    if not server.started:
        sys.exit(1)


def make_server(
    settings: Settings, on_ready: Callable[[], None], providers: Mapping[str, Provider] | None = None
) -> GatewayServer:
    """A server that has not started; `providers` replaces configured ones by name."""
    drain = Drain()
    built = build_providers(settings, providers)
    config = uvicorn.Config(
        create_app(settings, drain, built),
        log_config=None,
        access_log=False,
        http=HttpProtocol if settings.server.tcp_nodelay else GatheringHttpProtocol,
        ws=WebSocketProtocol,
        ws_max_size=int(settings.server.max_body_mb * _READABLE_FACTOR * _MB),
        ws_ping_interval=settings.server.keepalive_s,
        ws_ping_timeout=_PONG_TIMEOUT_S,
        ws_per_message_deflate=False,
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(settings.server.drain_s) + _CLOSE_TIMEOUT_S,
    )
    return GatewayServer(config, EmbeddedEngines(built.values()), drain, settings.server.drain_s, on_ready)
