"""Chat requests on their way to a chat upstream."""

from typing import Any

import pytest

from translation.chat.relay_request import relay_body
from translation.loss import Loss
from translation.profile import Profile

Json = dict[str, Any]

QUESTION = {"role": "user", "content": "Hello"}


def relayed(message: Json, **profile: Any) -> Json:
    lowered = relay_body({"model": "m", "messages": [QUESTION, message]}, Profile(**profile), model="theirs")
    return lowered.body["messages"][1]


STRAY_FIELDS: dict[str, tuple[Json, Json]] = {
    "fields of the message on its text part are dropped": (
        {"content": [{"type": "text", "text": "Hi", "role": "assistant", "annotations": []}]},
        {"content": [{"type": "text", "text": "Hi"}]},
    ),
    "reasoning on a text part is the message's": (
        {"content": [{"type": "text", "text": "Hi", "reasoning": "hm", "reasoning_content": "hm"}]},
        {"content": [{"type": "text", "text": "Hi"}], "reasoning_content": "hm"},
    ),
    "reasoning of the message itself is not replaced": (
        {"content": [{"type": "text", "text": "Hi", "reasoning": "hm"}], "reasoning": "so"},
        {"content": [{"type": "text", "text": "Hi"}], "reasoning_content": "so"},
    ),
    "what a part may have stays": (
        {"content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
        {"content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
    ),
    "a refusal stays": (
        {"content": [{"type": "refusal", "refusal": "No.", "role": "assistant"}]},
        {"content": [{"type": "refusal", "refusal": "No."}]},
    ),
}


@pytest.mark.parametrize(("message", "expected"), STRAY_FIELDS.values(), ids=STRAY_FIELDS)
def test_an_assistant_message_is_relayed_as_upstreams_take_it(message: Json, expected: Json) -> None:
    profile = {"replay_reasoning": "reasoning_content"}
    assert relayed({"role": "assistant", **message}, **profile) == {"role": "assistant", **expected}


def test_parts_of_a_user_are_relayed_as_they_are() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "Hi", "role": "user"}]}
    assert relayed(message) == message


SYSTEM = {"role": "system", "content": "Be brief."}
DEVELOPER = {"role": "developer", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "kind."}]}
MARKED = {"role": "system", "content": [{"type": "text", "text": "Long.", "cache_control": {"type": "ephemeral"}}]}
ANSWER = {"role": "assistant", "content": "Yes."}
BOTH = {"role": "system", "content": "Be brief.\n\nBe\nkind."}

SYSTEMS: dict[str, tuple[str, list[Json], list[Json], list[Loss]]] = {
    "leading ones become one": ("merge_leading", [SYSTEM, DEVELOPER, QUESTION], [BOTH, QUESTION], []),
    "a part that is marked stays one": (
        "merge_leading",
        [SYSTEM, MARKED, QUESTION],
        [{"role": "system", "content": [{"type": "text", "text": "Be brief."}, *MARKED["content"]]}, QUESTION],
        [],
    ),
    "one alone stays as it is": ("merge_leading", [SYSTEM, QUESTION], [SYSTEM, QUESTION], []),
    "later ones stay where they are": (
        "merge_leading",
        [SYSTEM, QUESTION, ANSWER, SYSTEM, QUESTION],
        [SYSTEM, QUESTION, ANSWER, SYSTEM, QUESTION],
        [],
    ),
    "later ones join the first where no others are taken": (
        "merge_all",
        [SYSTEM, QUESTION, DEVELOPER],
        [BOTH, QUESTION],
        [Loss("messages", "system messages merged")],
    ),
    "a late one alone is said first where no others are taken": (
        "merge_all",
        [QUESTION, SYSTEM],
        [SYSTEM, QUESTION],
        [Loss("messages", "system messages merged")],
    ),
    "all are kept for an upstream that takes any": (
        "keep",
        [SYSTEM, SYSTEM, QUESTION],
        [SYSTEM, SYSTEM, QUESTION],
        [],
    ),
}


@pytest.mark.parametrize(("habit", "messages", "expected", "losses"), SYSTEMS.values(), ids=SYSTEMS)
def test_system_messages_are_relayed_as_upstreams_take_them(
    habit: Any, messages: list[Json], expected: list[Json], losses: list[Loss]
) -> None:
    lowered = relay_body({"model": "m", "messages": messages}, Profile(system_messages=habit), model="theirs")
    assert lowered.body["messages"] == expected
    assert lowered.losses == losses


THOUGHT = "<think>\nhm\n</think>\n\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("Yes.", f"{THOUGHT}Yes."),
        (None, THOUGHT),
        ([{"type": "text", "text": "Yes."}], [{"type": "text", "text": THOUGHT}, {"type": "text", "text": "Yes."}]),
    ],
    ids=["before a string", "alone", "before parts"],
)
def test_past_reasoning_goes_back_in_think_tags_where_the_upstream_wants_that(content: Any, expected: Any) -> None:
    message = {"role": "assistant", "content": content, "reasoning": "hm"}
    assert relayed(message, replay_reasoning="think_tags") == {"role": "assistant", "content": expected}
