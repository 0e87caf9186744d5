"""Decides which tools of a request the gateway runs, and opens their executors."""

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.config.settings import EgressSettings
from gateway.config.tool_settings import McpSettings, ToolSearchSettings, ToolSettings
from gateway.retrieval.embedding import Embedder
from gateway.retrieval.parsing.parsed_text import ParsingBounds
from gateway.state.vector_records import VectorStores
from gateway.tools.catalogue_cache import CatalogueCache
from gateway.tools.code_interpreter.kind import CodeInterpreterTools
from gateway.tools.executors.executor import ToolExecutor
from gateway.tools.executors.kind import ResponseContext, ToolKind
from gateway.tools.file_search.kind import FileSearchTools
from gateway.tools.mcp_tools.kind import McpTools
from gateway.tools.operator_servers.servers import OperatorServers
from gateway.tools.tool_search.kind import ToolSearchTools
from gateway.tools.web_search.kind import WebSearchTools
from providers.egress import EgressClient
from translation.errors import InvalidRequest
from translation.hosted.call_forms import CallForm
from translation.hosted.tool_search.deferred_tools import MCP
from translation.lowering.client_search import TOOL_SEARCH
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn

if TYPE_CHECKING:
    from gateway.config.mapped_tools.settings import HostedToolName
    from gateway.tools.mapped_tools.mapped_tool import MappedTool


class KindParts(NamedTuple):
    """The parts of kinds of tools: the settings `tools`, the guard of addresses that others name, and the store."""

    settings: ToolSettings
    egress: EgressClient
    vector_stores: VectorStores | None = None
    """The vector stores that are searched; None without a store."""
    embedder: Embedder | None = None
    """Makes the vectors of queries; None if stores are searched by words alone."""
    operator_servers: OperatorServers | None = None
    """The MCP servers, of which a tool may stand for a hosted tool."""

    def find_mapped_tool(self, tool: "HostedToolName") -> "MappedTool | None":
        """Returns the tool of an MCP server that stands for a hosted tool; None if there is none."""
        if not any(own.mapped_tools for own in self.settings.mcp.servers.values()):
            return None
        from gateway.tools.mapped_tools.mapped_tool import find_mapped_tool

        return find_mapped_tool(self.settings.mcp, self.operator_servers, tool)


def _build_web_search(parts: KindParts) -> ToolKind:
    settings = parts.settings.web_search
    search = parts.settings.file_search
    seconds = min(search.parse_s, settings.page_deadline_s)
    bounds = ParsingBounds(seconds, search.parse_mb, search.parse_chars)
    return WebSearchTools(settings, parts.egress, bounds, parts.find_mapped_tool("web_search"))


def _build_tool_search(parts: KindParts) -> ToolKind:
    return ToolSearchTools(parts.settings.tool_search)


def _build_file_search(parts: KindParts) -> ToolKind:
    return FileSearchTools(parts.vector_stores, parts.embedder, parts.find_mapped_tool("file_search"))


def _build_code_interpreter(parts: KindParts) -> ToolKind:
    return CodeInterpreterTools(parts.find_mapped_tool("code_interpreter"))


KIND_BUILDERS: Final[Sequence[Callable[[KindParts], ToolKind]]] = (
    _build_web_search,
    _build_tool_search,
    _build_file_search,
    _build_code_interpreter,
)
"""Build the kinds of tools besides those of MCP servers."""


def build_kinds(parts: KindParts) -> list[ToolKind]:
    """Returns the kinds of tools of this configuration besides those of MCP servers."""
    return [build(parts) for build in KIND_BUILDERS]


def build_egress(settings: EgressSettings) -> EgressClient:
    """Returns the guard of all connections to addresses that requests name."""
    return EgressClient(
        allow=settings.allow, max_bytes=int(settings.max_mb * 1024 * 1024), deadline_s=settings.deadline_s
    )


