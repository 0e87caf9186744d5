"""Connections to MCP servers: the requests of one response to a server, over one session, or a new one after a loss."""

import asyncio
from contextlib import nullcontext
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    HEADER_MISMATCH,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
)
from pydantic import TypeAdapter

from gateway.tools.executors.executor import OnProgress
from gateway.tools.mcp.elicitation.requests import NO_INPUT, CallInput, InputRequired
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.request_record import current_record
from gateway.tools.mcp.results import find_structure_fault, mark_declined_input
from gateway.tools.mcp.server import McpServer
from gateway.tools.mcp.session import McpSession, SendRequest
from gateway.tools.mcp.tool_lists import ToolList, list_pages
from providers.egress import EgressClient

_T = TypeVar("_T")

_ANSWER: Final[TypeAdapter[CallToolResult | InputRequiredResult]] = TypeAdapter(CallToolResult | InputRequiredResult)

_PAUSES_S: Final = (0.05, 0.1, 0.2, *[0.25] * 7)
"""The pauses between calls if a server asks to be called again. Source: the official libraries."""


class McpConnection:
    """A connection, open inside of its `async with` block. The first request opens its session.

    Requests may run at the same time. Each raises McpFault, and can be cancelled.
    """

    def __init__(self, server: McpServer, egress: EgressClient) -> None:
        self._server = server
        self._egress = egress
        self._sessions: list[McpSession] = []
        self._output_schemas: dict[str, dict[str, Any]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the sessions, all at once."""
        # Not `gather`: cancellation would reach the sessions before they have begun to close.
        if self._sessions:
            start = asyncio.get_running_loop().create_task
            await asyncio.wait([start(session.close()) for session in self._sessions])

    async def list_tools(self, *, max_pages: int, deadline_s: float) -> ToolList:
        """Returns all tools of the server. Raises McpFault, also for a list that does not end."""
        listed = await self._request(lambda client: list_pages(client, max_pages), deadline_s)
        schemas = {tool.name: tool.output_schema for tool in listed.tools}
        self._output_schemas = {name: schema for name, schema in schemas.items() if schema is not None}
        return listed

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        *,
        max_pages: int,
        deadline_s: float,
        on_progress: OnProgress | None = None,
        call_input: CallInput = NO_INPUT,
    ) -> CallToolResult:
        """Calls a tool once. It is never repeated after it may have run. Raises McpFault if the call has no result.

        A result whose structured content does not follow the output schema of the tool becomes an error of the tool,
        which also has the texts of the result. It is checked if the tools were listed on this connection. `on_progress`
        gets the progress that the server reports; without it, the server is not asked for progress. Raises
        InputRequired, which is a McpFault, if the server asks for input.
        """
        result = await self._request(
            lambda client: call_once(client, call_input.build_params(name, arguments), max_pages, on_progress),
            deadline_s,
        )
        return check_structure(result, self._output_schemas.get(name))

    async def _request(self, send: SendRequest[_T], deadline_s: float) -> _T:
        if not self._sessions or not self._sessions[-1].is_usable:
            self._sessions.append(McpSession(self._server, self._egress))
        return await self._sessions[-1].request(send, deadline_s)


async def call_once(
    client: Client, params: CallToolRequestParams, max_pages: int, on_progress: OnProgress | None = None
) -> CallToolResult:
    """Calls a tool once. Raises InputRequired if the tool asks for input, and what the library raises.

    A server may split a long call into several: it answers with a state instead of a result, and asks for no input.
    Then the tool is called again with that state, after a pause.
    """
    record = current_record.get()
    watchers = None if on_progress is None or record is None else record.watchers
    watching = nullcontext() if on_progress is None or watchers is None else watchers.watch(on_progress)
    with watching as token:
        if token is not None:
            meta: Any = {**(params.meta or {}), "progress_token": token}
            params = params.model_copy(update={"meta": meta})
        for pause_s in _PAUSES_S:
            result = await _send_call(client, CallToolRequest(params=params), max_pages)
            if not isinstance(result, InputRequiredResult):
                return mark_declined_input(result) if record is not None and record.has_declined_input else result
            if result.input_requests:
                raise InputRequired(result)
            await asyncio.sleep(pause_s)
            params = params.model_copy(update={"request_state": result.request_state, "input_responses": None})
    raise McpFault("input_required", f"the tool asked to be called again more than {len(_PAUSES_S)} times")


async def _send_call(client: Client, request: CallToolRequest, max_pages: int) -> CallToolResult | InputRequiredResult:
    # Not `call_tool`: it lists the tools after a call that was not listed, and loses the result if that fails.
    try:
        return await client.session.send_request(request, _ANSWER)
    except MCPError as error:
        if error.code != HEADER_MISMATCH:
            raise
        # The server refused the call, because its headers do not follow the tool's schema, which is read first.
        await list_pages(client, max_pages)
        return await client.session.send_request(request, _ANSWER)


def check_structure(result: CallToolResult, schema: dict[str, Any] | None) -> CallToolResult:
    """Returns a result. It is an error of its tool if its structured content does not follow the output schema."""
    if schema is None or result.is_error or (fault := find_structure_fault(result, schema)) is None:
        return result
    return result.model_copy(update={"is_error": True, "content": [fault, *result.content]})
