"""The fields of chat that hold reasoning, and the data that calls carry in its details."""

import pytest

from translation.chat.reasoning import (
    REASONING_TEXT_FIELDS,
    build_call_detail,
    collect_call_data,
    find_reasoning_text,
    find_replay_field,
    is_chat_detail,
    list_text_fields,
    remove_unsigned_copies,
)
from translation.representation.json_types import Item, Json
from translation.representation.profile import Profile

DATA: Json = {"google": {"thought_signature": "s"}}


@pytest.mark.parametrize(
    ("configured", "fields"),
    [
        ((), REASONING_TEXT_FIELDS),
        (("thoughts",), ("thoughts", *REASONING_TEXT_FIELDS)),
        ((REASONING_TEXT_FIELDS[-1], "thoughts"), (REASONING_TEXT_FIELDS[-1], "thoughts", *REASONING_TEXT_FIELDS[:-1])),
    ],
)
def test_configured_fields_are_read_first_and_none_twice(configured: tuple[str, ...], fields: tuple[str, ...]) -> None:
    assert list_text_fields(configured) == fields


@pytest.mark.parametrize(
    ("profile", "field"),
    [
        (Profile(), "reasoning_content"),
        (Profile(replay_reasoning="reasoning"), "reasoning"),
        (Profile(reasoning_fields=("thoughts", "notes")), "thoughts"),
        (Profile(reasoning_fields=("thoughts",), replay_reasoning="reasoning"), "thoughts"),
        (Profile(reasoning_fields=("thoughts",), replay_reasoning="think_tags"), "think_tags"),
        (Profile(reasoning_fields=("thoughts",), replay_reasoning="none"), "none"),
    ],
)
def test_a_configured_field_replaces_the_usual_fields_but_no_other_form(profile: Profile, field: str) -> None:
    assert find_replay_field(profile) == field


def test_the_first_field_with_text_is_the_reasoning() -> None:
    *others, last = REASONING_TEXT_FIELDS
    message = {"thoughts": "", **{field: {"text": "a"} for field in others}, last: "b"}
    assert find_reasoning_text(message, list_text_fields(["thoughts"])) == "b"
    assert find_reasoning_text({"content": "a"}) is None


@pytest.mark.parametrize(
    ("detail", "expected"),
    [({"type": "reasoning.text"}, True), ({"type": "gemini.call"}, False), ({}, False), ("reasoning.text", False)],
)
def test_details_of_other_apis_are_none_of_chat(detail: object, expected: bool) -> None:
    assert is_chat_detail(detail) is expected


def test_data_of_calls_is_found_by_their_ids_in_the_details_of_reasoning() -> None:
    details = [{"type": "reasoning.text", "text": "a"}, build_call_detail("c1", DATA), build_call_detail("c2", {})]
    items: list[Item] = [
        {"type": "reasoning", "summary": [], "details": details},
        {"type": "reasoning", "summary": []},
        {"type": "reasoning", "summary": [], "details": [{**build_call_detail("c3", DATA), "extra_content": "s"}]},
        {"type": "message", "details": [build_call_detail("c4", DATA)]},
    ]
    assert collect_call_data(items) == {"c1": DATA, "c2": {}}


def test_data_of_a_call_is_no_thought() -> None:
    assert build_call_detail("c1", DATA)["thought"] is False


def test_a_text_that_comes_again_with_its_signature_is_sent_once() -> None:
    def block(text: str, index: int, **more: str) -> Json:
        return {"type": "reasoning.text", "text": text, "index": index, **more}

    encrypted: Json = {"type": "reasoning.encrypted", "data": "x", "index": 0}
    signed = block("hm", 1, signature="s")
    assert remove_unsigned_copies([encrypted, block("hm", 1), signed]) == [encrypted, signed]
    others = [block("hm", 2), block("h", 1), signed, block("hm", 1), signed, {"type": "reasoning.text", "text": {}}]
    assert remove_unsigned_copies(others) == [*others[:3], *others[4:]]
