"""Relayed calls have a whole input, and a stop reason by which clients run them."""

from typing import Any

import orjson
import pytest

from tests.upstream.anthropic import USAGE
from translation.errors import ProtocolViolation
from translation.framing.sse import encode_data, encode_event
from translation.messages.relaying.calls import accepts_unchecked_inputs, relay_message
from translation.messages.relaying.relay import MessagesRelay

Json = dict[str, Any]


def start(kind: str = "tool_use", index: Any = 0) -> Json:
    block = {"type": "text", "text": ""} if kind == "text" else {"type": kind, "id": "t", "name": "f", "input": {}}
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(text: Any, index: int = 0) -> Json:
    return {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": "input_json_delta", "partial_json": text},
    }


def stop(index: int = 0) -> Json:
    return {"type": "content_block_stop", "index": index}


def end(reason: str) -> Json:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}}


BEGIN: Json = {"type": "message_start", "message": {"id": "m", "model": "u", "content": [], "usage": USAGE}}
MESSAGE_STOP: Json = {"type": "message_stop"}


def relay(
    *events: Json, has_names: bool = True, accepts_unchecked_inputs: bool = False
) -> tuple[MessagesRelay, list[Json]]:
    relayed = MessagesRelay(model=None, accepts_unchecked_inputs=accepts_unchecked_inputs)
    sent = b""
    for event in (BEGIN, *events, MESSAGE_STOP):
        payload = orjson.dumps(event)
        sent += relayed.feed(encode_event(event["type"], payload) if has_names else encode_data(payload))
    sent += relayed.finish() + relayed.conclude()
    return relayed, [orjson.loads(frame.partition(b"data: ")[2]) for frame in sent.split(b"\n\n") if frame]


HALVES: dict[str, tuple[list[Json], str]] = {
    "half an input": ([start(), piece('{"city": "Par'), stop()], "tool_use"),
    "half an input, and another reason": ([start(), piece('{"city": "Par'), stop()], "end_turn"),
    "half an input in pieces": ([start(), piece('{"city"'), piece(': "Par'), stop()], "tool_use"),
    "an input that is a list": ([start(), piece("[1]"), stop()], "tool_use"),
    "an input that is no JSON": ([start(), piece("Paris"), stop()], "tool_use"),
    "the first of two": (
        [start(), start(index=1), piece('{"a"'), piece("{}", 1), stop(), stop(1)],
        "tool_use",
    ),
    "a block that does not end": ([start(), piece('{"city": "Par')], "tool_use"),
    "a call that the upstream runs": ([start("server_tool_use"), piece('{"query": "Par'), stop()], "end_turn"),
}


@pytest.mark.parametrize("has_names", [True, False])
@pytest.mark.parametrize(("events", "reason"), HALVES.values(), ids=HALVES)
def test_half_an_input_is_no_complete_message(events: list[Json], reason: str, has_names: bool) -> None:
    relayed, sent = relay(*events, end(reason), has_names=has_names)
    assert relayed.failed is not None
    assert relayed.failed.code == "upstream_garbled"
    assert sent[-1]["type"] == "error"
    assert "message_delta" not in {event["type"] for event in sent}


UNREAD_INPUTS: dict[str, str] = {
    "half a surrogate": r'{"emoji": "\ud83d"}',
    "a number beyond all": '{"n": 1e999}',
    "many digits": '{"n": 12345678901234567890123}',
    "many levels": '{"a": ' * 300 + "1" + "}" * 300,
    "more levels than Python reads": '{"a": ' * 50_000 + "1" + "}" * 50_000,
    "white space around it": ' {"a": 1}\n',
}


@pytest.mark.parametrize("text", UNREAD_INPUTS.values(), ids=UNREAD_INPUTS)
def test_a_whole_input_is_relayed_even_if_the_gateway_could_not_read_it(text: str) -> None:
    events = [start(), piece(text), stop()]
    relayed, sent = relay(*events, end("tool_use"))
    assert relayed.failed is None
    assert sent == [BEGIN, *events, end("tool_use"), MESSAGE_STOP]


@pytest.mark.parametrize("text", ['{"n": NaN}', '{"n": Infinity}', '{"a": ' * 50_000, '{"a": 1}}', "1e999"])
def test_what_is_no_object_for_any_client_is_no_input(text: str) -> None:
    relayed, _ = relay(start(), piece(text), stop(), end("tool_use"))
    assert relayed.failed is not None
    assert relayed.failed.code == "upstream_garbled"


