"""Converts a whole response to a stream."""

from typing import Any

import pytest

from tests.unit.support.stream_checks.responses_order import check_stream
from tests.unit.support.translator_drivers import counting_ids
from tests.upstream.builders import message_item, response_snapshot
from translation.errors import ProtocolViolation
from translation.responses.relaying.whole_response import build_response_stream

Json = dict[str, Any]

CALL = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_1",
    "name": "f",
    "arguments": '{"a":1}',
}
REASONING = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}

RESPONSES: dict[str, Json] = {
    "text": response_snapshot("completed", [message_item("Hello")]),
    "reasoning and a call": response_snapshot("completed", [REASONING, CALL]),
    "nothing": response_snapshot("completed"),
    "a cut text": response_snapshot(
        "incomplete",
        [message_item("Hel", "incomplete")],
        incomplete_details={"reason": "max_output_tokens"},
        completed_at=None,
    ),
    "a failure": response_snapshot("failed", error={"code": "server_error", "message": "out of memory"}),
}


@pytest.mark.parametrize("response", RESPONSES.values(), ids=RESPONSES)
def test_the_stream_ends_with_the_response_unchanged(response: Json) -> None:
    events = check_stream(build_response_stream(response, counting_ids()))
    assert events[0]["response"]["status"] == "in_progress"
    assert events[-1]["type"] == f"response.{response['status']}"
    assert events[-1]["response"] == response


@pytest.mark.parametrize("answer", [{}, {"object": "chat.completion", "choices": []}], ids=["nothing", "chat"])
def test_an_invalid_response_is_refused(answer: Json) -> None:
    with pytest.raises(ProtocolViolation):
        build_response_stream(answer, counting_ids())
