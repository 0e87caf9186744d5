"""Finds mappings of tools that contradict other parts of the configuration."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from gateway.config.mapped_tools.settings import HostedToolName
from gateway.config.yaml_file import Problem, ValuePath, render_path
from translation.representation.json_types import mapping_or_empty

AS: Final = "as"

_SERVERS: Final = ("tools", "mcp", "servers")


class _Mapping(NamedTuple):
    label: str
    name: str
    tool: Any

    @property
    def path(self) -> ValuePath:
        return (*_SERVERS, self.label, AS, self.name)


def list_mapped_tools(tree: Mapping[str, Any]) -> dict[str, str]:
    """Returns the hosted tools that tools of MCP servers stand for, each with the path of the first that does."""
    places: dict[str, str] = {}
    for each in _list_mappings(tree):
        if isinstance(each.tool, str):
            places.setdefault(each.tool, render_path(each.path))
    return places


def check_mapped_tools(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields the mappings whose hosted tool something else runs too."""
    first = list_mapped_tools(tree)
    engine = mapping_or_empty(mapping_or_empty(tree.get("tools")).get("web_search")).get("engine")
    web_search: HostedToolName = "web_search"
    for each in _list_mappings(tree):
        place = render_path(each.path)
        if each.tool == web_search and engine:
            yield Problem(each.path, f"{place} and tools.web_search.engine both run web_search: remove one of them")
        elif isinstance(each.tool, str) and first[each.tool] != place:
            yield Problem(each.path, f"{place} and {first[each.tool]} both run {each.tool}: remove one of them")


def _list_servers(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping_or_empty(mapping_or_empty(mapping_or_empty(tree.get("tools")).get("mcp")).get("servers"))


def _list_mappings(tree: Mapping[str, Any]) -> Iterator[_Mapping]:
    for label, server in _list_servers(tree).items():
        for name, mapped in mapping_or_empty(mapping_or_empty(server).get(AS)).items():
            yield _Mapping(str(label), str(name), mapping_or_empty(mapped).get("tool"))
