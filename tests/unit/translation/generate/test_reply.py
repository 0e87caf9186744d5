"""Events → the replies of `/generate`."""

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.support.responses_streams import STREAMS, Stream
from tests.unit.support.translator_drivers import conclude, feed_to_end
from translation.framing.sse import FrameDecoder
from translation.generate.encode import GenerateCollector, GenerateEncoder
from translation.representation import items
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    FinishReason,
    ItemEnded,
    ItemStarted,
    Noted,
    PartEnded,
    PartStarted,
    Started,
    Usage,
)

Json = dict[str, Any]

STARTED = Started("up")


def block(index: int, kind: str, *texts: str) -> list[Event]:
    item, part = {
        "thinking": (items.new_reasoning(f"rs_{index}"), items.new_reasoning_text()),
        "summary": (items.new_reasoning(f"rs_{index}"), items.new_summary_text()),
        "text": (items.new_message(f"msg_{index}"), items.new_output_text()),
        "refusal": (items.new_message(f"msg_{index}"), items.new_refusal()),
    }[kind]
    deltas = [Delta(index, 0, text) for text in texts]
    return [ItemStarted(index, item), PartStarted(index, 0, part), *deltas, PartEnded(index, 0), ItemEnded(index)]


def call(index: int, name: str, *arguments: str, **end: Any) -> list[Event]:
    started = ItemStarted(index, items.new_function_call(f"fc_{index}", call_id=f"call_{index}", name=name))
    deltas = [Delta(index, None, text) for text in arguments]
    return [started, *deltas, PartEnded(index, None), ItemEnded(index, **end)]


def finished(reason: FinishReason = "stop", usage: Usage | None = None) -> Finished:
    return Finished(reason, reason, usage)


def whole(*events: Event) -> Json:
    collector = GenerateCollector("tiny")
    collector.feed(events)
    assert collector.failed is None
    return collector.result()


def frames(events: Sequence[Event]) -> list[tuple[str | None, Json]]:
    """Returns (event name, payload) of each frame of a stream, with each event in a batch of its own."""
    encoder = GenerateEncoder("tiny")
    written = feed_to_end(encoder, *([event] for event in events))
    return [(frame.event, json.loads(frame.payload)) for frame in FrameDecoder().feed(written)]


def test_thinking_and_answer_are_side_by_side() -> None:
    reply = whole(*block(0, "thinking", "Hm", "m."), *block(1, "text", "Yes", "."), finished())
    assert (reply["thinking"], reply["response"], reply["tool_calls"]) == ("Hmm.", "Yes.", [])
    assert (reply["pre_tool_text"], reply["finish_reason"], reply["model"]) == ("", "stop", "tiny")


def test_arguments_are_an_object_and_the_text_is_that_around_the_calls() -> None:
    reply = whole(
        *block(0, "text", "I look. "),
        *call(1, "add", '{"a":', " 2}"),
        *block(2, "text", "And again.\n"),
        *call(3, "now"),
        finished("tool_calls"),
    )
    assert reply["tool_calls"] == [
        {"id": "call_1", "name": "add", "arguments": {"a": 2}},
        {"id": "call_3", "name": "now", "arguments": {}},
    ]
    assert reply["pre_tool_text"] == reply["response"] == "I look. And again."
    assert reply["finish_reason"] == "tool_calls"


