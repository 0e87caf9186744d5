"""Watches over clients that may be gone, or read nothing of what waits for them."""

import asyncio
import fcntl
import os
import socket
import sys
import termios
from collections.abc import Callable
from typing import Final

_FIRST_CHECK_S: Final = 0.02
_LAST_CHECK_S: Final = 1.0
"""Seconds until the first check for a reset, and between later ones. Each wait is twice as long as the one before."""

_PROBE_S: Final = 15.0
"""Seconds between two probes: a client may leave later, which sends nothing more."""


_INT_BYTES: Final = 4

_UNREAD_LOOKS: Final = 4
"""A client is given up after so many looks in a row without progress."""


class UnreadWatch:
    """Aborts the connection of a client that reads nothing of what waits for it for some seconds.

    It counts looks, not seconds: while the process is stopped or busy, no client can be seen to read. `on_stall` is
    called first, with the bytes that wait.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        on_stall: Callable[[int], None],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._pause_s = seconds / _UNREAD_LOOKS
        self._on_stall = on_stall
        self._timer: asyncio.TimerHandle | None = None
        self._size = 0
        """The least bytes that waited at any look, here and in the system."""
        self._looks = 0
        """The looks since they became fewer."""

    def begin(self) -> None:
        """Begins to watch, if it does not yet. It ends by itself once nothing waits."""
        if self._timer is None:
            self._size, self._looks = self._transport.get_write_buffer_size() + self._count_sent(), 0
            self._look_later()

    def end(self) -> None:
        """Ends the watch, because the client has caught up, or the connection ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(self._pause_s, self._look)

    def _look(self) -> None:
        self._timer = None
        unsent = self._transport.get_write_buffer_size()
        if not unsent:
            return
        size = unsent + self._count_sent()
        self._looks = 0 if size < self._size else self._looks + 1
        self._size = min(size, self._size)
        if self._looks >= _UNREAD_LOOKS:
            self._on_stall(unsent)
            self._transport.abort()
        else:
            self._look_later()

    def _count_sent(self) -> int:
        """Returns how many sent bytes the client has not acknowledged; 0 where the system does not tell.

        It takes more from the gateway only after a large part of them, which a slow client reads for a minute.
        """
        connection = self._transport.get_extra_info("socket")
        if connection is None or connection.fileno() < 0:
            return 0
        try:
            return int.from_bytes(fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(_INT_BYTES)), sys.byteorder)
        except OSError:
            return 0


class HalfClosedWatch:
    """Aborts the connection of a client that has ended its side of it, and turns out to be gone.

    A client that sends FIN after its request may wait for the reply (RFC 9112, section 9.6), or may be gone: both look
    the same until something is sent. What is sent to a client that is gone comes back as a reset. `send_probe` sends
    something that is no part of the reply's content. The event loop does not read the connection any more, so this
    class asks the socket itself whether a reset has come.
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
