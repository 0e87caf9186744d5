"""The MCP servers of one response: lists their tools, and finds the executors of their calls.

Connections are opened when they are needed.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from gateway.tools.approvals import ResponseApprovals
from gateway.tools.executors import McpExecutor, OperatorExecutor, ToolExecutor
from gateway.tools.host import ToolHost
from gateway.tools.mcp.connection import McpConnection
from gateway.tools.mcp.elicitation.requests import InputRules
from gateway.tools.mcp.operator_server import ToolListing
from gateway.tools.mcp.results import build_tool_item, is_read_only
from gateway.tools.mcp.tool_lists import describe_left_out
from gateway.tools.redacted_results import ResultRedactor
from gateway.tools.requested_servers import RequestedServer
from gateway.tools.tool_run import ToolRun
from translation.representation.json_types import Json

_NO_STORE: Final = "its calls need an approval, which needs a store"


class ListedTools(NamedTuple):
    """The tools of a server that the request may use, in the form of an `mcp_list_tools` item, and a note about
    unusable tools."""

    items: list[Json]
    note: str | None


class ResponseServers:
    """The servers of one response, by their labels.

    `read_input_rules` returns the rules for requests for input, when calls are run. `takes_approvals`: calls can be
    approved. Otherwise tools that need an approval are left out.
    """

    def __init__(
        self,
        servers: Sequence[RequestedServer],
        host: ToolHost,
        redactor: ResultRedactor,
        read_input_rules: Callable[[], InputRules],
        *,
        takes_approvals: bool,
        sees_images: bool,
    ) -> None:
        self._servers: Final = servers
        self._host: Final = host
        self._redactor: Final = redactor
        self._read_input_rules: Final = read_input_rules
        self._takes_approvals: Final = takes_approvals
        self._sees_images: Final = sees_images
        self._connections: dict[str, McpConnection] = {}
        self._listings: dict[str, ToolListing | None] = {}
        """The lists of the operator's servers that the response uses until its end."""

    def pin_listing(self, requested: RequestedServer) -> None:
        """Uses the current list of an operator's server for the calls of the response."""
        if requested.operator is not None:
            self._listings[requested.label] = requested.operator.listing

    def find_known_tools(self, requested: RequestedServer) -> ListedTools | None:
        """Returns the tools of an operator's server if the gateway has a current list; otherwise None."""
        listing = None if requested.operator is None else requested.operator.fresh_listing
        return None if listing is None else self._select_listed(requested, listing)

    async def list_tools(self, requested: RequestedServer, *, must_be_fresh: bool) -> ListedTools:
        """Returns the tools of a server. `must_be_fresh`: they are requested even if they are known. Raises
        McpFault."""
        if requested.operator is not None:
            listing = await requested.operator.list_tools(must_be_fresh=must_be_fresh)
            return self._select_listed(requested, listing)
        settings = self._host.settings
        pages = await self._connect(requested).list_tools(
            max_pages=settings.max_list_pages, deadline_s=settings.list_deadline_s
        )
        listed = await pages.check(
            lambda tool: requested.allows(tool.name, is_read_only=is_read_only(tool)),
            requested.server.schema_limits,
            settings.max_tools,
        )
        items = await self._redactor.redact_json([build_tool_item(tool) for tool in listed.tools])
        return self._leave_out(requested, items, listed.left_out)

    def find_executor(self, label: str) -> ToolExecutor:
        """Returns the executor of the calls of a server."""
        requested = next(each for each in self._servers if each.label == label)
        if requested.operator is None:
            return McpExecutor(
                self._connect(requested),
                self._read_input_rules(),
                deadline_s=self._host.settings.call_deadline_s,
                max_pages=self._host.settings.max_list_pages,
                sees_images=self._sees_images,
            )
        listing = self._listings.get(label)
        schemas = {} if listing is None else listing.output_schemas
        return OperatorExecutor(requested.operator, schemas, self._read_input_rules(), sees_images=self._sees_images)

    async def close(self) -> None:
        """Closes the connections that were opened, all at once."""
        # Not `gather`: cancellation would reach the sessions before they have begun to close.
        if self._connections:
            start = asyncio.get_running_loop().create_task
            await asyncio.wait([start(connection.close()) for connection in self._connections.values()])

    def _connect(self, requested: RequestedServer) -> McpConnection:
        """Returns the connection to a server whose URL the request gives. Its first request opens it."""
        connection = self._connections.get(requested.label)
        if connection is None:
            connection = McpConnection(requested.server, self._host.egress)
            self._connections[requested.label] = connection
        return connection

    def _select_listed(self, requested: RequestedServer, listing: ToolListing) -> ListedTools:
        """Returns the tools of the list of an operator's server that the request may use."""
        self._listings[requested.label] = listing
        items = [
            item
            for item in listing.items
            if requested.allows(item["name"], is_read_only=item["annotations"]["read_only"])
        ]
        return self._leave_out(requested, items, listing.left_out)

    def _leave_out(self, requested: RequestedServer, items: list[Json], left_out: Mapping[str, str]) -> ListedTools:
        """Returns the tools, without those that cannot be approved. The note is about these and the tools in
        `left_out`."""
        if not self._takes_approvals:
            unusable = [item["name"] for item in items if _asks_for_approval(requested, item)]
            left_out = {**left_out, **dict.fromkeys(unusable, _NO_STORE)}
            items = [item for item in items if item["name"] not in unusable]
        # It is unknown whether a tool that is left out is read-only.
        relevant = {
            name: reason
            for name, reason in left_out.items()
            if any(requested.allows(name, is_read_only=each) for each in (True, False))
        }
        return ListedTools(items, describe_left_out(relevant))


def _asks_for_approval(requested: RequestedServer, item: Json) -> bool:
    """Whether a call of a listed tool needs an approval."""
    return requested.needs_approval(item["name"], is_read_only=item["annotations"]["read_only"])


def read_input_rules(host: ToolHost, tool_run: ToolRun, approvals: ResponseApprovals | None) -> InputRules:
    """Returns the rules for requests for input. It is called when the exchange is open, because `tool_run` is then
    complete.

    A client that answers one request can answer others.
    """
    settings = host.settings
    takes_input = tool_run.takes_input or bool(approvals and approvals.answers.inputs)
    return InputRules(
        takes_input=takes_input and approvals is not None,
        max_rounds=settings.input_rounds,
        max_bytes=int(settings.max_input_kb * 1024),
        schema_limits=settings.schema_limits,
    )
