"""A whole completion of a chat upstream is relayed with its thinking in the field that the client reads."""

import pytest

from translation.chat.relaying.whole_completion import (
    is_completion_filtered,
    read_completion_reason,
    relay_completion,
)
from translation.representation.json_types import Json
from translation.representation.profile import DEFAULT_PROFILE, Profile

TAGGED = "<think>hm</think>Yes."


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (Profile(parsing_format="leading_think_tags"), {"content": "Yes.", "reasoning": "hm"}),
        (DEFAULT_PROFILE, {"content": TAGGED}),
    ],
    ids=["separated", "left in the text"],
)
def test_thinking_in_the_text_is_separated_if_the_profile_says_so(profile: Profile, expected: Json) -> None:
    completion: Json = {"choices": [{"message": {"content": TAGGED}, "finish_reason": "stop"}]}
    relayed = relay_completion(completion, model="asked", reasoning_fields=frozenset({"reasoning"}), profile=profile)
    assert relayed == {"model": "asked", "choices": [{"message": expected, "finish_reason": "stop"}]}
    assert completion["choices"][0]["message"] == {"content": TAGGED}, "the upstream's completion is not changed"


def choice(message: Json, reason: str | None = "content_filter") -> Json:
    return {"message": message, "finish_reason": reason}


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ([choice({"role": "assistant", "content": None, "refusal": None})], True),
        ([choice({"content": ""}, "refusal")], True),
        ([choice({"content": "Well"})], False),
        ([choice({"content": None, "tool_calls": [{"id": "c"}]})], False),
        ([choice({"content": ""}, "stop")], False),
        ([choice({"content": ""}), choice({"content": "Yes"}, "stop")], False),
    ],
)
def test_a_filter_ended_a_completion_that_has_nothing(choices: list[Json], expected: bool) -> None:
    assert is_completion_filtered({"choices": choices}) is expected


@pytest.mark.parametrize(
    ("reasons", "called", "expected"),
    [
        (["stop"], False, "stop"),
        ([None], False, "stop"),
        (["stop"], True, "tool_calls"),
        ([None], True, "tool_calls"),
        (["tool_calls"], True, "tool_calls"),
        (["length"], True, "length"),
        (["model_length"], False, "length"),
        (["content_filter"], False, "content_filter"),
        (["of_tomorrow"], False, "other"),
        (["stop", "length"], False, "length"),
        (["of_tomorrow", "stop"], False, "other"),
    ],
)
def test_the_reason_of_a_completion_is_that_of_its_first_choice_or_of_one_that_was_cut_off(
    reasons: list[str | None], called: bool, expected: str
) -> None:
    message = {"role": "assistant", "content": "Well", "tool_calls": [{"id": "call_1"}] if called else None}
    choices = [{"index": index, "message": message, "finish_reason": reason} for index, reason in enumerate(reasons)]
    assert read_completion_reason({"choices": choices}) == expected


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_details"])
def test_reasoning_fields_without_reasoning_stay_as_they_are(field: str) -> None:
    message = {"role": "assistant", "content": "Hi", field: None}
    completion = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    relayed = relay_completion(completion, model=None, reasoning_fields=frozenset({"reasoning_content"}))
    assert relayed["choices"][0]["message"] == message
