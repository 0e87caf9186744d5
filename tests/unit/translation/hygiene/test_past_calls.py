"""Past calls and their outputs are pairs, each under an id of its own."""

import pytest

from translation.errors import InvalidRequest
from translation.hygiene.past_calls import validate_relayed_calls, with_unique_call_ids, with_unique_call_ids_lenient
from translation.representation.json_types import Item, Json
from translation.responses.relaying.request import adds_items

USER: Item = {"type": "message", "role": "user", "content": []}


def call(call_id: str, name: str = "f") -> Item:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}


def output(call_id: str, content: str = "ok") -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": content}


def signed(call_id: str, signature: str) -> Item:
    detail = {"type": "gemini.call", "call_id": call_id, "signature": signature}
    return {"type": "reasoning", "id": "rs", "summary": [], "details": [detail, "odd", {"type": "other"}]}


CUSTOM: list[Item] = [
    {"type": "custom_tool_call", "call_id": "x", "name": "f", "input": ""},
    {"type": "custom_tool_call_output", "call_id": "x", "output": "ok"},
]


@pytest.mark.parametrize("items", [[], [USER], [USER, call("a"), call("b"), output("b"), output("a")], CUSTOM])
def test_pairs_that_have_ids_of_their_own_are_left_alone(items: list[Item]) -> None:
    assert with_unique_call_ids(items) is items


IDS: dict[str, tuple[list[Item], list[str]]] = {
    "no id": ([call(""), output("")], ["tc_1", "tc_1"]),
    "blanks for an id": ([call("  "), output("  ")], ["tc_1", "tc_1"]),
    "two calls without ids": ([call(""), call(""), output(""), output("")], ["tc_1", "tc_2", "tc_1", "tc_2"]),
    "one id at once": ([call("x"), call("x"), output("x"), output("x")], ["x", "x__2", "x", "x__2"]),
    "one id again and again": (
        [call("x"), output("x"), call("x"), output("x"), call("x"), output("x")],
        ["x", "x", "x__2", "x__2", "x__3", "x__3"],
    ),
    "one id beside the one it would be given": (
        [call("x"), output("x"), call("x__2"), output("x__2"), call("x"), output("x")],
        ["x", "x", "x__2", "x__2", "x__3", "x__3"],
    ),
    "an id made for another reply": ([call("tc_1"), output("tc_1")] * 2, ["tc_1", "tc_1", "tc_2", "tc_2"]),
    "a custom call by the id of a function": ([call("x"), output("x"), *CUSTOM], ["x", "x", "x__2", "x__2"]),
}


@pytest.mark.parametrize(("items", "ids"), IDS.values(), ids=IDS)
def test_each_pair_gets_an_id_of_its_own(items: list[Item], ids: list[str]) -> None:
    given = [dict(item) for item in items]
    assert [item["call_id"] for item in with_unique_call_ids(items)] == ids
    assert items == given, "what is given is not changed"


def test_a_signature_follows_its_call() -> None:
    items = [signed("x", "1"), call("x"), output("x"), USER, signed("x", "2"), call("x"), output("x"), signed("y", "3")]
    named = [item["details"][0]["call_id"] for item in with_unique_call_ids(items) if item["type"] == "reasoning"]
    assert named == ["x", "x__2", "y"]
    assert with_unique_call_ids(items)[4]["details"][1:] == ["odd", {"type": "other"}]


ORPHANS: dict[str, tuple[list[Item], str, str]] = {
    "an output without a call": ([USER, output("a")], "'a'", "input[1].call_id"),
    "an output before its call": ([output("a"), call("a")], "'a'", "input[0].call_id"),
    "a second output": ([call("a"), output("a"), output("a")], "'a'", "input[2].call_id"),
    "a call without an output": ([USER, call("a"), USER], "'a'", "input[1].call_id"),
    "one of two calls without an output": ([call("a"), call("b"), output("a")], "'b'", "input[1].call_id"),
    "a custom call without an output": (CUSTOM[:1], "'x'", "input[0].call_id"),
}


@pytest.mark.parametrize(("items", "named", "param"), ORPHANS.values(), ids=ORPHANS)
def test_a_call_or_output_without_its_counterpart_is_refused_by_id(items: list[Item], named: str, param: str) -> None:
    for check in (with_unique_call_ids, lambda items: validate_relayed_calls(items, is_self_contained=True)):
        with pytest.raises(InvalidRequest) as refusal:
            check(items)
        assert named in refusal.value.message
        assert refusal.value.param == param


def test_a_checked_call_without_its_counterpart_is_renamed_alone() -> None:
    items = [call("x"), output("x"), call("x"), output("y")]
    assert [item["call_id"] for item in with_unique_call_ids_lenient(items)] == ["x", "x", "x__2", "y"]


@pytest.mark.parametrize("other", [{"type": "compaction"}, {"type": "item_reference"}, {**call("b"), "async": True}])
def test_items_that_may_be_the_counterpart_are_not_judged(other: Json) -> None:
    items = [other, output("a")]
    assert with_unique_call_ids(items) is items


@pytest.mark.parametrize("name", ["previous_response_id", "conversation", "prompt"])
def test_a_relay_to_a_server_with_items_of_its_own_is_not_judged(name: str) -> None:
    validate_relayed_calls([output("a")], is_self_contained=not adds_items({name: "x"}))
    with pytest.raises(InvalidRequest):
        validate_relayed_calls([output("a")], is_self_contained=not adds_items({name: None}))
