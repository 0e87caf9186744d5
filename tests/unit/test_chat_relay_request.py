"""Chat requests on their way to a chat upstream."""

from typing import Any

import pytest

from translation.chat.relay_request import relay_body
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
