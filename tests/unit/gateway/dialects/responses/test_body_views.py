"""What the reply to a request echoes, and what its upstream gets."""

from typing import Any

import pytest

from gateway.dialects.responses.body_views import continue_body, echo_body
from gateway.replies.endpoints import UpstreamInput
from translation.representation.profile import Profile

Json = dict[str, Any]
BODY: Json = {"model": "m", "input": "a"}


def test_a_reply_reports_what_is_really_stored() -> None:
    body = {**BODY, "conversation": "conv_1", "background": None, "store": None}
    view = echo_body(True, False, body, Profile())
    assert (view["store"], view["background"], view["conversation"]) == (True, False, {"id": "conv_1"})
    assert echo_body(False, False, {**BODY, "store": True}, Profile())["store"] is False


def test_parameters_about_stored_state_are_not_sent_upstream() -> None:
    body = {**BODY, "previous_response_id": "r", "conversation": None, "background": False, "resumable": True}
    history: Json = {"type": "message", "role": "user", "content": []}
    own: Json = {"type": "message", "role": "user", "content": []}
    assert continue_body(body, UpstreamInput([history, own])) == {
        "model": "m",
        "store": False,
        "input": [history, own],
    }


def test_an_input_without_history_is_sent_unchanged() -> None:
    assert continue_body(BODY, UpstreamInput())["input"] == "a"


@pytest.mark.parametrize(
    ("more", "echoed"),
    [({}, False), ({"parallel_tool_calls": None}, False), ({"parallel_tool_calls": True}, True)],
)
def test_the_configured_parallel_tool_calls_are_read_back(more: Json, echoed: bool) -> None:
    view = echo_body(True, False, {**BODY, **more}, Profile(parallel_tool_calls=False))
    assert view["parallel_tool_calls"] is echoed


def test_unset_parallel_tool_calls_are_left_to_their_default() -> None:
    assert "parallel_tool_calls" not in echo_body(True, False, BODY, Profile())
