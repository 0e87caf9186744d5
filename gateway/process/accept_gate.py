"""Stops accepting connections before the process has no descriptor left for the requests it has accepted."""

import asyncio
import os
import resource
import socket
import sys
import time
from collections.abc import Callable
from typing import Final

import structlog

_MAX_BACKLOG: Final = 2048

_MIN_RESERVE: Final = 16
_RESERVE_PARTS: Final = 4
"""One part of this many is reserved for accepted requests: connections to upstreams, files of the store."""

_HYSTERESIS: Final = 4
"""Hysteresis: accepting resumes only when this many more descriptors are free than when it stopped."""

_CHECK_S: Final = 0.1

_log = structlog.get_logger(__name__)


class AcceptGate:
    """Accepts connections while there are descriptors, and lets them wait in the system's queue otherwise.

    Without it, a process at its limit accepts a client and can then not connect to the client's upstream. Systems
    assign the lowest free descriptor, so the number of a new connection shows how many are open.
    """

    def __init__(self) -> None:
        self._limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if self._limit == resource.RLIM_INFINITY:
            self._limit = sys.maxsize
        reserve = max(_MIN_RESERVE, self._limit // _RESERVE_PARTS)
        self._threshold = self._limit - reserve
        self.backlog: Final = min(_MAX_BACKLOG, reserve // 2)
        """The most connections that may wait to be accepted. All of them are accepted at once."""
        self._timer: asyncio.TimerHandle | None = None
        self._opening: asyncio.Task[None] | None = None
        self._paused_at = 0.0

    def open(
        self,
        listener: socket.socket,
        servers: list[asyncio.Server],
        make_protocol: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        """Begins to watch. `servers` accept on duplicates of `listener`; it stays open while they are closed."""
        self._listener = listener
        self._servers = servers
        self._make_protocol = make_protocol

    def close(self) -> None:
        """Closes the gate for good. Called when the server stops."""
        if self._timer is not None:
            self._timer.cancel()
        if self._opening is not None:
            self._opening.cancel()
        self._threshold = sys.maxsize

    def on_connection(self, descriptor: int) -> None:
        """Called with the descriptor of each new connection."""
        if descriptor < self._threshold or self._timer is not None or self._opening is not None:
            return
        self._paused_at = time.monotonic()
        _log.warning("accept_paused", open=descriptor, limit=self._limit)
        for server in self._servers:
            server.close()
        self._servers.clear()
        self._check_later()

    def _check_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_CHECK_S, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._lowest_free() < self._threshold - _HYSTERESIS:
            self._opening = asyncio.get_running_loop().create_task(self._accept_again())
        else:
            self._check_later()

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
        _log.warning("accept_resumed", seconds=round(time.monotonic() - self._paused_at, 1))

    def _lowest_free(self) -> int:
        try:
            descriptor = os.dup(self._listener.fileno())
        except OSError:  # no descriptor is free
            return self._limit
        os.close(descriptor)
        return descriptor
