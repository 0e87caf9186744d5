"""Finds out whether a client that has ended its side of a connection still reads the reply.

A client that sends FIN after its request may wait for the reply (RFC 9112, section 9.6), or may be gone: both look the
same until something is sent. What is sent to a client that is gone comes back as a reset.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final

_FIRST_CHECK_S: Final = 0.02
_LAST_CHECK_S: Final = 1.0
"""Seconds until the first check for a reset, and between later ones. Each wait is twice as long as the one before."""

_PROBE_S: Final = 15.0
"""Seconds between two probes: a client may leave later, which sends nothing more."""


class HalfClosedWatch:
    """Aborts the connection of a client that turns out to be gone.

    `send_probe` sends the client something that is no part of the reply's content. The event loop does not read the
    connection any more, so this class asks the socket itself whether a reset has come.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        descriptor: int,
        send_probe: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._descriptor = descriptor
        self._send_probe = send_probe
        self._delay_s = _FIRST_CHECK_S
        self._probed_at = loop.time()
        self._timer = loop.call_later(self._delay_s, self._check)
        send_probe()

    def stop(self) -> None:
        """Ends the checks, because the connection ends."""
        self._timer.cancel()

    def _check(self) -> None:
        if self._transport.is_closing():
            return
        if is_reset(self._descriptor):
            self._transport.abort()
            return
        now = self._loop.time()
        if now - self._probed_at >= _PROBE_S:
            self._probed_at, self._delay_s = now, _FIRST_CHECK_S
            self._send_probe()
        else:
            self._delay_s = min(2 * self._delay_s, _LAST_CHECK_S)
        self._timer = self._loop.call_later(self._delay_s, self._check)


def is_reset(descriptor: int) -> bool:
    """Returns whether a socket has received a reset. The system reports each reset only once."""
    try:
        # Event loops give out no whole socket. A duplicate of the descriptor is the same connection.
        with socket.socket(fileno=os.dup(descriptor)) as duplicate:
            return duplicate.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0
    except OSError:  # no descriptor is free: the next check may have one
        return False
