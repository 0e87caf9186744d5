"""Tools that a client defers and searches for itself: the model sees them once a search has loaded them."""

from dataclasses import replace
from typing import Any, Final

import pytest

from tests.unit.translation.tools.rewritten_turns import CHAT, rewritten, turn
from translation.representation.json_types import Json
from translation.representation.loss import UnknownKey
from translation.tools.tool_rewriting import rewrite_tools

SEARCH: Final[Json] = {"type": "tool_search", "execution": "client", "description": "Finds.", "parameters": {}}
NOW: Final[Json] = {"type": "function", "name": "now", "parameters": {}}
LATER: Final[Json] = {"type": "function", "name": "later", "parameters": {}, "defer_loading": True}
NOTE: Final[Json] = {"type": "custom", "name": "note", "defer_loading": True}
SHOP: Final[Json] = {"type": "namespace", "name": "shop", "description": "", "tools": [NOW, LATER]}
CLOSED: Final[Json] = {"type": "namespace", "name": "closed", "description": "", "tools": [LATER]}


def search(*tools: Any, **fields: Any) -> list[Json]:
    """Returns a search of the client and its result."""
    call = {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "x"}}
    output = {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [*tools]}
    return [call | fields, output | fields]


def names_of(tools: Any) -> list[str]:
    return [name for tool in tools for name in (names_of(tool["tools"]) if "tools" in tool else [tool["name"]])]


SEEN: dict[str, tuple[list[Json], dict[str, Any], list[str]]] = {
    "deferred": ([LATER, NOTE], {}, []),
    "others": ([NOW, LATER], {}, ["now"]),
    "in a namespace": ([SHOP, CLOSED], {}, ["shop__now"]),
    "loaded": ([LATER, NOTE], {"items": search(LATER)}, ["later"]),
    "loaded in its namespace": (
        [SHOP, CLOSED],
        {"items": search({**SHOP, "tools": [LATER]})},
        ["shop__now", "shop__later"],
    ),
    "loaded under another name": ([CLOSED], {"items": search(LATER)}, []),
    "found by the server": ([LATER], {"items": search(LATER, call_id=None, execution="server")}, []),
    "not found": ([LATER], {"items": search()}, []),
    "required": ([LATER], {"tool_choice": "required"}, []),
    "forced, of another kind": ([LATER], {"tool_choice": {"type": "tool_search"}}, []),
    "forced": ([LATER, NOTE], {"tool_choice": {"type": "custom", "name": "note"}}, ["note"]),
    "forced in its namespace": (
        [SHOP, CLOSED],
        {"tool_choice": {"type": "function", "name": "later", "namespace": "closed"}},
        ["shop__now", "closed__later"],
    ),
    "allowed": (
        [LATER, NOTE],
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "later"}]}},
        ["later"],
    ),
}


@pytest.mark.parametrize(("tools", "params", "names"), SEEN.values(), ids=SEEN)
def test_the_model_sees_the_tools_that_a_search_has_loaded(
    tools: list[Json], params: dict[str, Any], names: list[str]
) -> None:
    result = rewritten(SEARCH, *tools, **params)
    assert names_of(result.turn.tools) == ["tool_search", *names]


def test_an_upstream_with_namespaces_gets_them_without_hidden_tools() -> None:
    tools = rewritten(SEARCH, SHOP, CLOSED, kinds=CHAT | {"namespace"}).turn.tools
    assert tools[1:] == [{**SHOP, "tools": [NOW]}]
    open_shop = {**SHOP, "tools": [NOW]}
    assert rewritten(SEARCH, open_shop, kinds=CHAT | {"namespace"}).turn.tools[1] is open_shop


@pytest.mark.parametrize(
    "params", [{"kinds": CHAT | {"tool_search"}}, {"hosted": frozenset({"tool_search"})}], ids=["client", "hosted"]
)
def test_an_upstream_that_knows_the_search_gets_all_tools(params: Any) -> None:
    assert names_of(rewritten(SEARCH, LATER, **params).turn.tools[1:]) == ["later"]


def test_without_a_search_all_tools_are_offered() -> None:
    assert names_of(rewritten(LATER, NOTE).turn.tools) == ["later", "note"]


def test_a_call_of_a_hidden_tool_in_the_history_keeps_its_name() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "later", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    assert rewritten(SEARCH, LATER, items=[call, output]).turn.items[0]["name"] == "later"


def test_that_a_tool_is_deferred_is_no_loss() -> None:
    keys = [UnknownKey("tools[1].defer_loading", "defer_loading", LATER), UnknownKey("tools[1].color", "color", LATER)]
    left = rewrite_tools(replace(turn(SEARCH, LATER), unknown_keys=keys), kinds=CHAT, hosted=frozenset()).turn
    assert left.unknown_keys == keys[1:]
    kept = rewrite_tools(replace(turn(LATER), unknown_keys=keys), kinds=CHAT, hosted=frozenset()).turn
    assert kept.unknown_keys == keys
