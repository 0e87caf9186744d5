"""Thinking at the beginning of a relayed answer is moved from its text to a field."""

import pytest

from translation.chat.relaying.thoughts import ThoughtSplitter, build_splitter
from translation.representation.json_types import Json
from translation.representation.profile import Profile


def build(think_open: bool | None = None) -> ThoughtSplitter:
    splitter = build_splitter(Profile(parsing_format="leading_think_tags", think_open=think_open), "reasoning")
    assert splitter is not None
    return splitter


WHOLE: dict[str, tuple[Json, Json]] = {
    "tagged": ({"content": "<think>\nhm\n</think>\n\nYes."}, {"content": "Yes.", "reasoning": "hm"}),
    "without its opening tag": ({"content": "hm</think>Yes."}, {"content": "Yes.", "reasoning": "hm"}),
    "none": ({"content": "Yes."}, {"content": "Yes."}),
    "no text": ({"content": None}, {"content": None}),
    "sent separately": (
        {"content": "a</think>b", "reasoning": "hm"},
        {"content": "a</think>b", "reasoning": "hm"},
    ),
    "sent separately and tagged": (
        {"content": "<think>so</think>Yes.", "reasoning": "hm"},
        {"content": "Yes.", "reasoning": "hmso"},
    ),
}


@pytest.mark.parametrize(("message", "expected"), WHOLE.values(), ids=WHOLE)
def test_thinking_of_a_whole_message_is_separated(message: Json, expected: Json) -> None:
    told = dict(message)
    assert build().split_whole(told) is (message != expected)
    assert told == expected


def test_no_opening_tag_is_added_if_the_template_has_none() -> None:
    message: Json = {"content": "a</think>b"}
    assert not build(think_open=False).split_whole(message)
    assert message == {"content": "a</think>b"}


def test_a_tag_may_be_cut_between_deltas() -> None:
    splitter = build()
    deltas: list[Json] = [{"content": text} for text in ("<th", "ink>hm</thi", "nk>\n", "Yes")]
    assert [splitter.split(delta, is_last=False) for delta in deltas] == [True, True, True, False]
    assert deltas == [{"content": ""}, {"content": "", "reasoning": "hm"}, {"content": ""}, {"content": "Yes"}]
    assert splitter.is_over


def test_text_that_is_held_back_is_sent_before_calls() -> None:
    splitter = build()
    held: Json = {"content": "<thi"}
    assert splitter.split(held, is_last=False)
    assert held == {"content": ""}
    assert not splitter.is_over
    calls: Json = {"tool_calls": [{"index": 0}]}
    assert splitter.split(calls, is_last=False)
    assert calls == {"tool_calls": [{"index": 0}], "content": "<thi"}


def test_other_profiles_have_no_splitter() -> None:
    assert build_splitter(Profile(), "reasoning") is None
