"""Decodes the ends of Responses streams, and what they report beside items."""

from typing import Any

import orjson
import pytest

from tests.unit.support.golden import check_events, chunks_of, recordings
from tests.unit.support.responses_streams import CITATION, LOGPROB, STREAMS
from tests.unit.support.stream_checks.responses_order import check_order, read_stream
from tests.unit.support.translator_drivers import collect, counting_ids, decode, feed_to_end
from tests.unit.translation.responses.decoded_responses import (
    CALL,
    COMPLETED,
    CREATED,
    FINISHED,
    MADE_UP,
    STARTED,
    TEXT,
    added,
    decoded,
    delta,
    done,
    message,
    native,
    without,
)
from translation.errors import ProtocolViolation
from translation.representation import items
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    Started,
    Usage,
)
from translation.representation.json_types import Item, Json
from translation.representation.profile import Profile
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.client.initial_response import new_response
from translation.responses.upstream.decode import ResponsesDecoder

HEAD = new_response({"model": "m", "input": "hi"}, response_id="resp_1", created_at=100, model="m")


def encoded(events: list[Event]) -> list[Json]:
    return read_stream(feed_to_end(ResponsesEncoder(HEAD, lambda: 105), events))


def ending(status: str, **response: Any) -> Json:
    return native(status, response={"status": status, **response})


USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": -1},
    "output_tokens": 5.0,
    "output_tokens_details": {"reasoning_tokens": True},
    "total_tokens": 15,
}
COUNTED = Usage(input=10, output=5, cache_read=10, reasoning=None, raw=USAGE)

