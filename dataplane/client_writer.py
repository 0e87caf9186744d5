"""Who a passage writes to: compiled where `core/` is installed, else in Python."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from dataplane.core import CORE

if TYPE_CHECKING or CORE is None:

    class ChunkWriter:
        """The receiving end of a body in chunks."""

        __slots__ = ("ready", "sent_at", "socket", "transport", "write_chunk")

        ready: bool
        """Whether a piece would be sent now."""
        write_chunk: Callable[[bytes], None]
        """Sends one chunk of a body, framed as such; for whoever may `write`."""
        transport: asyncio.Transport
        socket: int
        """The number of its socket, where what is compiled may write to it past `transport`; -1 where it may not."""
        sent_at: float
        """When the last piece was sent, on the monotonic clock."""

else:
    ChunkWriter = CORE.ChunkWriter

__all__ = ["ChunkWriter"]
