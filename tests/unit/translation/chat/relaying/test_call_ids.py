"""Past calls on a chat relay are sent with unique ids, and unchanged if their ids are unique."""

import pytest

from tests.unit.translation.chat.relaying.test_calls import added_up, delta, entry
from tests.unit.translation.chat.relaying.test_calls import relayed as replied
from translation.chat.relaying.call_ids import with_unique_message_call_ids
from translation.chat.relaying.request import relay_body
from translation.hygiene.call_tracker import CallRules
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile

USER: Json = {"role": "user", "content": "Hi", "tool_calls": "of no meaning here"}


def called(*ids: str) -> Json:
    calls = [{"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answered(call_id: str) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": "ok"}


def ids_in(messages: list[Json]) -> list[object]:
    asked = (message for message in messages if message["role"] != "user")
    return [
        message["tool_call_id"]
        if message["role"] == "tool"
        else [call["id"] for call in message.get("tool_calls") or ()]
        for message in asked
    ]


FINE: dict[str, list[Json]] = {
    "no calls": [USER, {"role": "assistant", "content": "Hi", "tool_calls": None}],
    "calls with ids of their own": [USER, called("a", "b"), answered("b"), answered("a"), called("c"), answered("c")],
    "a call of before there were tools": [
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "ok"},
    ],
}


@pytest.mark.parametrize("messages", FINE.values(), ids=FINE)
def test_valid_calls_are_unchanged(messages: list[Json]) -> None:
    assert with_unique_message_call_ids(messages) is messages
    body = {"model": "m", "messages": messages}
    assert relay_body(body, DEFAULT_PROFILE, model="m").body["messages"] == messages


ODD: dict[str, tuple[list[Json], list[object]]] = {
    "no id": ([USER, called(""), answered("")], [["tc_1"], "tc_1"]),
    "blanks for an id": ([called(" "), answered(" ")], [["tc_1"], "tc_1"]),
    "one id twice in a message": ([called("x", "x"), answered("x"), answered("x")], [["x", "x__2"], "x", "x__2"]),
    "one id again and again": (
        [called("x"), answered("x"), USER, called("x"), answered("x"), called("x"), answered("x")],
        [["x"], "x", ["x__2"], "x__2", ["x__3"], "x__3"],
    ),
    "an id of its own among others": (
        [called("", "y", ""), answered("y"), answered(""), answered("")],
        [["tc_1", "y", "tc_2"], "y", "tc_1", "tc_2"],
    ),
}


@pytest.mark.parametrize(("messages", "ids"), ODD.values(), ids=ODD)
def test_each_call_is_sent_with_an_id_of_its_own(messages: list[Json], ids: list[object]) -> None:
    body = {"model": "m", "messages": messages}
    sent = relay_body(body, DEFAULT_PROFILE, model="m").body["messages"]
    assert ids_in(sent) == ids
    assert [message for message in sent if message["role"] == "user"] == [USER] * messages.count(USER)
    assert with_unique_message_call_ids(sent) is sent, "what went out once is fine"


def test_outputs_of_functions_are_cut_as_those_of_tools_are() -> None:
    function = {"role": "function", "name": "f"}
    messages = [{**function, "content": "x" * 50}, {**function, "content": None}]
    body, losses = relay_body({"model": "m", "messages": messages}, Profile(max_tool_output_bytes=20), model="m")
    assert [message["content"] for message in body["messages"]] == ["x" * 9 + "[truncated]", None]
    assert losses == [Loss("messages[0].content", "truncated")]


def test_a_reply_gets_no_id_of_a_call_before_it() -> None:
    rules = CallRules(used_ids=frozenset({"a", "tc_1"}))
    fragments = [delta(entry(0, "a", "f", '{"x"')), delta(entry(0, "a", "f", ":1}")), delta(entry(1, " ", "g", "{}"))]
    assert added_up(replied(*fragments, rules=rules)) == [("a__2", "f", '{"x":1}'), ("tc_2", "g", "{}")]


def test_an_id_used_twice_without_an_index_begins_another_call() -> None:
    fragments = [delta(entry(None, "a", "f", '{"x":1}')), delta(entry(None, "a", "f", '{"x":2}'))]
    assert added_up(replied(*fragments)) == [("a", "f", '{"x":1}'), ("a__2", "f", '{"x":2}')]
