import base64
import zlib

import orjson
import pytest

from translation.errors import InvalidRequest
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn
from translation.responses.compaction import (
    CompactionContent,
    apply_compaction,
    apply_compaction_to_body,
    apply_compaction_to_turn,
    build_compaction_item,
    find_lowest_threshold,
    has_compaction_trigger,
    seal_compaction,
    unseal_compaction,
    was_just_compacted,
)

FOREIGN: Item = {"type": "compaction", "id": "cmp_9", "encrypted_content": "gAAAAABo"}
TRIGGER: Item = {"type": "compaction_trigger"}
SEARCH: Json = {"type": "function", "name": "search", "parameters": {"type": "object"}}


def message(role: str, text: str) -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


CALL: Item = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
SEALED = CompactionContent("they met", [message("system", "rules")], [CALL], after_users=False)
OURS = build_compaction_item("cmp_1", SEALED)


def texts(items: list[Item]) -> list[str]:
    return [item["content"][0]["text"] if item["type"] == "message" else item["type"] for item in items]


def test_sealed_content_is_restored() -> None:
    assert OURS.keys() == {"id", "type", "encrypted_content"}
    assert unseal_compaction(OURS["encrypted_content"], "input[0]") == SEALED
    assert unseal_compaction(
        seal_compaction(CompactionContent("é", after_users=True)), "input[0]"
    ) == CompactionContent("é", [], [], after_users=True)


def test_seals_of_another_server_are_recognized() -> None:
    assert unseal_compaction(FOREIGN["encrypted_content"], "input[0]") is None


def checked(held: bytes) -> str:
    return f"rgc1.{zlib.crc32(held):08x}.{base64.urlsafe_b64encode(held).decode()}"


def resealed(**changes: object) -> str:
    return checked(orjson.dumps({**SEALED._asdict(), **changes}))


DEEP = b'{"type":"tool_search_call","arguments":' + b"[" * 500 + b"]" * 500 + b"}"
CONTENT = OURS["encrypted_content"]