def test_a_stream_has_each_piece_and_then_the_whole_reply() -> None:
    events = [
        STARTED,
        *block(0, "thinking", "Hm."),
        *block(1, "text", "I ", "look."),
        *call(2, "add", '{"a"', ":2}"),
        *call(3, "now"),
        finished(),
    ]
    *pieces, (last, reply) = frames(events)
    assert pieces == [
        (None, {"thinking": "Hm."}),
        (None, {"response": "I "}),
        (None, {"response": "look."}),
        (None, {"tool_call": {"index": 0, "id": "call_2", "name": "add", "arguments": ""}}),
        (None, {"tool_call": {"index": 0, "arguments": '{"a"'}}),
        (None, {"tool_call": {"index": 0, "arguments": ":2}"}}),
        (None, {"tool_call": {"index": 1, "id": "call_3", "name": "now", "arguments": ""}}),
    ]
    assert last == "done"
    assert reply == whole(*events)


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_the_pieces_of_any_turn_add_up_to_its_reply(stream: Stream) -> None:
    *pieces, (last, reply) = frames(stream.events)
    texts = {key: "".join(piece.get(key, "") for _, piece in pieces) for key in ("thinking", "response")}
    if last == "error":
        assert set(reply) == {"error"}
        return
    assert last == "done"
    assert texts == {key: reply[key] for key in texts}
    arguments: dict[int, str] = {}
    for _, piece in pieces:
        if "tool_call" in piece:
            said = piece["tool_call"]
            arguments[said["index"]] = arguments.get(said["index"], "") + said["arguments"]
    assert [json.loads(text or "{}") for text in arguments.values()][: len(reply["tool_calls"])] == [
        told["arguments"] for told in reply["tool_calls"]
    ]


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_a_json_reply_equals_the_end_of_its_stream(stream: Stream) -> None:
    collector = GenerateCollector("tiny")
    collector.feed(stream.events)
    last, payload = frames(stream.events)[-1]
    if collector.failed is None:
        assert (last, payload) == ("done", collector.result())
    else:
        assert (last, payload["error"]["code"]) == ("error", collector.failed.code)


def test_a_failure_is_the_only_end() -> None:
    *_, last = frames([STARTED, *block(0, "text", "Yes"), Failed("upstream_disconnected", "it broke off")])
    assert last == ("error", {"error": {"message": "it broke off", "param": None, "code": "upstream_disconnected"}})


@pytest.mark.parametrize("arguments", ["{", "[1]", "3", "nonsense", '{"a": 1} {'])
def test_a_call_without_an_object_for_arguments_is_a_failure(arguments: str) -> None:
    *_, (last, payload) = frames([STARTED, *call(0, "add", arguments), finished("tool_calls")])
    assert (last, payload["error"]["code"]) == ("error", "tool_call_parse_error")
    assert "'add'" in payload["error"]["message"]


@pytest.mark.parametrize("arguments", ['{"a": ', ""])
def test_a_call_that_was_cut_off_is_none(arguments: str) -> None:
    reply = whole(
        *block(0, "text", "I look."),
        *call(1, "add", arguments, status="incomplete"),
        finished("length"),
    )
    assert (reply["tool_calls"], reply["pre_tool_text"], reply["response"]) == ([], "", "I look.")
    assert reply["finish_reason"] == "length"


def test_a_call_that_was_complete_at_the_limit_is_one() -> None:
    reply = whole(*call(0, "add", '{"a": 1}', status="incomplete"), finished("length"))
    assert reply["tool_calls"] == [{"id": "call_0", "name": "add", "arguments": {"a": 1}}]
    assert reply["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("stop", "stop"), ("other", "stop"), ("length", "length"), ("content_filter", "content_filter")],
)
def test_the_finish_reason_is_reported(reason: FinishReason, expected: str) -> None:
    assert whole(*block(0, "text", "a"), finished(reason))["finish_reason"] == expected


def test_a_refusal_is_the_answer() -> None:
    assert whole(*block(0, "refusal", "No."), finished())["response"] == "No."


def test_summaries_are_paragraphs_and_raw_thoughts_are_not() -> None:
    assert whole(*block(0, "summary", "a"), *block(1, "summary", "b"), finished())["thinking"] == "a\n\nb"
    assert whole(*block(0, "thinking", "a"), *block(1, "thinking", "b"), finished())["thinking"] == "ab"
    two_parts = [
        *block(0, "summary", "a")[:-1],
        PartStarted(0, 1, items.new_summary_text()),
        PartEnded(0, 1, {"type": "summary_text", "text": "b"}),
        ItemEnded(0),
    ]
    assert whole(*two_parts, finished())["thinking"] == "a\n\nb"


