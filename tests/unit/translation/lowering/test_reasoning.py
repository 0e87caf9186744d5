"""Past reasoning as text, and the losses of `reasoning` on upstreams that do not have it."""

import pytest

from translation.lowering.reasoning import find_reasoning_losses, is_signature_only, may_think, with_readable_content
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn

BARE: Item = {"type": "reasoning", "summary": []}
MARK = {"type": "gemini.text", "thought": False, "signature": "s"}


def test_an_item_of_placeholders_contains_no_thought() -> None:
    assert is_signature_only({**BARE, "details": [MARK, MARK]})


@pytest.mark.parametrize(
    "item",
    [
        BARE,
        {**BARE, "details": []},
        {**BARE, "details": "odd"},
        {**BARE, "details": ["odd"]},
        {**BARE, "details": [MARK, {"type": "gemini.call", "signature": "s"}]},
        {**BARE, "details": [MARK], "summary": [{"type": "summary_text", "text": "Hm."}]},
        {**BARE, "details": [MARK], "encrypted_content": "x"},
    ],
    ids=["bare", "no details", "odd details", "an odd detail", "beside another", "with words", "with a seal"],
)
def test_items_that_may_contain_a_thought_are_no_placeholders(item: Item) -> None:
    assert not is_signature_only(item)


SUMMARY = [{"type": "summary_text", "text": "Hm."}]
CONTENT = [{"type": "reasoning_text", "text": "Hm."}]


def test_a_summary_alone_is_readable_as_content() -> None:
    assert with_readable_content({**BARE, "summary": SUMMARY}) == {**BARE, "summary": SUMMARY, "content": CONTENT}


@pytest.mark.parametrize(
    "item",
    [BARE, {**BARE, "content": CONTENT}, {**BARE, "summary": SUMMARY, "encrypted_content": "x"}],
    ids=["nothing readable", "content", "with a seal"],
)
def test_other_reasoning_is_the_same_object(item: Item) -> None:
    assert with_readable_content(item) is item


@pytest.mark.parametrize(
    ("unsupported", "losses"),
    [
        ({}, []),
        ({"summary": None}, []),
        ({"summary": "auto"}, []),
        ({"summary": "concise"}, ["reasoning.summary=as auto"]),
        ({"max_tokens": 5, "summary": "detailed"}, ["reasoning.max_tokens=dropped", "reasoning.summary=as auto"]),
    ],
    ids=str,
)
def test_only_the_length_of_a_summary_is_lost(unsupported: Json, losses: list[str]) -> None:
    assert list(map(str, find_reasoning_losses(unsupported))) == losses


@pytest.mark.parametrize(
    ("turn", "thinks"),
    [
        (Turn("m", []), True),
        (Turn("m", [], thinking=False), False),
        (Turn("m", [], reasoning={"effort": "none"}), False),
        (Turn("m", [], extra={"chat_template_kwargs": {"enable_thinking": False}}), False),
        (Turn("m", [], extra={"chat_template_kwargs": {"enable_thinking": True}}), True),
        (Turn("m", [], thinking=True, extra={"chat_template_kwargs": {"enable_thinking": False}}), True),
    ],
    ids=["left to the model", "off", "no effort", "off in the template", "on in the template", "on"],
)
def test_a_turn_may_think_unless_it_turns_thinking_off(turn: Turn, thinks: bool) -> None:
    assert may_think(turn) is thinks
