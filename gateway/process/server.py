"""Runs the application in one process, from its start to a graceful stop."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import ceil
from types import FrameType
from typing import Any, Final, NamedTuple, NoReturn

import structlog
import uvicorn

from dataplane.bounded_protocol import HeadLimits, limit_clients
from dataplane.http_protocol import HttpProtocol, NagleHttpProtocol
from gateway.config.settings import Settings
from gateway.http.guard import DrainState
from gateway.http.json_reply import refuse_head
from gateway.logs import configure_logs
from gateway.metrics.place import MetricsPlace
from gateway.process.accept_gate import AcceptGate
from gateway.process.app import build_app
from gateway.process.client_stalls import ClientStalls
from gateway.process.huge_pages import use_huge_pages
from gateway.process.updates import SettingsUpdates
from gateway.process.workers import SKIP_LINGER
from gateway.service.provider_lifetimes import EmbeddedEngines, build_providers
from gateway.websocket.protocol import WebSocketProtocol
from providers.base import Provider

_log = structlog.get_logger(__name__)

_KB = 1024
_MB = 1024 * 1024

_READABLE_FACTOR = 2
"""A WebSocket message larger than `server.max_body_mb` gets an error event, if it is at most this many times larger.

Upon a larger message the protocol closes the connection, because it has no other way to refuse it.
"""

_PONG_TIMEOUT_S = 60.0
"""Seconds that a WebSocket peer has to answer a ping. Some answer only when they next read."""

_CLOSE_TIMEOUT_S = 5
"""Seconds after draining in which the last frames are sent and connections are closed."""


_GC_THRESHOLDS = (20_000, 20, 20)
"""Thresholds of the garbage collector. Requests leave almost no reference cycles.

With the defaults it runs every few deltas, which costs a sixth of the CPU time per delta of a stream.
"""


_TICK_S = 0.1
"""Seconds between two calls of uvicorn's `on_tick`, which renews the date of the response headers."""

_CLOSING_POLL_S = 0.01
"""Seconds between two checks of the connections that are still open while the server stops."""


_SWITCH_INTERVAL_S = 0.001
"""Seconds after which a thread yields the interpreter to a waiting thread, here mostly to the event loop.

With the default of 5 ms, each step of a small request would wait 5 ms while a large body is planned in a thread.
"""


_ONLY_WORKER = MetricsPlace()


class StopTimes(NamedTuple):
    """The seconds of a stop: in the first, new requests are served; in the others, open ones may finish.

    The first are only after SIGTERM, and end at a second SIGTERM. Of a supervised worker they end at SIGUSR1 instead,
    because service managers and the supervisor may both send it SIGTERM.
    """

    linger_s: float
    drain_s: float
    is_supervised: bool = False