def test_text_without_deltas_is_sent_once() -> None:
    message = {
        **items.new_message("msg_0"),
        "content": [{**items.new_output_text(), "text": "Hi."}, {"type": "unheard_of"}],
    }
    thought = {**items.new_reasoning("rs_1"), "summary": [{**items.new_summary_text(), "text": "Hm."}]}
    called = {**items.new_function_call("fc_2", call_id="call_2", name="f"), "arguments": '{"a":1}'}
    events: list[Event] = [
        ItemStarted(0, items.new_message("msg_0")),
        ItemEnded(0, message),
        ItemStarted(1, items.new_reasoning("rs_1")),
        ItemEnded(1, thought),
        ItemStarted(2, items.new_function_call("fc_2", call_id="call_2", name="f")),
        ItemEnded(2, called),
        finished(),
    ]
    reply = whole(*events)
    assert (reply["response"], reply["thinking"]) == ("Hi.", "Hm.")
    assert reply["tool_calls"][0]["arguments"] == {"a": 1}
    said_before = [*block(0, "text", "Hi.")[:-1], ItemEnded(0, message), finished()]
    assert whole(*said_before)["response"] == "Hi."


def test_calls_that_did_not_fit_are_reported() -> None:
    warnings = [{"name": "add", "why": "it lacks a"}]
    reply = whole(*block(0, "text", "No."), Noted(facts={"tool_warnings": warnings}), finished())
    assert reply["tool_warnings"] == warnings
    assert "tool_warnings" not in whole(Noted(facts={"service_tier": "flex"}), finished())


def test_unsupported_items_are_left_out() -> None:
    reply = whole(
        ItemStarted(0, {"id": "ws_1", "type": "web_search_call"}),
        PartStarted(0, 0, {"type": "unheard_of"}),
        Delta(0, 0, "x"),
        PartEnded(0, 0, {"type": "unheard_of"}),
        ItemEnded(0),
        ItemStarted(1, items.new_message("msg_1")),
        PartStarted(1, 0, {**items.new_output_text(), "text": "rain"}),
        Annotated(1, 0, {"type": "url_citation"}),
        PartEnded(1, 0),
        ItemEnded(1),
        finished(),
    )
    assert (reply["thinking"], reply["response"]) == ("", "rain")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            Usage(input=10, output=5, reasoning=2, cache_read=4),
            {"prompt_tokens": 10, "thinking_tokens": 2, "response_tokens": 3, "total_tokens": 15, "cached_tokens": 4},
        ),
        (
            Usage(input=10, output=5),
            {
                "prompt_tokens": 10,
                "thinking_tokens": None,
                "response_tokens": 5,
                "total_tokens": 15,
                "cached_tokens": None,
            },
        ),
        (
            Usage(output=5),
            {
                "prompt_tokens": None,
                "thinking_tokens": None,
                "response_tokens": 5,
                "total_tokens": None,
                "cached_tokens": None,
            },
        ),
        (
            Usage(input=10),
            {
                "prompt_tokens": 10,
                "thinking_tokens": None,
                "response_tokens": None,
                "total_tokens": None,
                "cached_tokens": None,
            },
        ),
        (None, None),
    ],
)
def test_token_counts_are_separate_and_never_invented(usage: Usage | None, expected: Json | None) -> None:
    assert whole(finished(usage=usage))["usage"] == expected
    assert whole(Noted(usage=usage), finished())["usage"] == expected
    assert whole(Noted(usage=usage), Noted(facts={}), finished())["usage"] == expected


def test_an_end_that_could_not_be_stored_can_still_become_a_failure() -> None:
    encoder = GenerateEncoder("tiny")
    made = encoder.feed([STARTED, *block(0, "text", "Yes"), finished()])
    assert encoder.response is not None
    assert made == b'data: {"response":"Yes"}\n\n'
    assert encoder.ended
    assert encoder.failed is None
    assert encoder.feed([Failed("store_unavailable", "no")]) == b""
    assert encoder.failed == Failed("store_unavailable", "no")
    assert encoder.response is None
    assert conclude(encoder).startswith(b"event: error\n")
    assert encoder.ended


def test_many_calls_take_linear_time() -> None:
    encoder = GenerateEncoder("tiny")
    began = time.thread_time()
    for number in range(20_000):
        encoder.feed(call(number, "f", "{}"))
    assert time.thread_time() - began < 5
    assert b'"index":20000' in encoder.feed(call(20_000, "f", "{}"))


def test_no_frame_is_written_by_template() -> None:
    encoder: Any = GenerateEncoder("tiny")
    assert encoder.build_delta_template(None, ()) is None
