"""gateway/tools/catalogue_cache.py: which catalogues are built once, and which are built anew."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.config.tool_settings import McpSettings
from gateway.tools import catalogue_cache
from gateway.tools.catalogue_cache import CatalogueCache
from gateway.tools.executors.executor import ToolExecutor
from gateway.tools.executors.kind import ResponseContext
from gateway.tools.executors.wrappers import WrapperExecutor
from gateway.tools.mcp.server import McpServer
from gateway.tools.mcp_tools.executors import open_executor
from gateway.tools.mcp_tools.requested_servers import RequestedServer
from gateway.tools.mcp_tools.session_limits import SessionLimits
from providers.egress import EgressClient
from translation.hosted.tools import HostedTool, ToolCatalogue

Json = dict[str, Any]


@dataclass
class Operator:
    """An operator's server with its current list."""

    listing: object = None
    settings = SimpleNamespace(is_trusted=False)

    def may_repeat(self, name: str) -> bool:
        return False


def server(allowed_tools: Any = None, operator: Operator | None = None, **fields: Any) -> ToolExecutor:
    docs = McpServer(label="docs", url=fields.pop("url", "https://mcp.example.com/mcp"))
    requested = RequestedServer(docs, 0, allowed_tools, "never", cast("Any", operator), **fields)
    return open_executor(requested, McpSettings(), EgressClient(), SessionLimits(1), ResponseContext(can_ask=True))


def listed(*names: str, **fields: Any) -> Json:
    return {"docs": {"id": "mcpl_1", "tools": [{"name": name, "input_schema": {}, **fields} for name in names]}}


class CountedExecutor(WrapperExecutor):
    """Counts how often its tools are built."""

    count = 0

    def build_tools(self, definitions: Sequence[Json]) -> list[HostedTool]:
        self.count += 1
        return super().build_tools(definitions)


class Builds:
    """Looks up catalogues, and counts how many were built."""

    def __init__(self) -> None:
        self.cache = CatalogueCache(max_tools=100)
        self.count = 0

    def find(self, executor: ToolExecutor, lists: Json, taken: Sequence[str] = ()) -> ToolCatalogue:
        counted = CountedExecutor(executor)
        catalogue = self.cache.find([counted], lists, taken)
        self.count += counted.count
        return catalogue


def test_the_same_tools_under_the_same_rules_are_built_once() -> None:
    builds = Builds()
    first = builds.find(server(), listed("search", "read"))
    assert builds.find(server(), listed("search", "read")) is first
    assert [*first.tools] == ["docs_search", "docs_read"]
    assert builds.count == 1


@pytest.mark.parametrize(
    ("requested", "lists", "taken"),
    [
        (server(["read"]), listed("search", "read"), ()),
        (server(url="https://other.example.com/mcp"), listed("search", "read"), ()),
        (server(prefix=""), listed("search", "read"), ()),
        (server(operator=Operator()), listed("search", "read"), ()),
        (server(), listed("search", "read", description="Other."), ()),
        (server(), listed("read", "search"), ()),
        (server(), {}, ()),
        (server(), listed("search", "read"), ("docs_read",)),
    ],
    ids=["filter", "address", "prefix", "operator", "definition", "order", "no list", "taken name"],
)
def test_different_tools_or_rules_are_built_anew(requested: ToolExecutor, lists: Json, taken: Sequence[str]) -> None:
    builds = Builds()
    first = builds.find(server(), listed("search", "read"))
    assert builds.find(requested, lists, taken) is not first
    assert builds.count == 2


def test_a_new_list_of_an_operators_server_is_built_anew() -> None:
    builds, operator = Builds(), Operator(object())
    first = builds.find(server(operator=operator), listed("search"))
    assert builds.find(server(operator=operator), listed("search")) is first
    operator.listing = object()
    assert builds.find(server(operator=operator), listed("search")) is not first


def test_the_memory_of_catalogues_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_cache, "_MAX_CATALOGUES", 2)
    builds = Builds()
    for name in ("a", "b", "a", "c", "a"):  # b is the one that was not used for the longest time
        builds.find(server(), listed(name))
    assert builds.count == 3
    builds.find(server(), listed("b"))
    assert builds.count == 4
    huge = listed("d", description="x" * 300_000)
    deep: Any = {}
    for _ in range(300):
        deep = {"not": deep}
    for lists in (huge, listed("e", input_schema=deep)):
        assert builds.find(server(), lists) is not builds.find(server(), lists)
