"""A stored item that is not in the form of its type is named; others are not."""

from typing import Any

import pytest

from translation.errors import InvalidRequest
from translation.responses.client.history_check import check_history

Json = dict[str, Any]

MESSAGE: Json = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "a", "annotations": []}],
}
MALFORMED: dict[str, tuple[Json, str]] = {
    "an MCP call without its server": (
        {"type": "mcp_call", "id": "bad", "name": "n", "arguments": "{}"},
        "'server_label'",
    ),
    "listed tools that are none": ({"type": "mcp_list_tools", "id": "bad", "server_label": "s", "tools": 3}, "'tools'"),
    "queries of a search that are no texts": (
        {"type": "file_search_call", "id": "bad", "queries": [3]},
        "'queries[0]'",
    ),
    "a message without a role": ({"type": "message", "id": "bad", "content": []}, "'role'"),
}


@pytest.mark.parametrize(("item", "place"), MALFORMED.values(), ids=MALFORMED)
def test_the_malformed_item_and_its_field_are_named(item: Json, place: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_history([MESSAGE, item], "previous_response_id")
    assert refused.value.param == "previous_response_id"
    assert "'bad'" in refused.value.message
    assert place in refused.value.message


def test_items_in_their_form_and_of_unlisted_types_pass() -> None:
    check_history([MESSAGE, {"type": "tomorrow", "id": "x", "content": 3}], "conversation")
