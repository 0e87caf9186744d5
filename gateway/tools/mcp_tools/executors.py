"""Executors of tools of MCP servers. This module imports the MCP library, so it is imported when a tool is needed."""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Final

import orjson
from mcp_types import CallToolResult

from dataplane.sharing.work_pool import run_in_pool
from gateway.config.tool_settings import McpSettings
from gateway.tools.executors.executor import Allows, CacheKey, ListedTools, OnProgress, ToolExecutor, ToolSource
from gateway.tools.executors.kind import ResponseContext
from gateway.tools.executors.wrappers import ApprovalRequiredExecutor, FilteredExecutor, PrefixedExecutor
from gateway.tools.mcp.connection import McpConnection
from gateway.tools.mcp.elicitation.requests import InputRequired, InputRules
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.operator_server import OperatorServer, ToolListing
from gateway.tools.mcp.results import build_outcome, build_tool_item, is_read_only
from gateway.tools.mcp_tools.requested_servers import RequestedServer
from gateway.tools.mcp_tools.session_limits import SessionLimits
from providers.egress import EgressClient
from translation.hosted.calls import HostedCall
from translation.hosted.outcomes import ToolOutcome
from translation.hosted.tools import HostedTool, ToolKey
from translation.representation.json_types import Json


def open_executor(
    requested: RequestedServer,
    settings: McpSettings,
    egress: EgressClient,
    sessions: SessionLimits,
    context: ResponseContext,
) -> ToolExecutor:
    """Returns the executor of a server, under the rules of the request. It is connected when it is first needed."""
    inner: ToolExecutor
    if requested.operator is None:
        inner = McpExecutor(requested, settings, McpConnection(requested.server, egress), sessions, context)
    else:
        inner = OperatorExecutor(requested, requested.operator, settings, context)
    filtered = FilteredExecutor(inner, requested.allows, {"allowed_tools": requested.allowed_tools})
    named = PrefixedExecutor(filtered, requested.prefix)
    return ApprovalRequiredExecutor(named, requested.needs_approval, requested.approval_rule, can_ask=context.can_ask)


class _ServerExecutor(ABC):
    """What executors of servers have in common: how a call becomes an outcome, and a list becomes tools."""

    def __init__(self, requested: RequestedServer, settings: McpSettings, context: ResponseContext) -> None:
        self._requested: Final = requested
        self._settings: Final = settings
        self._context: Final = context

    @property
    def source(self) -> ToolSource:
        is_own = self._requested.operator is None
        return ToolSource(
            label=self._requested.label,
            is_added=self._requested.is_added,
            trusts_past_lists=is_own,
            has_clean_lists=not is_own,
        )

    def build_tools(self, definitions: Sequence[Json]) -> list[HostedTool]:
        requested = self._requested
        return [
            HostedTool(
                key=ToolKey(requested.label, definition["name"]),
                parameters=definition["input_schema"],
                description=definition.get("description"),
                is_read_only=bool((definition.get("annotations") or {}).get("read_only")),
                origin=requested.server.origin,
                is_repeatable=requested.may_repeat(definition["name"]),
                is_deferred=requested.is_deferred,
            )
            for definition in definitions
        ]

    async def run(self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None = None) -> ToolOutcome:
        rules = self._read_input_rules()
        try:
            result = await self._call_tool(call, deadline_s, on_progress, rules)
        except InputRequired as required:
            return rules.build_outcome(required, call.user_input)
        except McpFault as fault:
            return fault.as_outcome()
        # A result may have thousands of images.
        return await run_in_pool(build_outcome, result, sees_images=self._context.sees_images)

    @abstractmethod
    async def _call_tool(
        self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None, rules: InputRules
    ) -> CallToolResult:
        """Raises McpFault."""

    def _read_input_rules(self) -> InputRules:
        settings, context = self._settings, self._context
        return InputRules(
            takes_input=context.can_ask and context.takes_input(),
            max_rounds=settings.input_rounds,
            max_bytes=int(settings.max_input_kb * 1024),
            schema_limits=settings.schema_limits,
        )


