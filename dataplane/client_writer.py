"""The part of a client writer that fast paths use. It is the compiled class if `core/` is installed, else Python."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from dataplane.core import CORE

if TYPE_CHECKING or CORE is None:

    class ChunkWriter:
        """Writes chunks of a reply's body (RFC 9112, section 7.1) to the connection of one client."""

        __slots__ = ("ready", "sent_at", "socket", "transport", "write_chunk")

        ready: bool
        """Whether the connection accepts bytes at once: the client is connected, and reads as fast as it is sent."""
        write_chunk: Callable[[bytes], None]
        """Sends bytes that already are whole chunks. The caller has checked `ready`, and the body is in progress."""
        transport: asyncio.Transport
        """The transport of the connection."""
        socket: int
        """The file descriptor, if compiled code may write to the socket past `transport`; else -1."""
        sent_at: float
        """The time of the last write, on the monotonic clock."""

else:
    ChunkWriter = CORE.ChunkWriter

__all__ = ["ChunkWriter"]
