"""All who look at an item of a request find the same kind, also where a client leaves it out or sends null."""

import pytest

from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.responses.client.storable_items import to_storable_items
from translation.responses.input_items import expand_input, expand_item, find_item_kind, is_reference
from translation.responses.relaying.request import relay_body
from translation.responses.schema.request import validate

MESSAGE: Json = {"role": "user", "content": "Hi", "id": "msg_1"}
ANSWER: Json = {"role": "assistant", "content": "Hi", "id": "msg_1"}
CALL: Json = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": "fc_1"}

ITEMS: dict[str, tuple[Json, str]] = {
    "a message": ({"type": "message", **MESSAGE}, "message"),
    "a message of no type": (MESSAGE, "message"),
    "a message whose type is null": ({"type": None, **MESSAGE}, "message"),
    "an answer whose type is null": ({"type": None, **ANSWER}, "message"),
    "a reference": ({"type": "item_reference", "id": "msg_1"}, "item_reference"),
    "a reference of no type": ({"id": "msg_1"}, "item_reference"),
    "a reference whose type is null": ({"type": None, "id": "msg_1"}, "item_reference"),
    "a call": (CALL, "function_call"),
}


@pytest.mark.parametrize(("item", "kind"), ITEMS.values(), ids=ITEMS)
def test_everyone_finds_the_same_kind(item: Json, kind: str) -> None:
    validate({"model": "m", "input": [item], "previous_response_id": "resp_1"})
    assert find_item_kind(item) == kind
    assert is_reference(item) is (kind == "item_reference")
    assert expand_item(item)["type"] == kind
    assert expand_input([item], (), allow_references=True)[0][0]["type"] == kind
    assert to_storable_items([item], lambda prefix: f"{prefix}_new")[0]["type"] == kind
    relayed = relay_body({"model": "m", "input": [item]}, Profile(replay_ids="drop"), model="theirs").body["input"]
    assert ("id" in relayed[0]) is (kind == "item_reference")


@pytest.mark.parametrize("item", [{}, {"type": None}, {"type": 5, "id": "msg_1"}], ids=str)
def test_an_item_that_says_nothing_of_itself_has_no_kind(item: Json) -> None:
    assert find_item_kind(item) is None
