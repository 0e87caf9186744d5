"""Where a worker exchanges and serves its figures. Imports no library for metrics."""

import asyncio
import socket
from pathlib import Path
from typing import NamedTuple


class MetricsPlace(NamedTuple):
    """The folder and the listener of one server's metrics."""

    folder: Path | None = None
    """The folder with the sockets of all workers; None if there is only one."""
    listener: socket.socket | None = None
    """The socket of `metrics.listen`; None if `/metrics` is on the main port."""
    protocol: type[asyncio.Protocol] = asyncio.Protocol
    """The protocol of the server's connections, with its limits."""
    idle_s: int = 75
    """Seconds for which a connection of the listener stays open without a request."""
