"""The ways to MCP servers: over HTTP, and over the pipes of a child process."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final, Protocol

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from gateway.tools.mcp.guarded_http import GuardedTransport
from gateway.tools.mcp.server import McpServer
from gateway.tools.mcp.stdio import StdioTransport
from providers.egress import EgressClient

_CONNECT_S: Final = 5.0


class ServerTransport(Protocol):
    """One connection to a server, for one session. `is_lost`: it can no longer be used."""

    @property
    def is_lost(self) -> bool: ...

    @property
    def last_output(self) -> str:
        """The end of the standard error of a server that runs here; otherwise empty."""
        ...

    async def enter(self, stack: AsyncExitStack) -> AbstractAsyncContextManager[Any]:
        """Returns the transport for the library. Its resources are closed with the stack. Raises McpFault."""
        ...


class HttpTransport:
    """Streamable HTTP, or the older HTTP+SSE."""

    def __init__(
        self,
        server: McpServer,
        egress: EgressClient,
        report_change: Callable[[], None],
        report_progress: Callable[[Any], None],
    ) -> None:
        self._server = server
        self._guarded = GuardedTransport(
            egress, server.scrub, report_change, report_progress, uses_sse=server.uses_sse, tokens=server.tokens
        )

    @property
    def is_lost(self) -> bool:
        return self._guarded.is_session_lost

    @property
    def last_output(self) -> str:
        return ""

    async def enter(self, stack: AsyncExitStack) -> AbstractAsyncContextManager[Any]:
        server = self._server
        if server.uses_sse:
            return self._end_after_cancellations(sse_client(server.url, httpx_client_factory=self._build_client))
        http = await stack.enter_async_context(self._build_client())
        return self._end_after_cancellations(
            streamable_http_client(server.url, http_client=http, max_sse_event_size=None)
        )

    @asynccontextmanager
    async def _end_after_cancellations(self, transport: AbstractAsyncContextManager[Any]) -> AsyncGenerator[Any, None]:
        """Yields the streams of the library's transport, which ends when the cancellations of calls have arrived.

        A server that does not get them runs these tools to their end.
        """
        async with transport as streams:
            try:
                yield streams
            finally:
                await self._guarded.wait_for_cancellations()

    def _build_client(self, *_: Any, **__: Any) -> httpx2.AsyncClient:
        timeout = httpx2.Timeout(_CONNECT_S, read=None)
        return httpx2.AsyncClient(transport=self._guarded, headers=dict(self._server.headers), timeout=timeout)


def make_transport(
    server: McpServer,
    egress: EgressClient,
    report_change: Callable[[], None],
    report_progress: Callable[[Any], None],
) -> ServerTransport:
    """Returns a transport that is not connected. It calls `report_change` when the server's list of tools changed, and
    `report_progress` with the parameters of progress notifications."""
    if server.command is not None:
        return StdioTransport(server.command, server.limits, server.scrub, report_change, report_progress)
    return HttpTransport(server, egress, report_change, report_progress)
