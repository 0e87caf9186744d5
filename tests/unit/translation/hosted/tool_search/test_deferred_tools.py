"""Tools that a model has to search for: which they are, and what is loaded of them."""

from dataclasses import replace
from typing import Any, Final

from tests.tool_rounds import hosted_tool
from translation.hosted.tool_search.deferred_tools import (
    AUTO_SEARCH,
    DEFERRED_SEARCH,
    DeferredTools,
    defer_tools,
    defers_any,
    list_deferred,
    remove_deferral,
    split_deferred,
)
from translation.hosted.tool_search.search_form import SEARCH_FORM
from translation.hosted.tools import HostedTool, ToolCatalogue, ToolKey
from translation.lowering.client_search import TOOL_SEARCH, iterate_names
from translation.representation.json_types import Json

NOW: Final[Json] = {"type": "function", "name": "now"}
LATER: Final[Json] = {
    "type": "function",
    "name": "later",
    "defer_loading": True,
    "parameters": {"properties": {"day": {}}},
}
SHOP: Final[Json] = {"type": "namespace", "name": "shop", "tools": [NOW, LATER]}
HIDDEN_SHOP: Final[Json] = {"type": "namespace", "name": "hidden", "tools": [LATER]}


def test_the_clients_tools_are_split() -> None:
    visible, deferred = split_deferred([NOW, LATER, SHOP, HIDDEN_SHOP, {"type": "shell", "defer_loading": True}])
    assert visible == [NOW, {**SHOP, "tools": [NOW]}, {"type": "shell", "defer_loading": True}]
    assert [(each.name, each.is_own) for each in deferred] == [
        ("later", True),
        ("shop.later", True),
        ("hidden.later", True),
    ]
    assert deferred[1].tool == {**SHOP, "tools": [LATER]}
    assert deferred[0].text == "later later  day"


def test_tools_are_loaded_in_the_order_in_which_they_are_found() -> None:
    catalogue = ToolCatalogue.build([hosted_tool("add", is_deferred=True), hosted_tool("sub")])
    assert [function["name"] for function in catalogue.functions] == ["calc_sub"]
    assert len(catalogue.all_functions) == 2
    tools = DeferredTools()
    assert not tools
    tools.fill([*split_deferred([LATER, LATER])[1], *list_deferred(catalogue)])
    assert tools
    assert len(tools.tools) == 2
    assert tools.own_names == {"later"}
    assert tools.load(["calc_add", "unknown"])[0]["defer_loading"] is True
    tools.load(["later", "calc_add"])
    assert [tool["name"] for tool in tools.list_loaded(with_hosted=True)] == ["calc_add", "later"]
    assert [tool["name"] for tool in tools.list_loaded(with_hosted=False)] == ["later"]


def test_searches_of_the_server_in_the_history_have_loaded_their_tools() -> None:
    tools = DeferredTools()
    tools.fill(split_deferred([LATER, SHOP])[1])
    output: Json = {"type": "tool_search_output", "execution": "server", "tools": [LATER]}
    tools.load_from_history([{"type": "message"}, {**output, "execution": "client", "call_id": "c"}])
    assert tools.list_loaded(with_hosted=True) == []
    tools.load_from_history([output, {**output, "tools": [HIDDEN_SHOP, {**SHOP, "tools": [LATER]}]}])
    assert [tool["name"] for tool in tools.list_loaded(with_hosted=True)] == ["later", "shop"]
    odd: Any = [1, {"type": "function"}, {"type": "namespace", "tools": None}]
    assert [*iterate_names(odd)] == []
    assert [*iterate_names(None)] == []


def search_tool(server: str) -> HostedTool:
    return HostedTool(key=ToolKey(server, TOOL_SEARCH), parameters={}, form=SEARCH_FORM, choice_type=TOOL_SEARCH)


def test_a_search_decides_what_is_deferred() -> None:
    tools = [hosted_tool("add", is_deferred=True), hosted_tool("sub")]
    requested, auto = search_tool(TOOL_SEARCH), search_tool(AUTO_SEARCH)
    assert defer_tools(tools, [requested], None) == [*tools, requested]
    assert defer_tools(tools, [], None) == [replace(tools[0], is_deferred=False), tools[1]]
    assert defer_tools(tools, [auto], 2) == [replace(tools[0], is_deferred=False), tools[1]]
    unasked = search_tool(DEFERRED_SEARCH)
    assert defer_tools(tools, [unasked], 2) == [*tools, unasked]
    all_deferred = [replace(tool, is_deferred=True) for tool in tools]
    assert defer_tools(tools, [auto], 1) == [*all_deferred, auto]
    assert defer_tools(tools, [unasked], 1) == [*all_deferred, unasked]
    other = hosted_tool("x", choice_type="web_search")
    assert defer_tools([*tools, other], [auto], 1) == [*all_deferred, other, auto]


def test_a_request_defers_tools_or_members_of_namespaces() -> None:
    assert defers_any([LATER])
    assert defers_any([SHOP])
    assert not defers_any([])
    assert not defers_any([{"type": "function", "name": "now"}, {**SHOP, "tools": [{"type": "function", "name": "x"}]}])


def test_a_loaded_tool_has_no_key_that_defers_it() -> None:
    now: Json = {"type": "function", "name": "now"}
    [later, shop, same] = remove_deferral([LATER, SHOP, now])
    assert not defers_any([later, shop, same])
    assert same is now
    assert later == {key: value for key, value in LATER.items() if key != "defer_loading"}
