"""The choices of a relayed stream are normalized in place, and their leading thinking is separated."""

from typing import Any

import pytest

from translation.chat.relaying.choices import ChoiceReader, ChunkForm
from translation.chat.relaying.reasoning_mover import ReasoningMover
from translation.errors import ProtocolViolation
from translation.hygiene.call_tracker import DEFAULT_RULES
from translation.representation.json_types import Json
from translation.representation.profile import Profile

FIELDS = frozenset({"reasoning"})
THINKING = Profile(parsing_format="leading_think_tags")


def build_reader(**form: Any) -> ChoiceReader:
    return ChoiceReader(ReasoningMover(("reasoning",), FIELDS), ChunkForm(FIELDS, **form), DEFAULT_RULES)


def text_choice(text: str, index: int = 0) -> Json:
    return {"index": index, "delta": {"content": text}}


def test_thinking_is_separated_and_content_may_be_forwarded_after_it() -> None:
    reader = build_reader(profile=THINKING)
    first, second, third = text_choice("<think>hm"), text_choice("</think>Yes"), text_choice("<think>")
    assert reader.read_choice(first)
    assert first["delta"] == {"content": "", "reasoning": "hm"}
    assert reader.has_content
    assert not reader.may_forward
    assert reader.read_choice(second)
    assert second["delta"] == {"content": "Yes"}
    assert reader.may_forward
    assert not reader.read_choice(third)
    assert third["delta"] == {"content": "<think>"}


def test_content_is_not_forwarded_until_no_choice_may_be_thinking() -> None:
    reader = build_reader(profile=THINKING, choice_count=2)
    assert not reader.read_choice(text_choice("Yes"))
    assert not reader.may_forward
    assert not reader.read_choice(text_choice("No", index=1))
    assert reader.may_forward


def test_text_that_may_become_a_tag_is_sent_at_the_end() -> None:
    reader = build_reader(profile=THINKING)
    assert reader.read_choice(text_choice("<thi"))
    last: Json = {"index": 0, "delta": {}, "finish_reason": "stop"}
    assert reader.read_choice(last)
    assert last == {"index": 0, "delta": {"content": "<thi"}, "finish_reason": "stop"}


REASONS: dict[str, tuple[list[str], list[str | None], str]] = {
    "a repeated stop": (["stop", "stop"], ["stop", None], "stop"),
    "another end that is no cut": (["stop", "tool_calls"], ["stop", None], "stop"),
    "a cut after a stop": (["stop", "length"], ["stop", "length"], "length"),
    "a cut that is repeated": (["length", "length"], ["length", None], "length"),
    "a cut that is repeated in the words of a vendor": (["length", "max_tokens"], ["length", None], "length"),
    "a filter that is repeated": (["content_filter", "content_filter"], ["content_filter", None], "content_filter"),
    "another cut": (["length", "content_filter"], ["length", "content_filter"], "content_filter"),
    "a stop after a cut": (["length", "stop"], ["length", None], "length"),
    "a cut after a stop, repeated": (["stop", "length", "length"], ["stop", "length", None], "length"),
}


@pytest.mark.parametrize(("given", "expected", "last"), REASONS.values(), ids=REASONS)
def test_a_later_finish_reason_of_a_choice_is_kept_if_it_says_for_the_first_time_that_the_answer_was_cut_off(
    given: list[str], expected: list[str | None], last: str
) -> None:
    reader = build_reader()
    choices: list[Json] = [
        {"index": 0, "delta": {}, "finish_reason": reason, "native_finish_reason": reason} for reason in given
    ]
    for choice, reason in zip(choices, expected, strict=True):
        reader.read_choice(choice)
        assert choice["finish_reason"] == reason
        assert ("native_finish_reason" in choice) is (reason is not None)
    assert reader.finished == {0: last}
    assert reader.finish_reason == last


@pytest.mark.parametrize("choice", [{"index": "a", "delta": {}}, {"index": 0, "delta": "a"}], ids=["index", "delta"])
def test_a_choice_of_another_form_is_a_violation(choice: Json) -> None:
    reader = build_reader()
    with pytest.raises(ProtocolViolation):
        _ = reader.is_requested(choice) and reader.read_choice(choice)


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ([{"index": 0, "delta": {}, "finish_reason": "content_filter"}], True),
        ([{"index": 0, "delta": {"content": ""}, "finish_reason": "sensitive"}], True),
        ([{"index": 0, "delta": {}, "finish_reason": "stop"}], False),
        ([{"index": 0, "delta": {"content": "Well"}, "finish_reason": "content_filter"}], False),
        ([text_choice("Well"), {"index": 0, "delta": {}, "finish_reason": "content_filter"}], False),
    ],
)
def test_a_filter_ended_a_choice_that_had_nothing(choices: list[Json], expected: bool) -> None:
    reader = build_reader()
    for choice in choices:
        reader.read_choice(choice)
    assert reader.is_filtered is expected


def test_calls_after_the_finish_reason_are_a_violation() -> None:
    reader = build_reader()
    reader.read_choice({"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"})
    late = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}
    with pytest.raises(ProtocolViolation, match="after its finish reason"):
        reader.read_choice({"index": 0, "delta": late, "finish_reason": None})
