"""The input of a request as items to store."""

import pytest

from translation.responses.client.storable_items import to_storable_items, with_distinct_ids


def counting():
    made: list[str] = []

    def new_id(prefix: str, /) -> str:
        made.append(prefix)
        return f"{prefix}_{len(made)}"

    return new_id


def test_a_text_is_a_message_of_the_user() -> None:
    assert to_storable_items("hi", counting()) == [
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_text", "text": "hi"}],
        }
    ]


def test_no_input_is_no_item() -> None:
    assert to_storable_items(None, counting()) == []


def test_an_item_keeps_its_own_id_and_status() -> None:
    call = {
        "type": "function_call",
        "id": "fc_own",
        "call_id": "c",
        "name": "f",
        "arguments": "{}",
        "status": "incomplete",
    }
    assert to_storable_items([call], counting()) == [call]


@pytest.mark.parametrize("given", [None, "", "x" * 129, "a\0b", "line\nbreak"])
def test_an_id_that_cannot_be_a_key_is_replaced(given: str | None) -> None:
    (item,) = to_storable_items([{"type": "reasoning", "id": given, "summary": []}], counting())
    assert item == {"type": "reasoning", "id": "rs_1", "summary": []}


def test_an_item_of_an_unknown_type_gets_an_id_too() -> None:
    (item,) = to_storable_items([{"type": "compaction_trigger"}], counting())
    assert item["id"] == "item_1"


def test_an_output_of_a_call_reads_completed() -> None:
    (item,) = to_storable_items([{"type": "function_call_output", "call_id": "c", "output": "1"}], counting())
    assert (item["id"], item["status"]) == ("fco_1", "completed")


def test_of_items_with_one_id_the_first_keeps_it() -> None:
    said = [{"type": "message", "id": "msg_own", "role": "user"}, {"type": "reasoning", "id": "rs_own"}]
    again = [*said, *said, {"type": "function_call", "call_id": "c"}]
    assert with_distinct_ids(again, counting()) == [
        *said,
        {**said[0], "id": "msg_1"},
        {**said[1], "id": "rs_2"},
        {"type": "function_call", "call_id": "c", "id": "fc_3"},
    ]
    assert [item.get("id") for item in again] == ["msg_own", "rs_own", "msg_own", "rs_own", None]
