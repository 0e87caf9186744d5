"""A tool of the operator's MCP servers that is run as a hosted tool."""

import asyncio
from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final

import structlog

from dataplane.sharing.work_pool import run_in_pool
from gateway.config.mapped_tools.settings import HostedToolName, MappedToolSettings
from gateway.config.tool_settings import McpSettings
from gateway.tools.executors.executor import OnProgress
from gateway.tools.mapped_tools.found_entries import EntryLimits, FoundEntry, MappedToolFailed, read_entries
from gateway.tools.mcp.errors import McpFault
from gateway.tools.operator_servers.servers import OperatorServers, matches_any
from providers.redaction import Redactor
from translation.hosted.bounds import AnswerLimits

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_log = structlog.get_logger(__name__)

_DETAIL_CHARS: Final = 500


class MappedTool:
    """Calls one tool of a server. There is one object for a configuration, and all responses use it."""

    def __init__(
        self, label: str, name: str, settings: MappedToolSettings, servers: OperatorServers, limits: AnswerLimits
    ) -> None:
        self.label: Final = label
        """The label of its server."""
        self.settings: Final = settings
        self._name: Final = name
        self._servers: Final = servers
        self.limits: Final = limits
        """The bounds of JSON in the text of a result."""

    def is_allowed(self, allowed: Sequence[str]) -> bool:
        """Whether a key may use it that may use servers whose labels match one of these patterns."""
        return matches_any(self.label, allowed)

    def takes(self, argument: str) -> bool:
        """Whether the tool has an argument for this."""
        return argument in self.settings.arguments

    def list_secrets(self) -> Sequence[str]:
        """Returns the current credentials of its server."""
        return self._servers.list_secrets(self.label)

    async def search(
        self, query: str, values: Mapping[str, Any], deadline_s: float, wanted: EntryLimits
    ) -> Sequence[FoundEntry]:
        """Returns what the tool finds for a query. `values` are further arguments, by the gateway's names: those that
        the tool does not have are left out. Raises MappedToolFailed."""
        result = await self.call({"query": query, "queries": [query], **values}, deadline_s)
        redactor = Redactor(self.list_secrets())
        try:
            if result.is_error:
                raise MappedToolFailed("tool_error", _read_detail(result, redactor))
            # A result may have megabytes.
            return await run_in_pool(read_entries, result, self.settings.result, wanted, self.limits, redactor)
        except MappedToolFailed as failed:
            raise self.report(failed) from None

    async def call(
        self, values: Mapping[str, Any], deadline_s: float, on_progress: OnProgress | None = None
    ) -> "CallToolResult":
        """Returns the result of a call with these arguments, by the gateway's names. It may be an error of the tool.

        Raises MappedToolFailed if there is no result.
        """
        given = {name: value for name, value in values.items() if value is not None}
        arguments = {theirs: given[ours] for ours, theirs in self.settings.arguments.items() if ours in given}
        try:
            return await self._call(arguments, deadline_s, on_progress)
        except MappedToolFailed as failed:
            raise self.report(failed) from None

    def report(self, failed: MappedToolFailed) -> MappedToolFailed:
        """Logs why a call has no result that can be used, and returns it."""
        _log.warning("mapped_tool_failed", server=self.label, tool=self.settings.tool, why=failed.why)
        return failed

    async def _call(
        self, arguments: dict[str, Any], deadline_s: float, on_progress: OnProgress | None
    ) -> "CallToolResult":
        server = self._servers.find(self.label)
        if server is None:
            raise MappedToolFailed("server_removed")
        try:
            async with asyncio.timeout(None if deadline_s == inf else deadline_s):
                listing = await server.list_tools()
                if listing.find(self._name) is None:
                    raise MappedToolFailed("the server does not list the tool")
                schema = listing.output_schemas.get(self._name)
                return await server.call_tool(self._name, arguments, schema, on_progress)
        except McpFault as fault:
            raise MappedToolFailed(fault.kind) from None
        except TimeoutError:
            raise MappedToolFailed("timeout") from None


def find_mapped_tool(settings: McpSettings, servers: OperatorServers | None, tool: HostedToolName) -> MappedTool | None:
    """Returns the tool that is run as a hosted tool; None if the configuration has none."""
    for label, own in settings.servers.items():
        for name, mapped in own.mapped_tools.items():
            if mapped.tool == tool and servers is not None:
                return MappedTool(label, name, mapped, servers, settings.answer_limits)
    return None


def _read_detail(result: "CallToolResult", redactor: Redactor) -> str:
    """Returns the beginning of what a tool says of its error, on one line."""
    text = next((each.text for each in result.content if each.type == "text"), "")
    return " ".join(redactor.redact_beginning(text, _DETAIL_CHARS).split())
