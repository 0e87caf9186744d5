"""The kind `tool_search`: it runs for requests that ask for it, and for those with more tools than a model handles
well."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from typing import Final

from gateway.config.tool_settings import ToolSearchSettings
from gateway.tools.executors.executor import ToolExecutor
from gateway.tools.executors.kind import ResponseContext, ToolKind, find_only_tool, find_unread_keys
from gateway.tools.tool_search.executor import ToolSearchExecutor
from translation.hosted.call_forms import CallForm
from translation.hosted.tool_search.deferred_tools import AUTO_SEARCH, DEFERRED_SEARCH, MCP, defers_any
from translation.hosted.tool_search.search_form import SEARCH_FORM
from translation.lowering.client_search import TOOL_SEARCH
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_CLIENT: Final = "client"
_KNOWN_KEYS: Final = frozenset({"type", "execution"})


class ToolSearchTools:
    """Runs searches for tools, unless the client or the upstream does."""

    forms: Mapping[str, CallForm] = {SEARCH_FORM.item_type: SEARCH_FORM}

    def __init__(self, settings: ToolSearchSettings) -> None:
        self._settings: Final = settings
        self._is_on = True

    def runs_tool(self, tool: Json) -> bool:
        return self._is_on and tool.get("type") == TOOL_SEARCH and tool.get("execution") != _CLIENT

    async def prepare(self, tools: Sequence[Json], added: Sequence[Json], owner: str) -> ToolKind:
        return self

    def restrict_to_key(self, allowed_servers: Sequence[str]) -> ToolKind:
        return self

    def leave_to_upstream(self, hosted_tools: Collection[str]) -> ToolKind:
        if TOOL_SEARCH not in hosted_tools:
            return self
        left = copy(self)
        left._is_on = False
        return left

    def find_losses(self, tools: Sequence[Json]) -> Iterator[Loss]:
        searches = any(map(self.runs_tool, tools))
        for position, tool in enumerate(tools):
            if self.runs_tool(tool):
                yield from find_unread_keys(tool, position, _KNOWN_KEYS)
            elif tool.get("defer_loading") and not searches and tool["type"] == MCP and self._settings.auto is None:
                yield Loss(f"tools[{position}].defer_loading", "dropped")

    def open_executors(self, tools: Sequence[Json], context: ResponseContext) -> list[ToolExecutor]:
        position = find_only_tool(tools, self.runs_tool, "a request may have one search for tools")
        results = self._settings.results
        if position is not None:
            return [ToolSearchExecutor(TOOL_SEARCH, results, context.deferred)]
        if self._searches_unasked(tools):
            label = DEFERRED_SEARCH if defers_any(tools) else AUTO_SEARCH
            return [ToolSearchExecutor(label, results, context.deferred)]
        return []

    def _searches_unasked(self, tools: Sequence[Json]) -> bool:
        """Whether the configuration gives a request a search that does not ask for one."""
        return self._settings.auto is not None and any(tool.get("type") == MCP for tool in tools)
