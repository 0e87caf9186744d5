"""The tools of one response that the model does not see before a search has loaded them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from translation.hosted.tools import HostedTool, ToolCatalogue
from translation.lowering.client_search import DEFER_LOADING, OUTPUT_ITEM, TOOL_SEARCH, is_of_server, iterate_names
from translation.representation.json_types import Item, Json

AUTO_SEARCH: Final = "tool_search_auto"
"""The `server` of a search that the request did not ask for."""

DEFERRED_SEARCH: Final = "tool_search_deferred"
"""The `server` of a search that the request asked for only by deferring some of its tools."""

MCP: Final = "mcp"
_NAMESPACE: Final = "namespace"
_MAX_TEXT_CHARS: Final = 4000


class DeferredTool(NamedTuple):
    """A tool that is found by a search. `name` is the model's name of it, behind its namespace if it has one."""

    name: str
    tool: Json
    """The tool as the model gets it, once it is loaded."""
    text: str
    """The text that a search examines: the name, the description and the names of the parameters."""
    is_own: bool
    """Whether the client runs it."""


class DeferredTools:
    """The deferred tools of one response, and which of them are loaded. A loaded tool stays loaded."""

    def __init__(self) -> None:
        self._tools: dict[str, DeferredTool] = {}
        self._loaded: dict[str, DeferredTool] = {}

    def __bool__(self) -> bool:
        return bool(self._tools)

    def fill(self, tools: Iterable[DeferredTool]) -> None:
        """Sets the tools. Of two with one name the first one counts."""
        for tool in tools:
            self._tools.setdefault(tool.name, tool)

    @property
    def tools(self) -> Sequence[DeferredTool]:
        return [*self._tools.values()]

    @property
    def own_names(self) -> frozenset[str]:
        """The names of the tools that the client runs."""
        return frozenset(name for name, tool in self._tools.items() if tool.is_own)

    def load(self, names: Iterable[str]) -> list[Json]:
        """Loads the tools with these names, and returns them in this order. Unknown names are skipped."""
        loaded = [self._tools[name] for name in names if name in self._tools]
        for tool in loaded:
            self._loaded.setdefault(tool.name, tool)
        return [{**tool.tool, DEFER_LOADING: True} for tool in loaded]

    def load_from_history(self, items: Iterable[Item]) -> None:
        """Loads the tools that searches of earlier turns have loaded."""
        for item in items:
            if item["type"] == OUTPUT_ITEM and is_of_server(item):
                self.load(iterate_names(item.get("tools")))

    def list_loaded(self, *, with_hosted: bool) -> list[Json]:
        """Returns the loaded tools in the order in which they were loaded, so that they follow all earlier ones."""
        return [tool.tool for tool in self._loaded.values() if with_hosted or tool.is_own]


def split_deferred(tools: Sequence[Json]) -> tuple[list[Json], list[DeferredTool]]:
    """Returns the client's tools that the model sees at once, and those that it has to search for."""
    visible: list[Json] = []
    deferred: list[DeferredTool] = []
    for tool in tools:
        if tool["type"] == _NAMESPACE:
            members = [each for each in tool["tools"] if each.get(DEFER_LOADING)]
            deferred += [
                _defer({**tool, "tools": [each]}, each, is_own=True, namespace=f"{tool['name']}.") for each in members
            ]
            if len(members) < len(tool["tools"]):
                visible.append({**tool, "tools": [each for each in tool["tools"] if not each.get(DEFER_LOADING)]})
        elif tool.get(DEFER_LOADING) and tool.get("name"):
            deferred.append(_defer(tool, tool, is_own=True))
        else:
            visible.append(tool)
    return visible, deferred


def defers_any(tools: Sequence[Json]) -> bool:
    """Whether a request defers one of its tools, or one of a namespace."""
    members = (member for tool in tools if tool["type"] == _NAMESPACE for member in tool["tools"])
    return any(tool.get(DEFER_LOADING) for tool in (*tools, *members))


def remove_deferral(tools: Sequence[Json]) -> list[Json]:
    """Returns the tools without the key that defers them, as the model gets them once they are loaded."""
    return [
        {**_remove_key(tool), "tools": [*map(_remove_key, tool["tools"])]}
        if tool["type"] == _NAMESPACE
        else _remove_key(tool)
        for tool in tools
    ]


def _remove_key(tool: Json) -> Json:
    return {key: value for key, value in tool.items() if key != DEFER_LOADING} if DEFER_LOADING in tool else tool


def list_deferred(catalogue: ToolCatalogue) -> list[DeferredTool]:
    """Returns the deferred tools of the gateway."""
    return [_defer(function, function, is_own=False) for function in catalogue.deferred_functions]


def _defer(tool: Json, member: Json, *, is_own: bool, namespace: str = "") -> DeferredTool:
    properties = (member.get("parameters") or {}).get("properties")
    parameters = " ".join(properties) if isinstance(properties, dict) else ""
    text = f"{member['name']} {member['name']} {member.get('description') or ''} {parameters}"
    return DeferredTool(namespace + member["name"], tool, text[:_MAX_TEXT_CHARS], is_own)


def defer_tools(tools: Sequence[HostedTool], search: Sequence[HostedTool], auto: int | None) -> list[HostedTool]:
    """Returns the tools that the gateway runs. Those that the model has to search for are deferred, and the tool
    `search` is among them if it is needed.

    If the request asked for the search, the tools that it defers are deferred. With `auto`, all tools of MCP servers
    are deferred if there are more than `auto`. Otherwise those are that the request defers; if there are none, the
    search is left out.
    """
    requested = [tool for tool in search if tool.key.server == TOOL_SEARCH]
    if requested:
        return [*tools, *requested]
    servers = sum(tool.choice_type == MCP for tool in tools)
    if search and auto is not None and servers > auto:
        return [*(replace(tool, is_deferred=True) if tool.choice_type == MCP else tool for tool in tools), *search]
    if any(tool.key.server == DEFERRED_SEARCH for tool in search):
        return [*tools, *search]
    return [replace(tool, is_deferred=False) if tool.is_deferred else tool for tool in tools]
