"""Parts of items that clients get only by `include`."""

from typing import Any, Final

import pytest

from translation.representation.json_types import Json
from translation.responses.client.item_view import show_item, show_response

SOURCES: Final = [{"type": "url", "url": "https://a.example"}]
SEARCH: Final[Json] = {"type": "web_search_call", "action": {"type": "search", "query": "q", "sources": SOURCES}}
FILES: Final[Json] = {"type": "file_search_call", "queries": ["q"], "results": [{"file_id": "f"}]}
CODE: Final[Json] = {"type": "code_interpreter_call", "code": "1", "outputs": [{"type": "logs", "logs": "1"}]}


@pytest.mark.parametrize(
    ("item", "include", "hidden"),
    [
        (SEARCH, "web_search_call.action.sources", {**SEARCH, "action": {"type": "search", "query": "q"}}),
        (FILES, "file_search_call.results", {**FILES, "results": None}),
        (CODE, "code_interpreter_call.outputs", {**CODE, "outputs": None}),
    ],
)
def test_a_part_is_shown_to_clients_that_include_it(item: Any, include: str, hidden: Any) -> None:
    assert show_item(item, [include]) is item
    assert show_item(item, ["reasoning.encrypted_content"]) == hidden
    assert show_item(hidden, []) is hidden
    message: Json = {"type": "message"}
    assert show_response({"output": [message, item]}, [])["output"] == [message, hidden]


@pytest.mark.parametrize("response", [{"output": []}, {"output": [{"type": "message"}]}, {"id": "resp_1"}])
def test_a_response_without_such_items_is_the_same_object(response: Json) -> None:
    assert show_response(response, []) is response


def test_a_search_without_an_action_is_unchanged() -> None:
    item: Json = {"type": "web_search_call", "action": None}
    assert show_item(item, []) is item


def test_an_item_whose_type_is_none_is_shown_as_it_is() -> None:
    """A relayed response may have anything in its output."""
    odd: list[Any] = [{"type": ["a"]}, {}, 5, [1], None]
    assert show_response({"output": [*odd, CODE]}, [])["output"] == [*odd, {**CODE, "outputs": None}]
    assert show_response({"output": 5}, []) == {"output": 5}


def test_the_report_on_tools_is_shown_to_clients_that_include_it() -> None:
    response = {"id": "resp_1", "output": [], "gateway_report": {"tools": {}, "notes": []}}
    assert show_response(response, ["gateway.report"]) is response
    assert show_response(response, []) == {"id": "resp_1", "output": []}
