"""gateway/doctor/checks/event_order.py, response_validation.py: valid streams pass, and every fault is reported."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from gateway.doctor.checks.event_order import check_order
from gateway.doctor.checks.response_validation import (
    check_response,
    check_usage,
    message_text_of,
    parse_calls,
    require_text,
)
from gateway.doctor.checks.verdicts import CheckFailed, Inconclusive
from tests.unit.support.responses_streams import STREAMS, Stream
from tests.unit.support.stream_checks.responses_order import read_stream
from tests.unit.support.translator_drivers import feed_to_end
from tests.upstream.builders import message_item, response_snapshot, text_events
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.client.initial_response import new_response

Json = dict[str, Any]

CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "search", "arguments": '{"query": "x"}'}
USAGE = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}


def numbered(events: list[Json]) -> list[Json]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def sound() -> list[Json]:
    return deepcopy(numbered(text_events("po", "ng")))


def response(*output: Json, **changes: Any) -> Json:
    return {**response_snapshot("completed", output), "model": "m", **changes}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_every_stream_that_the_gateway_can_write_is_in_order(stream: Stream) -> None:
    head = new_response({"model": "m", "input": "hi"}, response_id="resp_1", created_at=100, model="m")
    wire = feed_to_end(ResponsesEncoder(head, lambda: 105), stream.events)
    check_order(read_stream(wire), done=True)


def test_a_stream_as_openai_sends_it_is_in_order() -> None:
    check_order(sound(), done=True)


def drop(kind: str) -> Callable[[list[Json]], list[Json]]:
    return lambda events: numbered([event for event in events if event["type"] != kind])


def double(kind: str) -> Callable[[list[Json]], list[Json]]:
    return lambda events: numbered([event for event in events for _ in range(1 + (event["type"] == kind))])


def change(kind: str, **fields: Any) -> Callable[[list[Json]], list[Json]]:
    return lambda events: [{**event, **fields} if event["type"] == kind else event for event in events]


def move_to_the_end(kind: str) -> Callable[[list[Json]], list[Json]]:
    return lambda events: numbered(sorted(events, key=lambda event: event["type"] == kind))


WRONG = {
    "no events": (lambda events: [], "no events"),
    "a number twice": (change("response.output_item.added", sequence_number=1), "event 2 has the sequence number 1"),
    "no beginning": (drop("response.created"), "response.created is not first"),
    "never in progress": (drop("response.in_progress"), "before response.in_progress"),
    "begun twice": (double("response.created"), "response.created twice"),
    "no end": (drop("response.completed"), "without a terminal event"),
    "two ends": (double("response.completed"), "after the end"),
    "something after the end": (move_to_the_end("response.output_item.done"), "ends before its items"),
    "an item skipped": (change("response.output_item.added", output_index=1), "item 1 starts, but 0 is next"),
    "an item never begun": (change("response.output_text.delta", output_index=3), "item 3, which never started"),
    "an item of another id": (change("response.output_text.delta", item_id="msg_2"), "an item's id changed"),
    "a part never begun": (drop("response.content_part.added"), "for a part that is not open"),
    "a part without its text's end": (drop("response.output_text.done"), "a part ends before its text"),
    "a part that is open": (drop("response.content_part.done"), "an item ends before its parts"),
    "an item that is open": (drop("response.output_item.done"), "the response ends before its items"),
    "other text": (change("response.output_text.done", text="ping"), "is not the sum of its deltas"),
    "no text": (drop("response.output_text.delta"), "is not the sum of its deltas"),
    "another status": (
        change("response.completed", response=response_snapshot("failed")),
        "response.completed has a response that is failed",
    ),
    "other output": (change("response.completed", response=response_snapshot("completed")), "the sum of its items"),
    "a key missing": (change("response.output_text.delta", delta=None), "is malformed"),
}


@pytest.mark.parametrize(("break_it", "words"), WRONG.values(), ids=WRONG)
def test_events_out_of_order_are_reported(break_it: Callable[[list[Json]], list[Json]], words: str) -> None:
    with pytest.raises(CheckFailed, match=words):
        check_order(break_it(sound()), done=True)


def call_events() -> list[Json]:
    """A stream with one call."""
    place = {"output_index": 0, "item_id": "fc_1"}
    return numbered(
        [
            {"type": "response.created", "response": response_snapshot("in_progress")},
            {"type": "response.in_progress", "response": response_snapshot("in_progress")},
            {"type": "response.output_item.added", "output_index": 0, "item": {**CALL, "arguments": ""}},
            {"type": "response.function_call_arguments.delta", **place, "delta": CALL["arguments"]},
            {"type": "response.function_call_arguments.done", **place, "arguments": CALL["arguments"]},
            {"type": "response.output_item.done", "output_index": 0, "item": CALL},
            {"type": "response.completed", "response": response_snapshot("completed", [CALL])},
        ]
    )


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (drop("response.function_call_arguments.done"), "a function_call ends before its arguments"),
        (
            lambda events: [event for event in events if "arguments" not in event["type"]],
            "event 3 has the sequence number 5",
        ),
        (
            lambda events: numbered([event for event in events if "arguments" not in event["type"]]),
            "a function_call has no arguments",
        ),
        (change("response.output_item.done", item={**CALL, "arguments": "{}"}), "is not the sum of its deltas"),
        (change("response.output_item.done", item={**CALL, "name": "find"}), "an item's name changed"),
    ],
)
def test_a_call_that_is_out_of_order_is_named(break_it: Callable[[list[Json]], list[Json]], words: str) -> None:
    check_order(call_events(), done=True)
    with pytest.raises(CheckFailed, match=words):
        check_order(break_it(call_events()), done=True)


def test_a_stream_needs_its_last_frame() -> None:
    with pytest.raises(CheckFailed, match="DONE"):
        check_order(sound(), done=False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"object": "chat.completion"}, "the reply is not a response"),
        ({"id": ""}, "no id"),
        ({"model": None}, "has no model"),
        ({"output": [1]}, "not a list of items"),
        ({"status": "queued"}, "is queued"),
        ({"status": "incomplete"}, "a response that is incomplete has the details None"),
    ],
)
def test_a_response_of_another_shape_is_wrong(changes: Json, words: str) -> None:
    assert check_response(response(message_item("pong")))
    with pytest.raises(CheckFailed, match=words):
        check_response(response(message_item("pong"), **changes))


def test_an_answer_truncated_before_its_start_decides_nothing() -> None:
    with pytest.raises(Inconclusive, match="max_output_tokens"):
        require_text(response(status="incomplete", incomplete_details={"reason": "max_output_tokens"}))
    with pytest.raises(CheckFailed, match="no text"):
        require_text(response())


def test_a_message_of_something_else_is_wrong() -> None:
    with pytest.raises(CheckFailed, match="no text"):
        message_text_of(response({**message_item("pong"), "content": [{"type": "output_text"}]}))
    with pytest.raises(CheckFailed, match="a part that is not text"):
        message_text_of(response({**message_item("pong"), "content": [{"type": "picture"}]}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "find"}, "which is not a tool of the request"),
        ({"call_id": None}, "has no id"),
        ({"arguments": "{"}, "are not JSON"),
        ({"arguments": "[]"}, "are not an object"),
    ],
)
def test_a_call_of_another_shape_is_wrong(changes: Json, words: str) -> None:
    assert parse_calls(response(CALL), {"search"}) == [("call_1", "search", {"query": "x"})]
    with pytest.raises(CheckFailed, match=words):
        parse_calls(response({**CALL, **changes}), {"search"})


def test_two_calls_of_one_id_are_wrong() -> None:
    with pytest.raises(CheckFailed, match="two calls have the same id"):
        parse_calls(response(CALL, CALL), {"search"})


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (None, "no usage"),
        ({**USAGE, "input_tokens": True}, "usage.input_tokens is True"),
        ({**USAGE, "output_tokens": "3"}, "usage.output_tokens is 3"),
        ({**USAGE, "total_tokens": 13}, "usage.total_tokens is 13, not 12"),
        ({**USAGE, "input_tokens_details": {"cached_tokens": 10}}, "10 cached_tokens of 9 input_tokens"),
    ],
)
def test_usage_that_cannot_be_is_wrong(usage: Json | None, words: str) -> None:
    assert check_usage(USAGE) == USAGE
    with pytest.raises(CheckFailed, match=words):
        check_usage(usage)