class McpExecutor(_ServerExecutor):
    """Tools of a server whose URL the request gives, over a connection of the response. A call with an unknown outcome
    is not repeated."""

    def __init__(
        self,
        requested: RequestedServer,
        settings: McpSettings,
        connection: McpConnection,
        sessions: SessionLimits,
        context: ResponseContext,
    ) -> None:
        super().__init__(requested, settings, context)
        self._connection: Final = connection
        self._sessions: Final = sessions
        self._is_counted = False
        """Whether the connection is among those that the owner has open."""

    @property
    def cache_key(self) -> CacheKey:
        return CacheKey([self._requested.identity])

    def list_secrets(self) -> Sequence[str]:
        return ()  # they are those of the request

    def find_known_tools(self, allows: Allows) -> ListedTools | None:
        return None

    async def list_tools(self, allows: Allows, *, must_be_fresh: bool = False) -> ListedTools:
        settings = self._settings
        self._count_connection()
        await self._sessions.take_turn(self._context.owner, settings.list_deadline_s)
        pages = await self._connection.list_tools(
            max_pages=settings.max_list_pages, deadline_s=settings.list_deadline_s
        )
        listed = await pages.check(
            lambda tool: allows(tool.name, is_read_only(tool)), settings.schema_limits, settings.max_tools
        )
        return ListedTools([build_tool_item(tool) for tool in listed.tools], _select_left_out(listed.left_out, allows))

    def keep_list(self) -> None:
        """Does nothing: a call needs no list."""

    async def _call_tool(
        self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None, rules: InputRules
    ) -> CallToolResult:
        self._count_connection()
        return await self._connection.call_tool(
            call.key.name,
            _read_arguments(call.arguments),
            max_pages=self._settings.max_list_pages,
            deadline_s=min(deadline_s, self._settings.call_deadline_s),
            on_progress=on_progress,
            call_input=rules.build_call_input(call.user_input),
        )

    async def close(self) -> None:
        try:
            await self._connection.close()
        finally:
            if self._is_counted:
                self._is_counted = False
                self._sessions.end(self._context.owner)

    def _count_connection(self) -> None:
        """Counts the connection before it is opened. Raises McpFault."""
        if not self._is_counted:
            self._sessions.begin(self._context.owner)
            self._is_counted = True


class OperatorExecutor(_ServerExecutor):
    """Tools of a server of the configuration, over its connection. The operator decides which may be repeated."""

    def __init__(
        self, requested: RequestedServer, operator: OperatorServer, settings: McpSettings, context: ResponseContext
    ) -> None:
        super().__init__(requested, settings, context)
        self._operator: Final = operator
        self._listing: ToolListing | None = None
        """The list that the response uses until its end."""

    @property
    def cache_key(self) -> CacheKey:
        # The properties of its tools also depend on its current list.
        return CacheKey([self._requested.identity], (self._operator, self._operator.listing))

    def list_secrets(self) -> Sequence[str]:
        tokens = self._operator.settings.server.tokens
        return [*self._requested.list_secrets(), *(tokens.list_secrets() if tokens is not None else ())]

    def find_known_tools(self, allows: Allows) -> ListedTools | None:
        listing = self._operator.fresh_listing
        return None if listing is None else self._select_tools(listing, allows)

    async def list_tools(self, allows: Allows, *, must_be_fresh: bool = False) -> ListedTools:
        return self._select_tools(await self._operator.list_tools(must_be_fresh=must_be_fresh), allows)

    def keep_list(self) -> None:
        self._listing = self._operator.listing

    async def _call_tool(
        self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None, rules: InputRules
    ) -> CallToolResult:
        name = call.key.name
        schemas = {} if self._listing is None else self._listing.output_schemas
        call_input = rules.build_call_input(call.user_input)
        try:
            async with asyncio.timeout(None if deadline_s == inf else deadline_s):
                arguments = _read_arguments(call.arguments)
                return await self._operator.call_tool(name, arguments, schemas.get(name), on_progress, call_input)
        except TimeoutError:
            raise McpFault("timeout", f"no answer within {deadline_s:g} s") from None

    async def close(self) -> None:
        """Does nothing: the connection outlives the response."""

    def _select_tools(self, listing: ToolListing, allows: Allows) -> ListedTools:
        self._listing = listing
        items = [item for item in listing.items if allows(item["name"], item["annotations"]["read_only"])]
        return ListedTools(items, _select_left_out(listing.left_out, allows))


def _read_arguments(text: str) -> dict[str, Any]:
    """Returns checked arguments. Not with `orjson` first, which rounds integers of more than 64 bits."""
    arguments: dict[str, Any]
    try:
        arguments = json.loads(text)
    except ValueError:  # an integer of more than 4300 digits
        arguments = orjson.loads(text)
    return arguments


def _select_left_out(left_out: Mapping[str, str], allows: Allows) -> Mapping[str, str]:
    """Returns the unusable tools that the request might use: it is unknown whether one of them is read-only."""
    return {name: reason for name, reason in left_out.items() if any(allows(name, each) for each in (True, False))}
