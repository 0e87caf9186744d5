"""One connection to an MCP server. A task of its own owns it, and requests reach it through a queue.

The library's scopes of cancellation have to be left in the task that entered them, so no other task may hold them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx2
import structlog
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Tool
from pydantic import ValidationError

from gateway.mcp.errors import McpFault
from gateway.mcp.guarded_http import GuardedTransport, ResultTooLarge
from providers.egress import EgressClient, EgressRefused

_log = structlog.get_logger(__name__)

_T = TypeVar("_T")
_Request = tuple[Callable[[Client], Awaitable[Any]], asyncio.Future[Any]]

_QUEUE_SIZE: Final = 64
_CONNECT_S: Final = 5.0
_CLOSE_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """Where a server is, and with which headers it is addressed. `headers` may hold credentials."""

    label: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_result_bytes: int = 5 * 1024 * 1024


class McpConnection:
    """A connection, open inside of its `async with` block. It is opened by the first request.

    Requests may run at the same time. Each raises McpFault, and can be cancelled.
    """

    def __init__(self, server: McpServer, egress: EgressClient) -> None:
        self._server = server
        self._transport = GuardedTransport(egress, max_bytes=server.max_result_bytes)
        self._queue: asyncio.Queue[_Request] = asyncio.Queue(_QUEUE_SIZE)
        self._owner: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owner is None or self._owner.done():
            return
        self._owner.cancel()
        await asyncio.wait({self._owner}, timeout=_CLOSE_S)

    async def list_tools(self, *, max_pages: int, max_tools: int, deadline_s: float) -> list[Tool]:
        """Returns all tools of the server, in its order. Raises McpFault, also for a list that does not end."""

        async def list_pages(client: Client) -> list[Tool]:
            tools: list[Tool] = []
            cursor: str | None = None
            seen: set[str] = set()
            for _ in range(max_pages):
                page = await client.list_tools(cursor=cursor)
                tools += page.tools
                cursor = page.next_cursor
                if cursor is None:
                    return tools
                if cursor in seen or len(tools) > max_tools:
                    break
                seen.add(cursor)
            raise McpFault("list_too_long", f"its list of tools does not end within {max_pages} pages")

        tools = await self._request(list_pages, deadline_s)
        if len(tools) > max_tools:
            raise McpFault("too_many_tools", f"it has {len(tools)} tools; at most {max_tools} are allowed")
        return tools

    async def call_tool(self, name: str, arguments: dict[str, Any], *, deadline_s: float) -> CallToolResult:
        """Calls a tool once. It is never repeated. Raises McpFault if the call has no result."""
        return await self._request(lambda client: client.call_tool(name, arguments), deadline_s)

    async def _request(self, send: Callable[[Client], Awaitable[_T]], deadline_s: float) -> _T:
        if self._owner is None or self._owner.done():
            self._queue = asyncio.Queue(_QUEUE_SIZE)
            self._owner = asyncio.get_running_loop().create_task(self._own(self._queue))
        result: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(deadline_s):
                await self._queue.put((send, result))
                waited: set[asyncio.Future[Any]] = {result, self._owner}
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                if not result.done():
                    raise McpFault("connection_closed", "the connection closed")
                return result.result()
        except TimeoutError:
            raise McpFault("timeout", f"no answer within {deadline_s:g} s") from None
        finally:
            result.cancel()

    async def _own(self, queue: asyncio.Queue[_Request]) -> None:
        """Holds the connection open, and runs what is in the queue. A failure to connect fails the first request."""
        server = self._server
        timeout = httpx2.Timeout(_CONNECT_S, read=None)
        request = await queue.get()
        try:
            async with (
                httpx2.AsyncClient(transport=self._transport, headers=dict(server.headers), timeout=timeout) as http,
                Client(
                    streamable_http_client(server.url, http_client=http, max_sse_event_size=server.max_result_bytes)
                ) as client,
                asyncio.TaskGroup() as tasks,
            ):
                while True:
                    send, result = request
                    task = tasks.create_task(self._serve(client, send, result))
                    result.add_done_callback(partial(_cancel_with, task))
                    request = await queue.get()
        except Exception as error:
            result = request[1]
            if not result.done():
                result.set_exception(self._fault_of(error))
                result.exception()  # the waiter may have left

    async def _serve(
        self, client: Client, send: Callable[[Client], Awaitable[Any]], result: asyncio.Future[Any]
    ) -> None:
        try:
            value = await send(client)
        except Exception as error:
            if not result.done():
                result.set_exception(self._fault_of(error))
                result.exception()  # the waiter may have left
        else:
            if not result.done():
                result.set_result(value)

    def _fault_of(self, error: BaseException) -> McpFault:
        """Returns the fault that an exception of the library stands for."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, McpFault):
            return error
        if isinstance(error, MCPError):
            if self._transport.status is not None and self._transport.status >= 400 and error.code > -32100:
                return McpFault("http_error", error.message, code=self._transport.status)
            return McpFault("protocol_error", error.message, code=error.code)
        if isinstance(error, EgressRefused):
            return McpFault("egress_refused", str(error))
        if isinstance(error, ResultTooLarge):
            return McpFault("result_too_large", str(error))
        if isinstance(error, ValidationError):
            return McpFault("invalid_result", "the server's answer does not follow the protocol")
        if isinstance(error, httpx2.TransportError):
            return McpFault("connection_closed", "the server cannot be reached, or closed the connection")
        _log.warning("mcp_request_failed", server=self._server.label, exc_info=error)
        return McpFault("protocol_error", "the server's answer could not be read")


def _cancel_with(task: asyncio.Task[None], result: asyncio.Future[Any]) -> None:
    if result.cancelled():
        task.cancel()
