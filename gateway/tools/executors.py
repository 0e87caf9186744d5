"""Executors of hosted tools: one for each server, and one for the gateway's own tools."""

import asyncio
from collections.abc import Mapping
from math import inf
from typing import Any, Protocol

import orjson
from mcp_types import CallToolResult

from gateway.tools.mcp.connection import McpConnection
from gateway.tools.mcp.elicitation.requests import InputRequired, InputRules
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.operator_server import OperatorServer
from gateway.tools.mcp.request_record import OnProgress
from gateway.tools.mcp.results import build_outcome
from translation.hosted.calls import HostedCall
from translation.hosted.outcomes import ToolOutcome, build_execution_error
from translation.hosted.result_reader import ResultReader


class ToolExecutor(Protocol):
    """Runs calls of the tools of one server. Several may run at once."""

    async def run(self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None = None) -> ToolOutcome:
        """Runs a call with checked arguments, and returns its outcome, also if it failed.

        `deadline_s` is the remaining time of the response, which may be infinite. `on_progress` gets the progress that
        the server reports.

        The buffered result is never larger than the limit of its server. If the task is cancelled, the call is
        cancelled at the server, and no task of it remains.
        """
        ...


class McpExecutor:
    """Calls tools over a connection of the response. A call with an unknown outcome is not repeated."""

    def __init__(
        self,
        connection: McpConnection,
        input_rules: InputRules,
        *,
        deadline_s: float,
        max_pages: int,
        sees_images: bool,
    ) -> None:
        self._connection = connection
        self._input_rules = input_rules
        self._deadline_s = deadline_s
        self._max_pages = max_pages
        self._sees_images = sees_images

    async def run(self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None = None) -> ToolOutcome:
        arguments: dict[str, Any] = orjson.loads(call.arguments)
        try:
            result = await self._connection.call_tool(
                call.key.name,
                arguments,
                max_pages=self._max_pages,
                deadline_s=min(deadline_s, self._deadline_s),
                on_progress=on_progress,
                call_input=self._input_rules.build_call_input(call.user_input),
            )
        except InputRequired as required:
            return self._input_rules.build_outcome(required, call.user_input)
        except McpFault as fault:
            return fault.as_outcome()
        return build_outcome(result, sees_images=self._sees_images)


class OperatorExecutor:
    """Calls tools of a server of the configuration, over its connection. The operator decides which may be repeated.

    `output_schemas` are the output schemas of the tools in the list of this response.
    """

    def __init__(
        self,
        server: OperatorServer,
        output_schemas: Mapping[str, dict[str, Any]],
        input_rules: InputRules,
        *,
        sees_images: bool,
    ) -> None:
        self._server = server
        self._input_rules = input_rules
        self._output_schemas = output_schemas
        self._sees_images = sees_images

    async def run(self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None = None) -> ToolOutcome:
        arguments: dict[str, Any] = orjson.loads(call.arguments)
        name = call.key.name
        call_input = self._input_rules.build_call_input(call.user_input)
        try:
            async with asyncio.timeout(None if deadline_s == inf else deadline_s):
                result: CallToolResult = await self._server.call_tool(
                    name, arguments, self._output_schemas.get(name), on_progress, call_input
                )
        except InputRequired as required:
            return self._input_rules.build_outcome(required, call.user_input)
        except McpFault as fault:
            return fault.as_outcome()
        except TimeoutError:
            return McpFault("timeout", f"no answer within {deadline_s:g} s").as_outcome()
        return build_outcome(result, sees_images=self._sees_images)


class ReadResultExecutor:
    """Runs calls that read the rest of shortened results. They have no side effects, so they may be repeated."""

    def __init__(self, reader: ResultReader) -> None:
        self._reader = reader

    async def run(self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None = None) -> ToolOutcome:
        arguments = orjson.loads(call.arguments)
        try:
            async with asyncio.timeout(None if deadline_s == inf else deadline_s):
                return await asyncio.to_thread(self._reader.read, arguments)  # a result may have megabytes
        except TimeoutError:
            return build_execution_error(f"timeout: no answer within {deadline_s:g} s")
