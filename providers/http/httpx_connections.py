"""A transport over httpx that loses no connection, at whichever wait a request is cancelled."""

from collections.abc import Callable

import httpx

from providers.leases import LeasedBody, LeasedConnections


class HttpxConnections(httpx.AsyncBaseTransport):
    """Connections of httpx to one server. `make_connection` returns a transport that never has more than one.

    `max_connections` and `keepalive_s` are those of `LeasedConnections`.
    """

    def __init__(
        self, make_connection: Callable[[], httpx.AsyncBaseTransport], *, max_connections: int, keepalive_s: float
    ) -> None:
        self._connections = LeasedConnections(
            make_connection, _HttpxBody, max_connections=max_connections, keepalive_s=keepalive_s
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response: httpx.Response = await self._connections.send(request)
        return response

    async def aclose(self) -> None:
        await self._connections.aclose()


class _HttpxBody(LeasedBody, httpx.AsyncByteStream):
    """The body of a reply of httpx."""