class ToolHost:
    """Knows which tools the gateway runs, and has what their loops share. There is one per configuration.

    MCP servers are one kind of tools; `kinds` are the others. `has_store` says whether approvals can be stored.
    `search` has the limits of searches for tools.
    """

    def __init__(
        self,
        settings: McpSettings,
        egress: EgressClient,
        operator_servers: OperatorServers | None = None,
        *,
        has_store: bool,
        kinds: Sequence[ToolKind] = (),
        search: ToolSearchSettings | None = None,
    ) -> None:
        self.settings: Final = settings
        self.catalogues: Final = CatalogueCache(settings.max_tools, search)
        self._searches_unasked: Final = search is not None and search.auto is not None
        self._mcp = McpTools(settings, egress, operator_servers, has_store=has_store)
        self._others = kinds
        self._owner = ""
        self.prepared: ToolHost | None = None
        """The host that was prepared for a request, before it was known which of its tools an upstream runs itself;
        None if there was nothing to prepare."""

    @property
    def forms(self) -> Mapping[str, CallForm]:
        """The forms of the calls of all kinds, by the types of their items."""
        return {item_type: form for kind in self._kinds for item_type, form in kind.forms.items()}

    @property
    def sealed_types(self) -> frozenset[str]:
        """The types of the items whose results are sealed for the client. Those of MCP servers are readable."""
        return frozenset(item_type for kind in self._others for item_type in kind.forms)

    def restrict_to_key(self, allowed: Sequence[str]) -> "ToolHost":
        """Returns the host for a key that may use the operator's servers whose labels match one of these patterns."""
        if "*" in allowed:
            return self
        others = [kind.restrict_to_key(allowed) for kind in self._others]
        return self._replace_kinds(self._mcp.restrict_to_key(allowed), others)

    def serve_owner(self, owner: str) -> "ToolHost":
        """Returns the host for the requests of one owner."""
        host = copy(self)
        host._owner = owner
        return host

    async def prepare(self, tools: Sequence[Json], added: Sequence[Json], owner: str) -> "ToolHost":
        """Returns the host for a request with these hosted tools, besides those that its model `added`, once it is
        known what they name. Raises StoreUnavailable."""
        others = [await kind.prepare(tools, added, owner) for kind in self._others]
        if all(map(operator.is_, others, self._others)):
            return self
        host = self._replace_kinds(self._mcp, others)
        host.prepared = host
        return host

    def leave_to_upstream(self, hosted_tools: Collection[str]) -> "ToolHost":
        """Returns the host for an upstream that runs these kinds of tools itself."""
        if not hosted_tools:
            return self
        others = [kind.leave_to_upstream(hosted_tools) for kind in self._others]
        return self._replace_kinds(self._mcp.leave_to_upstream(hosted_tools), others)

    def runs_tool(self, tool: Json) -> bool:
        """Whether the gateway runs this tool. It may also be a tool choice."""
        return any(kind.runs_tool(tool) for kind in self._kinds)

    def runs_any_tool(self, tools: Sequence[Json] | None) -> bool:
        """Whether the gateway runs at least one of these tools."""
        # Functions are the client's, and most tools are functions.
        return any(self.runs_tool(tool) for tool in tools or () if tool.get("type") != "function")

    def list_callable_labels(self, tools: Sequence[Json], model_servers: Sequence[str]) -> list[str]:
        """Returns the labels of the MCP servers whose tools the gateway may call: those of `tools`, and those of the
        model's configuration that the principal may use."""
        return [*self._mcp.list_labels(tools), *self._mcp.list_usable_labels(model_servers)]

    def list_usable_labels(self, labels: Sequence[str]) -> list[str]:
        """Returns the labels of a model's configuration whose MCP servers the principal may use."""
        return self._mcp.list_usable_labels(labels)

    def build_model_tools(self, tools: Sequence[Json] | None, labels: Sequence[str]) -> list[Json]:
        """Returns tools for the MCP servers that a model's configuration names and `tools` does not name."""
        return self._mcp.build_model_tools(tools, labels)

    def defers_tools(self, tools: Sequence[Json]) -> bool:
        """Whether the model of a request with these tools searches for those that are deferred: the request has a
        search that the gateway runs, or the configuration gives one to all requests with MCP servers."""
        return any(
            tool["type"] == TOOL_SEARCH or (self._searches_unasked and tool["type"] == MCP)
            for tool in tools
            if self.runs_tool(tool)
        )

    def find_losses(self, tools: Sequence[Json]) -> list[Loss]:
        """Returns what the gateway cannot honour of the tools that it runs."""
        return [loss for kind in self._kinds for loss in kind.find_losses(tools)]

    def remove_hosted_tools(self, turn: Turn) -> Turn:
        """Returns the turn without the tools that the gateway runs."""
        return replace(turn, tools=[tool for tool in turn.tools if not self.runs_tool(tool)])

    def open_executors(self, tools: Sequence[Json], context: ResponseContext) -> list[ToolExecutor]:
        """Returns the executors of the tools that the gateway runs. Raises InvalidRequest for tools that cannot be run
        as the request names them."""
        context = replace(context, owner=self._owner)
        executors = [executor for kind in self._kinds for executor in kind.open_executors(tools, context)]
        labels = {executor.source.label for executor in executors}
        if len(labels) < len(executors):
            raise InvalidRequest(
                "an MCP server has the server_label of a hosted tool: give it another one",
                param="tools",
                code="duplicate_server_label",
            )
        return executors

    @property
    def _kinds(self) -> Sequence[ToolKind]:
        return (self._mcp, *self._others)

    def _replace_kinds(self, mcp: McpTools, others: Sequence[ToolKind]) -> "ToolHost":
        host = copy(self)
        host._mcp, host._others = mcp, others
        return host
