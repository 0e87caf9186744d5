"""Fewer, larger packets for clients that would rather wait than pay for each delta."""

import asyncio
import os
import socket

from gateway.http_protocol import HttpProtocol


class GatheringHttpProtocol(HttpProtocol):
    """Leaves Nagle's algorithm (RFC 896) on, which event loops turn off: what is small waits until the client has
    acknowledged what went before."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        # What uvloop gives out as its socket has no options; they belong to the connection, whatever it is called by.
        with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as same:
            same.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
