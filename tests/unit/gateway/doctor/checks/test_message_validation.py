"""gateway/doctor/checks/message_validation.py: which messages are complete, and the faults of the others."""

from typing import Any

import pytest

from gateway.doctor.checks.message_validation import check_message, check_message_events
from gateway.doctor.checks.response_validation import items_of_type, parse_calls, require_text
from gateway.doctor.checks.verdicts import CheckFailed
from tests.upstream import anthropic

Json = dict[str, Any]

TEXT = anthropic.text_events("po", "ng")
CALL = anthropic.block(0, {**anthropic.call_block("f"), "input": {}}, *anthropic.given('{"x":', "1}"))
THOUGHT = anthropic.block(0, anthropic.thinking_block(), *anthropic.thought("Hm."))


def test_a_stream_is_read_as_the_response_it_would_be() -> None:
    response = check_message_events([TEXT[0], {"type": "ping"}, *TEXT[1:]])
    assert require_text(response) == "pong"
    assert (response["status"], response["incomplete_details"]) == ("completed", None)
    assert response["usage"] == {"output_tokens": 3}


def test_thinking_and_calls_in_pieces_are_joined() -> None:
    call = [{**event, "index": 1} for event in CALL]
    response = check_message_events([anthropic.opening(), *THOUGHT, *call, *anthropic.closing("tool_use")])
    assert parse_calls(response, {"f"}) == [("toolu_1", "f", {"x": 1})]
    assert len(items_of_type(response, "reasoning")) == 1
    assert response["content"][0] == anthropic.thinking_block("Hm.", "s1")


def test_a_message_that_is_cut_off_is_incomplete() -> None:
    response = check_message(anthropic.message(anthropic.text_block("1, 2"), stop_reason="max_tokens"))
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


BLOCK = TEXT[1:-2]
STREAMS: dict[str, tuple[list[Json], str]] = {
    "empty": ([], "the stream has no events"),
    "without a beginning": (TEXT[1:], "content_block_start is out of order"),
    "begun twice": ([TEXT[0], *TEXT], "message_start is out of order"),
    "begun with content": (
        [{"type": "message_start", "message": anthropic.message(anthropic.text_block("a"))}],
        "has content",
    ),
    "without an end": (TEXT[:-1], "the stream ends without message_stop"),
    "going on after its end": ([*TEXT, TEXT[2]], "content_block_delta follows message_stop"),
    "a block in a block": ([TEXT[0], TEXT[1], TEXT[1]], "one block ends before the next begins"),
    "a delta without a block": ([TEXT[0], TEXT[2]], "one block ends before the next begins"),
    "an open block at the end": ([*TEXT[:3], *TEXT[-2:]], "message_delta comes before the end of a block"),
    "a block behind the reason": ([*TEXT[:-1], TEXT[1]], "content_block_start follows message_delta"),
    "an index that is left out": ([TEXT[0], {**TEXT[1], "index": 1}], "has the index 1 instead of 0"),
    "thinking in a text": (
        [*TEXT[:2], {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "a"}}],
        "a thinking_delta is in a block of type text",
    ),
    "half a call": (
        [anthropic.opening(), *CALL[:2], CALL[-1], *anthropic.closing("tool_use")],
        "the deltas of a call are not JSON",
    ),
    "a delta without an index": (
        [*TEXT[:2], {"type": "content_block_delta"}],
        "event 2, content_block_delta, is malformed",
    ),
}


@pytest.mark.parametrize(("events", "complaint"), STREAMS.values(), ids=STREAMS)
def test_a_stream_that_is_not_in_order_is_named_by_its_first_fault(events: list[Json], complaint: str) -> None:
    with pytest.raises(CheckFailed, match=complaint):
        check_message_events(events)


WHOLE = anthropic.message(anthropic.text_block("Hi"))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"type": "completion"}, "not a message"),
        ({"role": "user"}, "the role user"),
        ({"id": ""}, "no id"),
        ({"model": None}, "no model"),
        ({"stop_reason": "stop"}, "the stop_reason is stop"),
        ({"stop_reason": "tool_use"}, "there are no tool calls"),
        ({"content": "Hi"}, "not a list of blocks"),
        ({"usage": None}, "no usage"),
        ({"usage": {"input_tokens": 1, "output_tokens": None}}, "usage.output_tokens is None"),
    ],
)
def test_a_whole_message_needs_its_fields(changes: Json, complaint: str) -> None:
    with pytest.raises(CheckFailed, match=complaint):
        check_message(WHOLE | changes)
