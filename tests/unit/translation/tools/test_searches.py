"""Searches as items, and as the fields of the Messages API's blocks."""

from typing import Any

import pytest

from translation.representation.json_types import Item, Json
from translation.tools.searches import (
    add_results,
    build_input,
    build_results,
    count_queries,
    is_counted,
    is_paused,
    is_search_tool,
    read_action,
)

ERROR: Json = {"type": "web_search_tool_result_error", "error_code": "too_many_requests"}


def item(action: Json | None = None, status: str = "completed", **more: Any) -> Item:
    return {"type": "web_search_call", "id": "ws_1", "status": status, "action": action, **more}


def page(url: str, title: str, **more: Any) -> Json:
    return {"type": "web_search_result", "url": url, "title": title, "encrypted_content": "", **more}


def search(**more: Any) -> Json:
    return {"type": "search", "query": "a", **more}


INPUTS: dict[str, tuple[Json, Json]] = {
    "a query": (search(), {"query": "a"}),
    "no query": ({"type": "search", "query": ""}, {"query": ""}),
    "the same query twice": (search(queries=["a"]), {"query": "a"}),
    "several queries": (search(queries=["a", "b"]), {"query": "a", "queries": ["a", "b"]}),
    "a page": ({"type": "open_page", "url": "u"}, {"query": "u", "type": "open_page", "url": "u"}),
    "a page without a place": ({"type": "open_page"}, {"query": "", "type": "open_page"}),
    "text on a page": (
        {"type": "find_in_page", "url": "u", "pattern": "p"},
        {"query": "p", "type": "find_in_page", "url": "u", "pattern": "p"},
    ),
}


@pytest.mark.parametrize(("action", "tool_input"), INPUTS.values(), ids=INPUTS)
def test_an_action_is_an_input_with_a_query(action: Json, tool_input: Json) -> None:
    assert build_input(item(action)) == tool_input
    read = read_action(tool_input)
    assert build_input(item(read)) == tool_input
    assert {key: action[key] for key in action if key != "queries" or len(action[key]) > 1} == read


def test_an_input_always_has_a_query() -> None:
    assert build_input(item({"type": "search", "queries": ["a", "b"]})) == {"query": "a; b", "queries": ["a", "b"]}
    assert build_input(item({})) == build_input(item(None)) == {"query": ""}


def test_an_input_of_other_types_is_an_empty_search() -> None:
    assert read_action({"query": 1, "queries": [1], "type": "x"}) == {"type": "search", "query": ""}


SOURCES: list[Json] = [
    {"type": "url", "url": "u", "title": "U", "page_age": "a day"},
    {"type": "url", "url": "v"},
]
PAGES: list[Json] = [page("u", "U", page_age="a day"), page("v", "v")]


def test_pages_are_sources_and_sources_are_pages() -> None:
    ended = add_results(item(search(), "failed"), [*PAGES, "noise", {"title": "no place"}])
    assert ended == item(search(sources=SOURCES))
    assert build_results(ended) == PAGES


def test_only_sources_with_a_place_are_pages() -> None:
    assert build_results(item(search(sources=[{"type": "api", "name": "weather"}, SOURCES[1]]))) == [PAGES[1]]
    assert build_results(item(search())) == build_results({"type": "web_search_call"}) == []


ODD: list[Any] = [1, "a", [1], {"a": 1}, None]


@pytest.mark.parametrize("odd", ODD)
def test_values_of_other_types_are_ignored(odd: Any) -> None:
    for action in (odd, search(query=odd, queries=odd, sources=odd), {"type": odd}):
        assert build_input(item(action))["query"] in ("", "a")
        assert build_results(item(action)) == []
    *_, last = build_results(item(search(sources=[odd, {"url": odd}, {"url": "v", "title": odd, "page_age": odd}])))
    assert last in (PAGES[1], page("v", "a", page_age="a"))
    assert read_action({"type": odd, "query": odd, "queries": odd})["type"] == "search"
    assert build_input(item({"type": "open_page", "url": odd, "pattern": odd}))["query"] in ("", "a")
    assert build_results(item(search(), "failed", error=odd)) == {**ERROR, "error_code": "unavailable"}


def test_a_page_that_was_opened_is_the_result() -> None:
    action = {"type": "open_page", "url": "v"}
    assert build_results(item(action)) == [PAGES[1]]
    assert build_results(item({"type": "open_page"})) == []
    assert add_results(item(action, "failed"), [PAGES[1]]) == item(action)


@pytest.mark.parametrize(
    ("content", "code"),
    [(ERROR, "too_many_requests"), ({**ERROR, "error_code": "strange"}, "unavailable"), ({}, "unavailable")],
)
def test_a_search_that_failed_has_a_code_that_clients_know(content: Json, code: str) -> None:
    ended = add_results(item(search()), content)
    assert ended["status"] == "failed"
    assert build_results(ended) == {"type": "web_search_tool_result_error", "error_code": code}


def test_a_search_without_an_end_has_failed() -> None:
    assert build_results(item(search(), "in_progress")) == {**ERROR, "error_code": "unavailable"}


def test_a_search_waits_if_its_upstream_needs_the_call_back() -> None:
    assert is_paused(item(search(), "incomplete", details=[{}]))
    assert not is_paused(item(search(), "incomplete"))
    assert not is_paused(item(search(), details=[{}]))


def test_searches_are_counted_that_were_made() -> None:
    assert is_counted(item(search()))
    assert not is_counted(item(search(), "failed"))
    assert not is_counted(item({"type": "open_page"}))
    assert not is_counted({"type": "message"})


def test_search_tools_are_known_in_every_version() -> None:
    assert is_search_tool({"type": "web_search_20250305"})
    assert is_search_tool({"type": "web_search"})
    assert not is_search_tool({"type": "function", "name": "web_search"})
    assert not is_search_tool({})


def test_a_search_counts_once_for_each_of_its_queries() -> None:
    search = {"type": "web_search_call", "status": "completed"}
    counts = [
        count_queries({**search, "action": action})
        for action in (
            {"type": "search", "queries": ["a", "b"]},
            {"type": "search", "query": "a"},
            {"type": "open_page"},
        )
    ]
    assert counts == [2, 1, 0]
    assert count_queries({**search, "status": "failed", "action": {"type": "search", "queries": ["a"]}}) == 0
