"""Stops accepting connections before the process has no descriptor left for the requests it has accepted."""

import asyncio
import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

import structlog

from dataplane.bounded_protocol import BoundedHttpProtocol
from dataplane.sharing.descriptors import close_idle_connections

_BACKLOG: Final = 2048
"""The most connections that may wait to be accepted. The system may reset those that find no place."""

_MIN_RESERVE: Final = 16
_RESERVE_PARTS: Final = 4
"""One part of this many is reserved for accepted requests: connections to upstreams, files of the store."""

_MIN_SPARE: Final = 8
_SPARE_PARTS: Final = 8
"""One part of this many is neither for clients nor for their upstreams: the store, MCP servers, lookups of names."""

_PER_CLIENT: Final = 2
"""A client may need a second descriptor: its connection to an upstream."""

_HYSTERESIS: Final = 4
"""Hysteresis: accepting resumes only when this many more descriptors are free than when it stopped."""

_CHECK_S: Final = 0.1

_IDLE_S: Final = 5.0
"""Connections of clients that have been idle for so many seconds are closed while others wait to be accepted."""

_CALM_S: Final = 1.0
"""Seconds without another pause after which the log says that accepting has resumed."""

_log = structlog.get_logger(__name__)


class AcceptGate:
    """Accepts connections while there are descriptors, and lets them wait in the system's queue otherwise.

    Without it, a process at its limit accepts a client and can then not connect to the client's upstream; and a process
    that accepts without a free descriptor can only close the connection. Systems assign the lowest free descriptor, so
    the number of a new connection shows how many are open.
    """

    def __init__(self) -> None:
        self._limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if self._limit == resource.RLIM_INFINITY:
            self._limit = sys.maxsize
        self._threshold = sys.maxsize
        self._max_clients = sys.maxsize
        self.backlog: Final = _BACKLOG
        self._clients: Collection[object] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._opening: asyncio.Task[None] | None = None
        self._paused_at: float | None = None
        """When the pause began that the log has last reported, until it reports its end."""
        self._calm: asyncio.TimerHandle | None = None
        self._is_closed = False

    def open(
        self,
        listener: socket.socket,
        servers: list[asyncio.Server],
        make_protocol: Callable[[], asyncio.BaseProtocol],
        clients: Collection[object],
    ) -> None:
        """Begins to watch. `servers` accept on duplicates of `listener`; it stays open while they are closed.

        `clients` are the open connections of clients.
        """
        self._listener = listener
        self._servers = servers
        self._make_protocol = make_protocol
        self._clients = clients
        own = self._lowest_free()
        self._threshold = max(self._limit - max(_MIN_RESERVE, self._limit // _RESERVE_PARTS), own + 2 * _HYSTERESIS)
        spare = max(_MIN_SPARE, self._limit // _SPARE_PARTS)
        self._max_clients = max(1, (self._limit - own - spare) // _PER_CLIENT)

    def close(self) -> None:
        """Closes the gate for good. Called when the server stops."""
        self._is_closed = True
        for pending in (self._timer, self._opening, self._calm):
            if pending is not None:
                pending.cancel()

    def take_waiting(self) -> list[socket.socket]:
        """Accepts the connections that wait in the system's queue, which resets them when the listener is closed.

        There are none while the gate is shut, because nothing could serve them.
        """
        waiting: list[socket.socket] = []
        if not self._servers:
            return waiting
        self._listener.setblocking(False)
        with suppress(OSError):  # the queue is empty, or no descriptor is free
            while len(waiting) < self.backlog:
                waiting.append(self._listener.accept()[0])
        return waiting

    def on_connection(self, descriptor: int) -> None:
        """Called with the descriptor of each new connection."""
        if descriptor >= self._threshold or len(self._clients) >= self._max_clients:
            self._pause(descriptor)

    def check_descriptors(self) -> None:
        """Stops accepting if descriptors have become scarce without a new connection. Called several times a second."""
        if self._timer is None and self._opening is None and (lowest := self._lowest_free()) >= self._threshold:
            self._pause(lowest)

    def _pause(self, descriptor: int) -> None:
        if self._is_closed or self._timer is not None or self._opening is not None:
            return
        if self._calm is not None:
            self._calm.cancel()
            self._calm = None
        if self._paused_at is None:
            self._paused_at = time.monotonic()
            _log.warning("accept_paused", open=descriptor, clients=len(self._clients), limit=self._limit)
        for server in self._servers:
            server.close()
        self._servers.clear()
        self._check_later()

    def _check_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_CHECK_S, self._check)

    def _check(self) -> None:
        self._timer = None
        if len(self._clients) >= self._max_clients:
            self._close_idle_clients()
            self._check_later()
        elif self._lowest_free() < self._threshold - _HYSTERESIS:
            self._opening = asyncio.get_running_loop().create_task(self._accept_again())
        else:
            # Nobody would use the idle connections to upstreams while no client is accepted.
            close_idle_connections()
            self._close_idle_clients()
            self._check_later()

    def _close_idle_clients(self) -> None:
        for client in list(self._clients):
            if isinstance(client, BoundedHttpProtocol):
                client.close_if_idle(_IDLE_S)

    async def _accept_again(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(self._make_protocol, sock=self._listener.dup(), backlog=self.backlog)
        except OSError:  # other code has taken the free descriptors
            self._check_later()
            return
        finally:
            self._opening = None
        self._servers.append(server)
        self._calm = loop.call_later(_CALM_S, self._report_resumed)

    def _report_resumed(self) -> None:
        self._calm = None
        if self._paused_at is not None:
            _log.warning("accept_resumed", seconds=round(time.monotonic() - self._paused_at - _CALM_S, 1))
            self._paused_at = None

    def _lowest_free(self) -> int:
        try:
            descriptor = os.dup(self._listener.fileno())
        except OSError:  # no descriptor is free
            return self._limit
        os.close(descriptor)
        return descriptor