def test_a_client_that_takes_unchecked_inputs_gets_them_as_they_are() -> None:
    events = [start(), piece('{"city": "Par'), stop()]
    relayed, sent = relay(*events, end("tool_use"), accepts_unchecked_inputs=True)
    assert relayed.failed is None
    assert sent == [BEGIN, *events, end("tool_use"), MESSAGE_STOP]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, False),
        ({"tools": None, "anthropic_beta": None}, False),
        ({"tools": [{"name": "f"}, {"name": "g", "eager_input_streaming": False}]}, False),
        ({"tools": [{"name": "f"}, {"name": "g", "eager_input_streaming": True}]}, True),
        ({"anthropic_beta": ["interleaved-thinking-2025-05-14"]}, False),
        ({"anthropic_beta": ["a", "fine-grained-tool-streaming-2025-05-14"]}, True),
    ],
)
def test_who_takes_unchecked_inputs_says_so_in_its_request(body: Json, expected: bool) -> None:
    assert accepts_unchecked_inputs(body) is expected


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "refusal", "pause_turn"])
def test_half_an_input_of_a_message_that_was_cut_off_is_what_the_client_is_told(reason: str) -> None:
    relayed, sent = relay(start(), piece('{"city": "Par'), stop(), end(reason))
    assert relayed.failed is None
    assert sent[-2:] == [end(reason), MESSAGE_STOP]


WHOLE: dict[str, list[Json]] = {
    "an input": [start(), piece('{"city": '), piece('"Paris"}'), stop()],
    "no input": [start(), stop()],
    "an empty input": [start(), piece(""), stop()],
    "white space": [start(), piece(" "), stop()],
    "two calls at once": [start(), start(index=1), piece("{", 1), piece("{}"), piece("}", 1), stop(1), stop()],
}


@pytest.mark.parametrize("has_names", [True, False])
@pytest.mark.parametrize("events", WHOLE.values(), ids=WHOLE)
def test_whole_inputs_are_forwarded_unchanged(events: list[Json], has_names: bool) -> None:
    relayed, sent = relay(*events, end("tool_use"), has_names=has_names)
    assert relayed.failed is None
    assert sent[1:-2] == events


REASONS = [
    # blocks, the upstream's reason, the client's
    (["tool_use"], "end_turn", "tool_use"),
    (["text", "tool_use"], "end_turn", "tool_use"),
    (["tool_use"], "tool_use", "tool_use"),
    (["tool_use"], "max_tokens", "max_tokens"),
    (["tool_use"], "stop_sequence", "stop_sequence"),
    (["text"], "tool_use", "end_turn"),
    (["text"], "end_turn", "end_turn"),
    (["text"], "sensitive", "sensitive"),
    (["server_tool_use"], "end_turn", "end_turn"),
]


@pytest.mark.parametrize(("kinds", "reason", "expected"), REASONS)
def test_the_stop_reason_fits_the_calls(kinds: list[str], reason: str, expected: str) -> None:
    blocks = [event for index, kind in enumerate(kinds) for event in (start(kind, index), stop(index))]
    _, sent = relay(*blocks, end(reason))
    assert sent[-2]["delta"]["stop_reason"] == expected
    message = {
        "content": [start(kind)["content_block"] for kind in kinds],
        "stop_reason": reason,
        "model": "u",
        "usage": USAGE,
    }
    assert relay_message(message, None) == {**message, "stop_reason": expected}
    assert relay_message(message, "m")["model"] == "m"


def call(given: Any, **more: Any) -> Json:
    return {"type": "tool_use", "id": "t", "name": "f", "input": given, **more}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ("", {}),
        (None, {}),
    ],
)
def test_the_input_of_a_whole_message_is_an_object(given: Any, expected: Json) -> None:
    message = {"content": [{"type": "text", "text": "Hm."}, call(given)], "stop_reason": "tool_use"}
    assert relay_message(message, None)["content"] == [{"type": "text", "text": "Hm."}, call(expected)]
    assert message["content"][1] == call(given), "the upstream's message is not changed"


@pytest.mark.parametrize("given", ['{"a": ', "[1]", [1], 5, True])
def test_another_input_of_a_whole_message_is_an_error_unless_it_was_cut_off(given: Any) -> None:
    with pytest.raises(ProtocolViolation, match="input"):
        relay_message({"content": [call(given)], "stop_reason": "tool_use"}, None)
    cut = {"content": [call(given)], "stop_reason": "max_tokens", "usage": USAGE}
    assert relay_message(cut, None) == cut


@pytest.mark.parametrize("content", [None, "text", ["a block"]])
def test_content_of_another_form_is_relayed(content: Any) -> None:
    message = {"content": content, "stop_reason": "end_turn", "usage": USAGE}
    assert relay_message(message, None) == message
