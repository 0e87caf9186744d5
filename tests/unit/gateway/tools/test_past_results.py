"""Past calls of hosted tools in requests whose own tools the gateway does not run."""

from dataclasses import replace
from typing import Any, Final

import pytest

from gateway.config.settings import EgressSettings
from gateway.config.tool_settings import ToolSettings
from gateway.tools.host import KindParts, ToolHost, build_egress, build_kinds
from gateway.tools.past_results import PAST_FORMS, PastResultCiter, show_past_calls
from providers.base import Capabilities
from translation.hosted.citations.citables import CitableFile
from translation.hosted.citations.citation_table import CitationTable, build_result_details
from translation.representation.events import Annotated, Delta, ItemEnded, ItemStarted, PartEnded, PartStarted
from translation.representation.items import new_message
from translation.representation.json_types import Item
from translation.representation.turn import Turn

CAN: Final = Capabilities(tools=True)
FILE: Final = CitableFile("file-1", "cats.txt")
SEARCH: Final[Item] = {
    "id": "fs_1",
    "type": "file_search_call",
    "status": "completed",
    "queries": ["cats"],
    "details": build_result_details("【1】 cats.txt\nCats sleep.", {1: FILE}),
}
WEB: Final[Item] = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {
        "type": "search",
        "query": "cats",
        "queries": ["cats"],
        "sources": [{"type": "url", "url": "https://a/"}],
    },
}
MCP: Final[Item] = {
    "id": "mcp_1",
    "type": "mcp_call",
    "server_label": "crm",
    "name": "find",
    "arguments": '{"a": 1}',
    "output": "found",
}
LOADED: Final[list[Item]] = [
    {"id": "tsc_1", "type": "tool_search_call", "execution": "server", "call_id": None, "arguments": {"query": "cats"}},
    {"id": "tso_1", "type": "tool_search_output", "execution": "server", "tools": [{"type": "function", "name": "f"}]},
]


def list_shown(*items: Item, can: Capabilities = CAN, tools: Any = ()) -> list[Any]:
    turn, _ = show_past_calls(Turn(model="m", items=[*items], tools=[*tools]), can)
    return [(item["type"], item.get("name") or item.get("output")) for item in turn.items]


def test_the_calls_of_every_kind_are_known() -> None:
    settings = ToolSettings()
    egress = build_egress(EgressSettings())
    host = ToolHost(settings.mcp, egress, has_store=False, kinds=build_kinds(KindParts(settings, egress)))
    assert host.forms == PAST_FORMS


@pytest.mark.parametrize(
    ("items", "name", "output"),
    [
        ([SEARCH], "file_search", "【1】 cats.txt\nCats sleep."),
        ([WEB], "web_search", "【1】 https://a/ https://a/"),
        ([MCP], "crm_find", "found"),
        (LOADED, "tool_search", "Loaded: f"),
    ],
    ids=["file search", "web search", "MCP", "tool search"],
)
def test_a_past_call_is_a_function_call_with_its_result(items: list[Item], name: str, output: str) -> None:
    assert list_shown(*items) == [("function_call", name), ("function_call_output", output)]


def test_a_function_of_the_client_keeps_its_name() -> None:
    own = {"type": "function", "name": "file_search", "parameters": {}}
    assert list_shown(SEARCH, tools=[own])[0] == ("function_call", "file_search_file_search")


PAGES: Final[list[Item]] = [
    {"type": "web_search_call", "status": "completed", "action": {"type": "open_page", "url": "https://a/"}},
    {
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "find_in_page", "url": "https://a/", "pattern": "cat"},
    },
]


def test_past_searches_are_the_browser_of_a_model_that_was_trained_with_one() -> None:
    browsing = replace(CAN, trained_tools=frozenset({"browser"}))
    turn, _ = show_past_calls(Turn(model="m", items=[WEB, *PAGES]), browsing)
    calls = [(item["name"], item["arguments"]) for item in turn.items if item["type"] == "function_call"]
    assert calls == [
        ("web_search", '{"query":"cats"}'),
        ("open_page", '{"id":"https://a/"}'),
        ("find_in_page", '{"pattern":"cat"}'),
    ]
    assert turn.trained_names == {
        "web_search": "browser.search",
        "open_page": "browser.open",
        "find_in_page": "browser.find",
    }


@pytest.mark.parametrize("trained", [(), ("python",)], ids=["none", "another"])
def test_past_searches_are_functions_of_other_models(trained: Any) -> None:
    turn, _ = show_past_calls(Turn(model="m", items=[WEB]), replace(CAN, trained_tools=frozenset(trained)))
    assert turn.items[0]["arguments"] == '{"queries":["cats"]}'
    assert turn.trained_names == {}


def test_a_past_search_beside_a_function_of_the_client_with_its_name_is_the_browser_too() -> None:
    own = {"type": "function", "name": "web_search", "parameters": {}}
    turn, _ = show_past_calls(
        Turn(model="m", items=[WEB, SEARCH], tools=[own]), replace(CAN, trained_tools=frozenset({"browser"}))
    )
    assert turn.trained_names == {"web_search_web_search": "browser.search"}


APPROVED: Final[list[Item]] = [
    {"id": "mcpr_1", "type": "mcp_approval_request", "server_label": "crm", "name": "find", "arguments": "{}"},
    {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
]


@pytest.mark.parametrize(
    ("items", "can"),
    [
        ([{"type": "message", "role": "user", "content": "Hi"}], CAN),
        ([SEARCH], replace(CAN, tools=False)),
        ([SEARCH], replace(CAN, hosted_tools=frozenset({"file_search"}))),
        ([WEB], replace(CAN, hosted_tools=frozenset({"web_search_2025_08_26"}))),
        ([SEARCH, *APPROVED], CAN),
    ],
    ids=["none", "no functions", "of the upstream", "of the upstream, with a version", "an answer to a request"],
)
def test_what_is_not_shown_stays_as_it_is(items: list[Item], can: Capabilities) -> None:
    turn = Turn(model="m", items=items)
    assert show_past_calls(turn, can)[0] is turn


def test_a_marker_of_a_past_result_is_a_citation() -> None:
    citations = CitationTable()
    citations.add(FILE)
    citer = PastResultCiter(citations, None)
    message = new_message("msg_1")
    text = {"type": "output_text", "text": "Cats【1】.", "annotations": []}
    started = citer.feed([ItemStarted(0, message), PartStarted(0, 0, {"type": "output_text", "text": ""})])
    assert len(started) == 2
    assert citer.delta_observers((0, 0)) is None
    assert citer.delta_observers((0, 1)) == ()
    events = citer.feed(
        [Delta(0, 0, "Cats【1】."), PartEnded(0, 0, text), ItemEnded(0, {**message, "content": [text]})]
    )
    annotation = {"type": "file_citation", "file_id": "file-1", "filename": "cats.txt", "index": 4}
    assert [event for event in events if isinstance(event, Annotated)] == [Annotated(0, 0, annotation)]
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "Cats."
    (ended,) = [event for event in events if isinstance(event, ItemEnded)]
    assert ended.item is not None
    assert ended.item["content"] == [{**text, "text": "Cats.", "annotations": [annotation]}]
    behind = PastResultCiter(citations, citer)
    assert behind.delta_observers((0, 1)) == ()
    assert behind.feed([Delta(1, None, "{}")]) == [Delta(1, None, "{}")]
