"""The items of web searches, and what a later turn reads of them."""

from typing import Any

import pytest

from gateway.tools.web_search.form import FORM, build_action
from translation.hosted.call_forms import CallView, PastHostedCall
from translation.hosted.citations.citables import CitablePage
from translation.hosted.outcomes import ToolOutcome, build_execution_error

UNKNOWN = "A search took place. Its results are no longer known: search again if you need them."
PAGE = CitablePage("https://a.example/", "A [1]")
SOURCES: list[Any] = [{"type": "url", "url": "https://a.example/", "title": "A 【1】"}, {"url": 3}, "odd"]


@pytest.mark.parametrize(
    ("item", "past"),
    [
        ({"action": {"type": "search", "query": "q"}}, ("web_search", '{"queries":["q"]}', UNKNOWN, {})),
        (
            {"action": {"type": "search", "queries": ["q", "r"], "sources": SOURCES}},
            ("web_search", '{"queries":["q","r"]}', "【1】 A [1] https://a.example/", {1: PAGE}),
        ),
        ({"action": {"type": "open_page", "url": "u"}}, ("open_page", '{"url":"u"}', UNKNOWN, {})),
        (
            {"action": {"type": "find_in_page", "url": "u", "pattern": "p"}, "status": "failed"},
            ("find_in_page", '{"url":"u","pattern":"p"}', "This call failed.", {}),
        ),
        ({"action": None}, ("web_search", '{"queries":[]}', UNKNOWN, {})),
        ({"action": {"type": "search", "sources": {}}}, ("web_search", '{"queries":[]}', UNKNOWN, {})),
    ],
)
def test_an_item_that_a_client_wrote_is_a_call(item: Any, past: tuple[Any, ...]) -> None:
    assert FORM.read_past({"type": "web_search_call", **item}) == PastHostedCall("web_search", *past)


def test_a_call_that_was_not_run_has_its_action_all_the_same() -> None:
    failed = CallView("web_search", "web_search", '{"queries": ["q"]}', None, build_execution_error("no"))
    assert FORM.build_fields(failed) == {"action": {"type": "search", "query": "q", "queries": ["q"]}}
    assert FORM.build_fields(failed._replace(arguments="no json"))["action"]["queries"] == []
    assert FORM.build_fields(failed._replace(arguments="[]"))["action"]["queries"] == []
    assert FORM.build_fields(failed._replace(outcome=ToolOutcome())) == {}, "there is none before the end"
    assert build_action("open_page", {}) == {"type": "open_page", "url": ""}