DAMAGED = {
    "of a later version": CONTENT.replace("rgc1", "rgc2"),
    "with more in it": "rgc1.00000000.a.b",
    "cut": CONTENT[:-7],
    "one character changed": CONTENT[:40] + ("a" if CONTENT[40] == "b" else "b") + CONTENT[41:],
    "no base64": "rgc1.00000000.é",
    "no JSON": checked(b"a"),
    "nested too deep": checked(b'{"summary":"a","lead":[],"after_users":false,"rest":[' + DEEP + b"]}"),
    "no text for a summary": resealed(summary=1),
    "no list": resealed(rest=None),
    "an unknown item": resealed(rest=[{"type": "who"}]),
    "an item that refers to another": resealed(rest=[{"id": "msg_1"}]),
    "an item that is sealed itself": resealed(lead=[OURS]),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_damaged_content_is_refused_by_name(content: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        apply_compaction([message("user", "a"), {"type": "compaction", "encrypted_content": content}])
    assert refused.value.param == "input[1].encrypted_content"


def test_a_compaction_stands_for_everything_before_it() -> None:
    items = [message("user", "hello"), message("assistant", "hi"), OURS, message("user", "on")]
    rules, summary, call, last = apply_compaction(items)
    assert texts([rules, call, last]) == ["rules", "function_call", "on"]
    assert (summary["role"], summary["id"]) == ("user", "cmp_1")
    assert summary["content"][0]["text"].endswith("they met")


def test_the_last_compaction_stands_for_those_before_it() -> None:
    later = build_compaction_item("cmp_2", CompactionContent("they met again"))
    assert [text[-14:] for text in texts(apply_compaction([FOREIGN, OURS, message("user", "on"), later]))] == [
        "they met again"
    ]


def test_instructions_stay_once() -> None:
    items = [message("developer", "more"), message("system", "rules"), message("user", "hello"), OURS]
    assert texts(apply_compaction(items))[:2] == ["more", "rules"]
    assert len(apply_compaction(items)) == 4


def test_user_messages_right_before_a_window_of_them_are_read_first() -> None:
    ours = build_compaction_item("cmp_1", CompactionContent("they met", after_users=True))
    items = [message("user", "gone"), message("assistant", "hi"), message("user", "one"), message("user", "two"), ours]
    assert texts(apply_compaction(items))[:-1] == ["one", "two"]
    assert texts(apply_compaction([message("user", "one"), ours]))[:-1] == ["one"]


def test_a_summary_is_recognized_without_its_id_prefix() -> None:
    for given in (None, "mine"):
        summary = apply_compaction([{**OURS, "id": given}])[1]
        assert summary["id"] == "cmp"


def test_only_the_owner_of_a_compaction_can_read_it() -> None:
    with pytest.raises(InvalidRequest, match="another server made it") as refused:
        apply_compaction([FOREIGN])
    assert refused.value.param == "input[0].encrypted_content"
    assert apply_compaction([FOREIGN, message("user", "on")], native=True) == [FOREIGN, message("user", "on")]


def test_a_trigger_must_be_the_last_item() -> None:
    assert has_compaction_trigger([message("user", "a"), TRIGGER])
    assert not any(has_compaction_trigger(given) for given in (None, "hello", [], [TRIGGER, message("user", "a")]))
    assert apply_compaction([message("user", "a"), TRIGGER]) == [message("user", "a")]
    assert apply_compaction([TRIGGER], native=True) == [TRIGGER]
    with pytest.raises(InvalidRequest) as refused:
        apply_compaction([TRIGGER, message("user", "a")])
    assert refused.value.param == "input[0]"


def test_an_answered_trigger_is_accepted() -> None:
    assert apply_compaction([message("user", "a"), TRIGGER, OURS])[-1] == CALL


def test_a_turn_gets_the_content_of_a_compaction_and_keeps_its_tools() -> None:
    plain = Turn(model="m", items=[message("user", "a")])
    assert apply_compaction_to_turn(plain) is plain
    found: Item = {"type": "tool_search_output", "call_id": "a", "tools": [SEARCH]}
    ours = build_compaction_item("cmp_1", CompactionContent("they met", rest=[CALL, found]))
    turn = apply_compaction_to_turn(Turn(model="m", items=[message("user", "a"), ours]))
    assert texts(list(turn.items))[1:] == ["function_call", "tool_search_output"]
    assert turn.tools == [SEARCH]


def test_a_turn_is_unchanged_if_the_upstream_reads_compactions() -> None:
    turn = Turn(model="m", items=[message("user", "a"), FOREIGN, TRIGGER])
    assert apply_compaction_to_turn(turn, native=True) is turn


def test_a_relay_gets_only_readable_compactions() -> None:
    body = {"model": "m", "input": [{"role": "user", "content": "a"}, OURS, FOREIGN]}
    items = apply_compaction_to_body(body)["input"]
    assert texts(items)[2:] == ["function_call", "compaction"]
    assert "id" not in items[1]
    for untouched in ({"model": "m", "input": "a"}, {"model": "m", "input": [FOREIGN]}, {"model": "m"}):
        assert apply_compaction_to_body(untouched) is untouched


def test_the_lowest_threshold_applies_first() -> None:
    entries: list[Json] = [{"compact_threshold": None}, {"compact_threshold": 9}, {"compact_threshold": 5}]
    assert find_lowest_threshold(entries) == {"compact_threshold": 5}
    assert (find_lowest_threshold([]), find_lowest_threshold(None)) == (None, None)


def test_a_turn_with_a_compaction_is_recognized_by_the_following_items() -> None:
    user, answer = message("user", "a"), message("assistant", "b")
    assert was_just_compacted([user, OURS, answer])
    assert not was_just_compacted([OURS, user, answer])
    assert not was_just_compacted([OURS, {"type": "function_call_output", "call_id": "a", "output": ""}, answer])
    assert not was_just_compacted([answer])
