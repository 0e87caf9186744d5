"""The usage of relayed messages has the counts that official clients require, whatever the upstream reports."""

from typing import Any

import orjson
import pytest

from tests.unit.support.stream_checks.messages_order import check_message, check_message_stream, read_frames
from tests.unit.support.translator_drivers import relay_to_end
from tests.upstream import anthropic
from translation.framing.sse import encode_event
from translation.messages.relaying.calls import relay_message
from translation.messages.relaying.relay import MessagesRelay
from translation.messages.relaying.reply_forms import build_message, build_message_stream
from translation.representation.json_types import Json

MISSING = object()
ZEROS = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}
KNOWN = {**ZEROS, "input_tokens": 9, "output_tokens": 1}

NO_OBJECTS: dict[str, Any] = {
    "missing": MISSING,
    "null": None,
    "a text": "9",
    "a list": [9],
    "a number": 9,
    "true": True,
}

ODD: Json = {"input_tokens": "2", "output_tokens": -1}

HEADS: dict[str, tuple[Any, Json]] = {
    **{name: (usage, ZEROS) for name, usage in NO_OBJECTS.items()},
    "empty": ({}, {"input_tokens": 0, "output_tokens": 0}),
    "no input": ({"output_tokens": 2, "more": "x"}, {"output_tokens": 2, "more": "x", "input_tokens": 0}),
    "no output": ({"input_tokens": 2}, {"input_tokens": 2, "output_tokens": 0}),
    "null counts": ({"input_tokens": None, "output_tokens": None}, {"input_tokens": 0, "output_tokens": 0}),
    "only the cache": (
        {"cache_read_input_tokens": 5},
        {"cache_read_input_tokens": 5, "input_tokens": 0, "output_tokens": 0},
    ),
    "all counts": ({**KNOWN, "service_tier": "standard"}, {**KNOWN, "service_tier": "standard"}),
    "counts that are odd": (ODD, ODD),
}

ENDS: dict[str, tuple[Any, Json]] = {
    **{name: (usage, KNOWN) for name, usage in NO_OBJECTS.items()},
    "empty": ({}, {"output_tokens": 1}),
    "no output": ({"input_tokens": 20}, {"input_tokens": 20, "output_tokens": 1}),
    "null output": ({"output_tokens": None}, {"output_tokens": 1}),
    "the output": ({"output_tokens": 3}, {"output_tokens": 3}),
    "more than the output": ({"output_tokens": 3, "more": None}, {"output_tokens": 3, "more": None}),
}


def put_usage(holder: Json, usage: Any) -> Json:
    rest = {key: value for key, value in holder.items() if key != "usage"}
    return rest if usage is MISSING else {**rest, "usage": usage}


def encode(*events: Json) -> bytes:
    return b"".join(encode_event(event["type"], orjson.dumps(event)) for event in events)


def end_with(usage: Any) -> Json:
    return put_usage({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}}, usage)


TEXT_EVENTS = anthropic.block(0, anthropic.text_block(), *anthropic.text_deltas("Hi"))
STOP: Json = {"type": "message_stop"}


@pytest.mark.parametrize("model", [None, "mine"])
@pytest.mark.parametrize(("usage", "expected"), HEADS.values(), ids=HEADS)
def test_a_message_begins_with_all_counts(usage: Any, expected: Json, model: str | None) -> None:
    opening = anthropic.opening()
    start = {**opening, "message": put_usage(opening["message"], usage)}
    relay = MessagesRelay(model=model)
    (sent,) = read_frames(relay.feed(encode(start)))
    assert sent["message"]["usage"] == expected
    assert {**sent["message"], "usage": None, "model": None} == {**start["message"], "usage": None, "model": None}


@pytest.mark.parametrize(("usage", "expected"), ENDS.values(), ids=ENDS)
def test_a_message_ends_with_the_count_of_its_output(usage: Any, expected: Json) -> None:
    relay = MessagesRelay(model=None)
    wire = relay_to_end(relay, encode(anthropic.opening(), *TEXT_EVENTS, end_with(usage), STOP))
    assert relay.failed is None
    assert read_frames(wire)[-2]["usage"] == expected
    assert check_message_stream(wire)["usage"]["output_tokens"] == expected["output_tokens"]


@pytest.mark.parametrize("usage", NO_OBJECTS.values(), ids=NO_OBJECTS)
def test_a_stream_without_any_usage_has_zeros(usage: Any) -> None:
    opening = anthropic.opening()
    start = {**opening, "message": put_usage(opening["message"], usage)}
    relay = MessagesRelay(model=None)
    wire = relay_to_end(relay, encode(start, *TEXT_EVENTS, end_with(usage), STOP))
    assert check_message_stream(wire)["usage"]["output_tokens"] == 0
    assert build_message(wire)["usage"] == ZEROS
    assert relay.usage is None, "no count is made up for the log"


def test_each_of_several_ends_has_the_counts_so_far() -> None:
    relay = MessagesRelay(model=None)
    first = {"input_tokens": 9, "output_tokens": 5, "output_tokens_details": {"thinking_tokens": 2}}
    sent = read_frames(relay.feed(encode(anthropic.opening(), end_with(first), end_with(None))))
    assert sent[1]["usage"] == first
    assert sent[2]["usage"] == {**KNOWN, "output_tokens": 5, "output_tokens_details": {"thinking_tokens": 2}}


@pytest.mark.parametrize(("usage", "expected"), HEADS.values(), ids=HEADS)
def test_a_whole_message_has_all_counts(usage: Any, expected: Json) -> None:
    whole = put_usage(anthropic.message(anthropic.text_block("Hi")), usage)
    given = orjson.loads(orjson.dumps(whole))
    assert relay_message(whole, None) == {**whole, "usage": expected}
    assert whole == given, "the upstream's message is not changed"
    if expected is not ODD:
        check_message(relay_message(whole, None))
    events = read_frames(build_message_stream(whole))
    assert events[0]["message"]["usage"] == events[-2]["usage"] == expected