ENDS: dict[str, tuple[Json, Event]] = {
    "completed": (
        ending("completed", usage=USAGE),
        Finished("stop", "completed", COUNTED, {"status": "completed", "usage": USAGE}),
    ),
    "out of tokens": (
        ending("incomplete", incomplete_details={"reason": "max_output_tokens"}),
        Finished(
            "length",
            "max_output_tokens",
            None,
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        ),
    ),
    "completed, it says, but incomplete": (
        native("completed", response={"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}),
        Finished(
            "content_filter",
            "content_filter",
            None,
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
        ),
    ),
    "incomplete for another reason": (
        ending("incomplete", incomplete_details={"reason": "steered"}),
        Finished(
            "length", "steered", None, {"status": "incomplete", "incomplete_details": {"reason": "steered"}}, True
        ),
    ),
    "incomplete for no reason": (native("incomplete"), Finished("length", "incomplete", is_unknown=True)),
    "failed": (
        ending("failed", error={"code": "server_error", "message": "Oops."}, usage=USAGE),
        Failed("server_error", "Oops.", usage=COUNTED),
    ),
    "failed without a word": (
        ending("failed"),
        Failed("upstream_error", "the upstream reported an error without saying which"),
    ),
    "cancelled": (ending("cancelled"), Failed("upstream_error", "the upstream cancelled the response")),
    "a flat error": (
        {"type": "error", "code": "invalid_prompt", "message": "No.", "param": "input"},
        Failed("invalid_prompt", "No.", "input"),
    ),
    "a nested error": (
        {"type": "error", "error": {"type": "invalid_request_error", "code": None, "message": "No.", "param": None}},
        Failed("invalid_request_error", "No."),
    ),
    "an error that is a text": ({"type": "error", "error": "No."}, Failed("upstream_error", "No.")),
    "a rate limit": (
        {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down."},
        Failed("rate_limited", "Slow down."),
    ),
    "a rate limit named by its type": (
        {"type": "error", "error": {"type": "too_many_requests", "message": "Slow down.", "code": "x"}},
        Failed("rate_limited", "Slow down."),
    ),
    "an overload": (
        {"type": "error", "error": {"code": "server_is_overloaded", "message": "Later."}},
        Failed("upstream_overloaded", "Later."),
    ),
    "a prompt that is too long": (
        {"type": "error", "code": "context_length_exceeded", "message": "Too much."},
        Failed("context_length_exceeded", "Too much."),
    ),
    "a prompt that is too long, in words": (
        {"type": "error", "message": "maximum context length is 2048 tokens"},
        Failed("context_length_exceeded", "maximum context length is 2048 tokens"),
    ),
    "a key that is refused is not shown": (
        {"type": "error", "code": "invalid_api_key", "message": "Incorrect API key: sk-secret"},
        Failed("upstream_unauthorized", "the upstream refused the gateway's own credentials"),
    ),
}


@pytest.mark.parametrize(("chunk", "expected"), ENDS.values(), ids=ENDS)
def test_every_end_has_its_meaning(chunk: Json, expected: Event) -> None:
    assert decoded(CREATED, chunk) == [STARTED, expected]


def test_usage_after_the_end_is_read() -> None:
    decoder = ResponsesDecoder(counting_ids())
    assert decoder.usage is None
    decoder.feed(ending("completed", usage=USAGE))
    assert decoder.usage == COUNTED


def test_a_stream_that_just_stops_is_a_failure() -> None:
    *_, failed = decoded(CREATED, delta("Hi"))
    assert isinstance(failed, Failed)
    assert failed.code == "upstream_truncated"


def test_nothing_follows_the_end() -> None:
    assert decoded(CREATED, COMPLETED, delta("late"), COMPLETED) == [STARTED, FINISHED]


def test_open_items_end_as_the_response_does() -> None:
    cut = ending("incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert decoded(CREATED, delta("Hi"), cut)[-2] == ItemEnded(0, status="incomplete")


def test_the_final_response_ends_its_own_items() -> None:
    whole = ending("completed", output=[message("Hi", "msg_up")])
    events = decoded(CREATED, added(items.new_message("msg_up")), delta("Hi"), whole)
    assert events[-2] == ItemEnded(0, message("Hi", "msg_up"))


def test_an_item_only_the_final_response_has_is_not_lost() -> None:
    output = [message("a", "msg_a"), {**CALL, "arguments": "{}"}]
    events = decoded(CREATED, done(message("a", "msg_a")), ending("completed", output=output))
    assert collect(events) == output
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "tool_calls"


def test_a_stream_without_a_first_event_is_decoded() -> None:
    assert decoded(delta("Hi"), COMPLETED)[:4] == [Started("", None, None), *MADE_UP]
    assert decoded(COMPLETED)[0] == Started("", None, None)


def test_a_whole_response_is_decoded_like_its_stream() -> None:
    response = {
        "id": "resp_up",
        "object": "response",
        "model": "up",
        "status": "completed",
        "output": [
            {"id": "rs_up", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            message("Hi", content=[{**TEXT, "text": "Hi", "logprobs": [LOGPROB], "annotations": [CITATION]}]),
            {**CALL, "status": "completed", "arguments": "{}"},
        ],
        "usage": USAGE,
    }
    events = decoded(response)
    assert collect(events) == response["output"]
    assert events[0] == Started("up", "resp_up", {"id": "resp_up", "model": "up"})
    assert Delta(1, 0, "Hi", [LOGPROB]) in events
    assert Annotated(1, 0, CITATION) in events
    assert events[-1] == Finished("tool_calls", "completed", COUNTED, response)
    check_order(encoded(events))


WHOLE_FAILURES: dict[str, tuple[Json, str]] = {
    "a failed response": (
        {"object": "response", "status": "failed", "error": {"code": "server_error"}},
        "server_error",
    ),
    "a response that goes on in the background": ({"object": "response", "status": "queued"}, "upstream_truncated"),
    "an error": ({"error": {"message": "No."}}, "upstream_error"),
}


@pytest.mark.parametrize(("chunk", "code"), WHOLE_FAILURES.values(), ids=WHOLE_FAILURES)
def test_an_answer_that_is_no_finished_response_is_a_failure(chunk: Json, code: str) -> None:
    [failed] = decoded(chunk)
    assert isinstance(failed, Failed)
    assert failed.code == code


GARBAGE: dict[str, Any] = {
    "chat": {"object": "chat.completion", "choices": []},
    "a list": [],
    "an item that is missing": native("output_item.added", output_index=0),
    "an item that is a text": native("output_item.done", output_index=0, item="message"),
    "a call without an id": native("output_item.added", output_index=0, item={"type": "function_call", "name": "f"}),
    "a call whose name is no text": native(
        "output_item.added", output_index=0, item={"type": "function_call", "call_id": "c", "name": {}}
    ),
    "a text that is none": native(
        "content_part.done", output_index=0, content_index=0, part={"type": "output_text", "text": {}}
    ),
    "log probabilities that are a number": native(
        "output_item.done",
        output_index=0,
        item={"type": "message", "content": [{"type": "output_text", "text": "x", "logprobs": 7}]},
    ),
    "an index that is a list": native("output_text.delta", output_index=[], delta="x"),
}


@pytest.mark.parametrize("chunk", GARBAGE.values(), ids=GARBAGE)
def test_data_outside_the_protocol_is_a_violation(chunk: Any) -> None:
    decoder = ResponsesDecoder(counting_ids())
    decoder.feed(CREATED)
    with pytest.raises(ProtocolViolation):
        decoder.feed(chunk)


ROUND_TRIPS = [name for name, stream in STREAMS.items() if stream.end != "failed"]


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_responses_to_events_to_responses_changes_nothing(name: str) -> None:
    stream = encoded(STREAMS[name].events)
    assert encoded(decoded(*stream)) == stream


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_a_streams_final_response_gives_the_events_of_the_stream(name: str) -> None:
    response = encoded(STREAMS[name].events)[-1]["response"]
    assert encoded(decoded(response))[-1]["response"] == response


@pytest.mark.parametrize("recording", recordings("responses"), ids=lambda recording: recording.stem)
def test_recordings_become_their_recorded_events(recording: Any, update_golden: bool) -> None:
    check_events(recording, decoded(*chunks_of(recording.read_bytes())), update=update_golden)


@pytest.mark.parametrize("recording", recordings("responses"), ids=lambda recording: recording.stem)
def test_recordings_are_encoded_in_the_order_of_the_api(recording: Any) -> None:
    chunks = chunks_of(recording.read_bytes())
    stream = encoded(decoded(*chunks))
    check_order(stream)
    types = [chunk["type"] for chunk in chunks]
    if chunks[-1]["response"]["status"] == "incomplete":
        types[-1] = "response.incomplete"
    assert [event["type"] for event in stream] == types


@pytest.mark.parametrize("recording", recordings("responses"), ids=lambda recording: recording.stem)
def test_recorded_replies_add_up_to_the_upstreams_text(recording: Any) -> None:
    whole = recording.with_suffix(".json")
    answers = [chunks_of(recording.read_bytes())[-1]["response"]]
    answers += [orjson.loads(whole.read_bytes())] if whole.exists() else []
    for answer in answers:
        kept = [{key: said for key, said in item.items() if said is not None} for item in answer["output"]]
        found = [{key: said for key, said in item.items() if said is not None} for item in collect(decoded(answer))]
        assert [without(item, "content") for item in found] == [without(item, "content") for item in kept]
        texts = [[part["text"] for part in item.get("content", ())] for item in found]
        assert texts == [[part["text"] for part in item.get("content", ())] for item in kept]


def test_every_event_has_to_be_parsed() -> None:
    """Events differ in their sequence numbers, so none continues a delta run."""
    assert ResponsesDecoder(counting_ids()).delta_run is None


THOUGHT: Item = {**items.new_reasoning("rs_up"), "content": [{"type": "reasoning_text", "text": "hm"}]}
SUMMARIES = Profile(reasoning_part="summary_text")


def test_readable_reasoning_is_a_summary_where_the_profile_says_so() -> None:
    place = {"output_index": 0, "content_index": 0}
    chunks = [
        CREATED,
        added(items.new_reasoning("rs_up")),
        native("content_part.added", **place, part=items.new_reasoning_text()),
        native("reasoning_text.delta", **place, delta="hm"),
        native("reasoning_text.done", **place, text="hm"),
        native("content_part.done", **place, part=THOUGHT["content"][0]),
        done(THOUGHT),
        COMPLETED,
    ]
    whole = {"object": "response", "status": "completed", "output": [THOUGHT]}
    for events in (
        decode(ResponsesDecoder(counting_ids(), SUMMARIES), chunks),
        decode(ResponsesDecoder(counting_ids(), SUMMARIES), [whole]),
    ):
        (item,) = collect(events)
        assert item == {"id": "rs_up", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
