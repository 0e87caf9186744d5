"""A whole completion of a chat upstream is relayed with its thinking in the field that the client reads."""

from typing import Any

import pytest

from translation.chat.relaying.whole_completion import (
    is_completion_filtered,
    read_completion_reason,
    relay_completion,
    select_requested_choices,
)
from translation.errors import ProtocolViolation
from translation.representation.json_types import Json
from translation.representation.loss import list_reply_losses
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


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": "Yes.", "reasoning": {"text": "Hm."}}, {"content": "Yes.", "reasoning_content": "Hm."}),
        ({"content": "Yes.", "reasoning": [{"text": "Hm."}]}, {"content": "Yes.", "reasoning_content": "Hm."}),
        ({"content": "Yes.", "reasoning_content": 5}, {"content": "Yes.", "reasoning_content": "5"}),
        ({"content": "Yes.", "reasoning": {"effort": "low"}}, {"content": "Yes."}),
        ({"content": "Yes.", "reasoning_content": True}, {"content": "Yes."}),
        ({"content": 42}, {"content": "42"}),
        ({"content": None, "refusal": 5.5}, {"content": None, "refusal": "5.5"}),
    ],
)
def test_odd_fields_of_a_whole_message_are_read_as_on_a_stream(message: Json, expected: Json) -> None:
    completion = {"choices": [choice(message, "stop")]}
    relayed = relay_completion(completion, model=None, reasoning_fields=frozenset({"reasoning_content"}))
    assert relayed == {"choices": [choice(expected, "stop")]}


@pytest.mark.parametrize(
    "first",
    [
        {"message": {"content": True}},
        {"message": {"content": {"text": "Yes."}}},
        {"message": {"content": "Yes.", "refusal": ["No."]}},
        {"message": {"content": "Yes.", "role": 5}},
        {"message": {"text": "Yes."}},
        {"message": {}, "text": "Yes."},
    ],
)
def test_a_text_that_no_client_reads_is_no_completion(first: Json) -> None:
    with pytest.raises(ProtocolViolation, match="sent"):
        relay_completion(
            {"choices": [{**first, "finish_reason": "stop"}]}, model=None, reasoning_fields=frozenset({"reasoning"})
        )


@pytest.mark.parametrize(("usage", "expected"), [("many", None), ([1], None), (None, None), ({"a": 1}, {"a": 1})])
def test_usage_is_an_object_or_null(usage: Any, expected: Json | None) -> None:
    completion = {"choices": [choice({"content": "Yes."}, "stop")], "usage": usage}
    assert relay_completion(completion, model=None, reasoning_fields=frozenset())["usage"] == expected


def at(index: Any, text: str) -> Json:
    return {"message": {"content": text}, "finish_reason": "stop", **({} if index is None else {"index": index})}


YES, NO = at(0, "Yes."), at(1, "No.")


@pytest.mark.parametrize(
    ("choices", "count", "expected"),
    [
        ([YES, NO], 1, ["Yes."]),
        ([NO, YES], 1, ["Yes."]),
        ([YES, NO, at(2, "Maybe.")], 2, ["Yes.", "No."]),
        ([at(None, "Yes."), at(None, "No.")], 1, ["Yes."]),
        ([at("0", "No."), YES], 1, ["Yes."]),
        ([at(-1, "No."), YES], 1, ["Yes."]),
    ],
)
def test_choices_that_were_not_requested_are_left_out_and_reported(
    choices: list[Json], count: int, expected: list[str]
) -> None:
    left = select_requested_choices({"id": "c", "choices": choices}, count)
    assert [each["message"]["content"] for each in left["choices"]] == expected
    assert (left["id"], list_reply_losses(left)) == ("c", ["output.choice"])


@pytest.mark.parametrize(
    ("choices", "count", "expected"),
    [
        ([YES], 2, ["n"]),
        ([at(None, "Yes.")], 2, ["n"]),
        ([YES, NO], 3, ["n"]),
        ([YES, at(5, "Maybe.")], 2, ["output.choice", "n"]),
    ],
)
def test_choices_that_are_missing_are_reported(choices: list[Json], count: int, expected: list[str]) -> None:
    left = select_requested_choices({"id": "c", "choices": choices}, count)
    assert left["id"] == "c"
    assert [each["message"] for each in left["choices"]] == [
        each["message"] for each in choices if each.get("index") != 5
    ]
    assert list_reply_losses(left) == expected


@pytest.mark.parametrize(
    ("choices", "count"),
    [
        ([YES], 1),
        ([YES, NO], 2),
        ([at(None, "Yes."), at(None, "No.")], 2),
        ([], 2),
        (None, 2),
        ("text", 2),
        (["text"], 2),
        (["text", NO], 1),
    ],
)
def test_a_completion_with_the_requested_choices_or_with_none_is_unchanged(choices: Any, count: int) -> None:
    completion = {"choices": choices}
    assert select_requested_choices(completion, count) is completion
    assert list_reply_losses(completion) == []


def test_a_completion_without_a_requested_choice_is_none() -> None:
    with pytest.raises(ProtocolViolation, match="not requested"):
        select_requested_choices({"choices": [NO]}, 1)


@pytest.mark.parametrize("losses", ["text", ["text", 5], {"a": 1}, ["output.image=not reported"]])
def test_losses_that_the_upstream_wrote_are_not_the_gateways(losses: Any) -> None:
    assert list_reply_losses({"losses": losses, "choices": [{"losses": losses}, "text"]}) == []


LOGPROBS: Json = {"content": [{"token": "Y", "logprob": -0.1, "bytes": None, "top_logprobs": []}], "refusal": None}


@pytest.mark.parametrize(
    ("choices", "wants_logprobs", "expected"),
    [
        ([choice({"content": "Yes"})], True, ["logprobs"]),
        ([{**choice({"content": "Yes"}), "logprobs": None}], True, ["logprobs"]),
        ([{**choice({"content": "Yes"}), "logprobs": {"content": [], "refusal": None}}], True, ["logprobs"]),
        ([{**choice({"content": "Yes"}), "logprobs": LOGPROBS}], True, []),
        ([choice({"content": "Yes"})], False, []),
        ([choice({"content": None, "tool_calls": [{"id": "c"}]})], True, []),
        ([choice({"content": "Yes"}), choice({"content": "No"})], True, ["output.choice", "logprobs"]),
        (["text"], True, []),
    ],
)
def test_texts_without_requested_log_probabilities_are_reported(
    choices: list[Any], wants_logprobs: bool, expected: list[str]
) -> None:
    selected = select_requested_choices({"choices": choices}, 1, wants_logprobs=wants_logprobs)
    assert list_reply_losses(selected) == expected