class GatewayServer(uvicorn.Server):
    """A uvicorn server that runs the coroutines of `beside` from when it accepts requests until it closes its port.

    When it stops, new requests are served and open ones may finish as its StopTimes say. Then, or at a second SIGINT,
    each is ended with an error of its API.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        gate: AcceptGate,
        drain: DrainState,
        times: StopTimes,
        beside: Sequence[Callable[[], Coroutine[Any, Any, None]]],
    ) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_requested = asyncio.Event()
        self._linger_ended = asyncio.Event()
        self._interrupted_at: float | None = None
        """The time of the loop at which a second SIGINT ended all requests."""
        super().__init__(config)
        self._gate = gate
        self._drain = drain
        self._times = times
        self._beside = beside

    @property
    def should_exit(self) -> bool:
        """Whether the server has to stop. Setting it, in any thread or signal handler, takes effect at once."""
        return self._should_exit

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        self._should_exit = value
        if value and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop_requested.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        if sockets is None:
            raise ValueError("the server is started with its listener")
        (listener,) = sockets
        await super().startup(sockets=[listener.dup()])
        self._gate.open(listener, self.servers, self._make_protocol, self.server_state.connections)
        # Everything imported by now remains in use, so the collector need not scan it while streams run.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        sys.setswitchinterval(_SWITCH_INTERVAL_S)

    def _make_protocol(self) -> asyncio.BaseProtocol:
        """Makes the protocol of one connection, as uvicorn does."""
        make: Callable[..., asyncio.BaseProtocol] = self.config.http_protocol_class
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def main_loop(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(run()) for run in self._beside]
            await self._tick_until(self._stop_requested)
            if self._times.linger_s > 0 and not self._linger_ended.is_set():
                await self._linger()
            for task in beside:
                task.cancel()

    async def _tick_until(self, event: asyncio.Event) -> None:
        """Runs uvicorn's main loop, but ends at the event without waiting for the next tick."""
        ticks = 0
        while not event.is_set():
            await self.on_tick(ticks)
            ticks += 1
            self._gate.check_descriptors()
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await event.wait()

    async def _linger(self) -> None:
        """Serves new requests for a while, and ends each connection with the next reply on it.

        Proxies go on to send requests until they have noticed that the server stops.
        """
        self._log_stop("server_lingering", linger_s=self._times.linger_s)
        self._drain.stopping = True
        self._close_connections_after_replies()
        for connection in self.server_state.connections:
            if isinstance(connection, HttpProtocol):
                connection.announce_close()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._times.linger_s):
                await self._tick_until(self._linger_ended)

    def _close_connections_after_replies(self, last_idle_s: int = 0) -> None:
        protocol: type[HttpProtocol] = self.config.http_protocol_class  # type: ignore[assignment]
        protocol.close_connections_after_replies(last_idle_s)

    def _log_stop(self, message: str, **times: float) -> None:
        _log.info(
            message,
            signal=signal.Signals(self._captured_signals[-1]).name if self._captured_signals else None,
            open_requests=len(self.server_state.tasks),
            **times,
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        drain_s = self._times.drain_s
        self._log_stop("server_stopping", drain_s=drain_s)
        self._drain.begin()
        self._close_connections_after_replies(0 if self._linger_ended.is_set() else ceil(self._times.linger_s))
        loop = asyncio.get_running_loop()
        expiry = loop.call_later(drain_s, self._end_drain)
        waiting = self._gate.take_waiting()
        self._gate.close()
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        await asyncio.gather(*(self._serve_connection(each) for each in waiting))
        for connection in list(self.server_state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                await self._wait_for_connections()
        except TimeoutError:
            _log.error("requests_cancelled", count=len(self.server_state.tasks))
            for task in self.server_state.tasks:
                task.cancel("the server stops")
        await self.lifespan.shutdown()
        expiry.cancel()
        _log.info("server_stopped")

    async def _serve_connection(self, connection: socket.socket) -> None:
        """Serves a connection as if it had been accepted before the port was closed."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._make_protocol, connection)
        except OSError:  # its client has left
            connection.close()

    def _end_drain(self) -> None:
        """Ends all requests, and connections that wait for another."""
        self._drain.expire()
        self._close_connections_after_replies()
        for connection in list(self.server_state.connections):
            if isinstance(connection, HttpProtocol):
                connection.shutdown()

    async def _wait_for_connections(self) -> None:
        """Returns once all connections are closed and their tasks have ended.

        After a second SIGINT it closes connections: those of stalled clients, and all once the last reply is sent.
        Raises TimeoutError if replies take longer than `_CLOSE_TIMEOUT_S` then.
        """
        state, stalls, loop = self.server_state, ClientStalls(), asyncio.get_running_loop()
        while state.connections or state.tasks:
            if self._interrupted_at is not None:
                if loop.time() > self._interrupted_at + _CLOSE_TIMEOUT_S:
                    raise TimeoutError
                self._close_connections(stalls)
            await asyncio.sleep(_CLOSING_POLL_S)
        for server in self.servers:
            await server.wait_closed()

    def _close_connections(self, stalls: ClientStalls) -> None:
        """Drops the connections of stalled clients. Closes the others once all requests have ended and been answered.

        A request whose last event is not written yet is waited for: on a busy machine that takes its time.
        """
        connections = list(self.server_state.connections)
        waiting = {each.transport: size for each in connections if (size := _count_awaited_bytes(each))}
        for transport in stalls.find(waiting):
            transport.abort()
        if not waiting and not self.server_state.tasks:
            for connection in connections:
                connection.transport.close()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begins to stop. A second SIGINT ends all streams at once, where uvicorn would only drop them."""
        self._captured_signals.append(sig)
        if self.should_exit and sig == signal.SIGINT and self._loop is not None:
            self._loop.call_soon_threadsafe(self._end_requests)
        if sig == signal.SIGINT or (self.should_exit and not self._times.is_supervised):
            self.skip_linger()
        self.should_exit = True

    def skip_linger(self, *_: object) -> None:
        """Closes the port as soon as the server stops, or now if it stops already. May be the handler of a signal."""
        if self._loop is None or self._loop.is_closed():
            self._linger_ended.set()
        else:
            self._loop.call_soon_threadsafe(self._linger_ended.set)

    def _end_requests(self) -> None:
        if self._interrupted_at is None:
            self._interrupted_at = asyncio.get_running_loop().time()
            self._end_drain()


def _count_awaited_bytes(connection: Any) -> int:
    """Returns how many bytes a connection waits for: its client has not read them, or not sent them (then at least 1).

    It is the protocol of a connection, of HTTP or of WebSockets.
    """
    transport: asyncio.Transport = connection.transport
    sends = isinstance(connection, HttpProtocol) and connection.awaits_body
    return transport.get_write_buffer_size() + sends


_EXIT_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def exit_on_signals() -> None:
    """Lets this process exit with 0 at a signal to stop: uvicorn raises it again after it has drained.

    A further one, such as a late second SIGINT, ends the process at once. The server has ended before, so only
    lines of the log that nobody reads can be lost. An exception would be reported by whatever the interpreter is ending
    just then.
    """

    def exit_process(*_: object) -> NoReturn:
        for number in _EXIT_SIGNALS:
            signal.signal(number, lambda *_: os._exit(0))
        sys.exit(0)

    for number in _EXIT_SIGNALS:
        signal.signal(number, exit_process)


def run_server(
    settings: Settings,
    listener: socket.socket,
    on_ready: Callable[[], None],
    updates: SettingsUpdates,
    metrics_place: MetricsPlace = _ONLY_WORKER,
    *,
    is_supervised: bool = False,
) -> None:
    """Runs a server in this process until SIGTERM or SIGINT. Exits with 1 if it could not start.

    `updates` deliver further configurations while it runs. `is_supervised` says that this is one of several workers.
    """
    configure_logs(settings.log.level_number, settings.log.format)
    exit_on_signals()
    server = make_server(settings, on_ready, updates=updates, metrics_place=metrics_place, is_supervised=is_supervised)
    if is_supervised:
        signal.signal(SKIP_LINGER, server.skip_linger)
    use_huge_pages()  # before an engine is loaded into this process
    server.run(sockets=[listener])
    if not server.started:
        sys.exit(1)


def _report_stall(unread_bytes: int) -> None:
    _log.warning("client_stalled", unread_bytes=unread_bytes)


def make_server(
    settings: Settings,
    on_ready: Callable[[], None],
    providers: Mapping[str, Provider] | None = None,
    updates: SettingsUpdates | None = None,
    metrics_place: MetricsPlace = _ONLY_WORKER,
    *,
    is_supervised: bool = False,
) -> GatewayServer:
    """Builds a server that has not started. It calls `on_ready` once it accepts requests and its engines have started
    or failed. `providers` replaces configured providers of the same names."""
    drain = DrainState()
    all_providers = build_providers(settings, providers)
    accepting = settings.server
    limits = HeadLimits(int(accepting.max_head_kb * _KB), accepting.max_head_fields, accepting.head_s)
    gate = AcceptGate()
    protocol = limit_clients(
        HttpProtocol if accepting.tcp_nodelay else NagleHttpProtocol,
        limits,
        refuse_head,
        gate.on_connection,
        unread_s=accepting.unread_s,
        on_stall=_report_stall,
    )
    place = metrics_place._replace(protocol=protocol, idle_s=accepting.idle_s)
    app = build_app(settings, drain, all_providers, metrics_place=place)
    config = uvicorn.Config(
        app.asgi,
        log_config=None,
        access_log=False,
        http=protocol,
        backlog=gate.backlog,
        ws=WebSocketProtocol,
        ws_max_size=int(settings.server.max_body_mb * _READABLE_FACTOR * _MB),
        ws_ping_interval=settings.server.keepalive_s,
        ws_ping_timeout=_PONG_TIMEOUT_S,
        ws_per_message_deflate=False,
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=accepting.idle_s,
        timeout_graceful_shutdown=int(settings.server.drain_s) + _CLOSE_TIMEOUT_S,
    )
    engines = EmbeddedEngines(all_providers.values())
    times = StopTimes(settings.server.linger_s, settings.server.drain_s, is_supervised)

    async def announce_ready() -> None:
        """Calls `on_ready`, also if an engine has failed: the log has the reason, and other models are served."""
        await engines.wait_until_settled()
        on_ready()

    follow_updates = partial(app.reloader.follow, updates or SettingsUpdates())
    return GatewayServer(config, gate, drain, times, [announce_ready, follow_updates])
