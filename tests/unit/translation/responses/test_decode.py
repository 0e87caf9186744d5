"""A Responses upstream's events, or its whole response, as events."""

from typing import Any

import orjson
import pytest

from tests.unit.support.golden import check_events, chunks_of, recordings
from tests.unit.support.responses_streams import CITATION, LOGPROB, SEARCH, STREAMS
from tests.unit.support.stream_checks.responses_order import check_order, read_stream
from tests.unit.support.translator_drivers import collect, counting_ids, decode, feed_to_end
from translation.errors import ProtocolViolation
from translation.representation import items
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
    Started,
    Usage,
)
from translation.representation.json_types import Item, Json
from translation.representation.profile import Profile
from translation.responses.decode import ResponsesDecoder
from translation.responses.encode import ResponsesEncoder
from translation.responses.initial_response import new_response

HEAD = new_response({"model": "m", "input": "hi"}, response_id="resp_1", created_at=100, model="m")


def decoded(*chunks: Json) -> list[Event]:
    return decode(ResponsesDecoder(counting_ids()), chunks)


def test_bytes_are_read_as_the_chunk_they_hold() -> None:
    chunk = {"type": "error", "message": "boom", "code": "server_error"}
    decoder = ResponsesDecoder(counting_ids())
    assert decoder.decode_payloads([orjson.dumps(chunk)]) == ResponsesDecoder(counting_ids()).feed(chunk)
    with pytest.raises(orjson.JSONDecodeError):
        decoder.decode_payloads([b"{"])


def encoded(events: list[Event]) -> list[Json]:
    return read_stream(feed_to_end(ResponsesEncoder(HEAD, lambda: 105), events))


def native(event_type: str, **keys: Any) -> Json:
    return {"type": f"response.{event_type}", **keys}


CREATED = native("created", response={"id": "resp_up", "model": "up"})
COMPLETED = native("completed", response={"status": "completed"})
STARTED = Started("up", "resp_up", CREATED["response"])
FINISHED = Finished("stop", "completed", None, COMPLETED["response"])
TEXT = items.new_output_text()
CALL = items.new_function_call("fc_up", call_id="call_1", name="f")


def added(item: Item, at: int = 0) -> Json:
    return native("output_item.added", output_index=at, item=item)


def done(item: Item, at: int = 0) -> Json:
    return native("output_item.done", output_index=at, item=item)


def delta(text: str, at: int = 0, **keys: Any) -> Json:
    return native("output_text.delta", output_index=at, content_index=0, delta=text, **keys)


def message(text: str, item_id: str = "msg_up", **keys: Any) -> Item:
    return {**items.new_message(item_id), "status": "completed", "content": [{**TEXT, "text": text}], **keys}


def message_events(text: str, index: int = 0, item_id: str = "msg_up") -> list[Event]:
    """What a message means that came whole."""
    return [
        ItemStarted(index, items.new_message(item_id)),
        PartStarted(index, 0, TEXT),
        Delta(index, 0, text),
        PartEnded(index, 0, {**TEXT, "text": text}),
        ItemEnded(index, message(text, item_id)),
    ]


MADE_UP: list[Event] = [ItemStarted(0, items.new_message("msg_1")), PartStarted(0, 0, TEXT), Delta(0, 0, "Hi")]
"""A message nobody announced."""

CASES: dict[str, tuple[list[Json], list[Event]]] = {
    "every event there should be": (
        [
            added(items.new_message("msg_up")),
            native("content_part.added", output_index=0, content_index=0, part=TEXT),
            delta("Hi", logprobs=[LOGPROB]),
            native("output_text.done", output_index=0, content_index=0, text="Hi"),
            native("content_part.done", output_index=0, content_index=0, part={**TEXT, "text": "Hi"}),
            done(message("Hi")),
        ],
        [
            ItemStarted(0, items.new_message("msg_up")),
            PartStarted(0, 0, TEXT),
            Delta(0, 0, "Hi", [LOGPROB]),
            PartEnded(0, 0, {**TEXT, "text": "Hi"}),
            ItemEnded(0, message("Hi")),
        ],
    ),
    "nothing but deltas": (
        [delta("Hi")],
        [*MADE_UP, PartEnded(0, 0), ItemEnded(0)],
    ),
    "nothing but the finished item": ([done(message("Hi"))], message_events("Hi")),
    "an item without its end": (
        [added(items.new_message("msg_up")), delta("Hi")],
        [ItemStarted(0, items.new_message("msg_up")), *MADE_UP[1:], PartEnded(0, 0), ItemEnded(0)],
    ),
    "a text only its end tells": (
        [native("output_text.done", output_index=0, content_index=0, item_id="msg_up", text="Hi", logprobs=[LOGPROB])],
        [
            ItemStarted(0, items.new_message("msg_up")),
            PartStarted(0, 0, TEXT),
            Delta(0, 0, "Hi", [LOGPROB]),
            PartEnded(0, 0),
            ItemEnded(0),
        ],
    ),
    "a text only its end tells, in an item that was announced": (
        [added(items.new_message("msg_up")), native("output_text.done", output_index=0, content_index=0, text="Hi")],
        [ItemStarted(0, items.new_message("msg_up")), *MADE_UP[1:], PartEnded(0, 0), ItemEnded(0)],
    ),
    "a part that is announced with its text": (
        [added(items.new_message("msg_up")), native("content_part.added", output_index=0, part={**TEXT, "text": "Hi"})],
        [ItemStarted(0, items.new_message("msg_up")), PartStarted(0, 0, TEXT), PartEnded(0, 0), ItemEnded(0)],
    ),
    "an item that is announced with its content": (
        [added(message("Hi")), done(message("Hi"))],
        [ItemStarted(0, {**message(""), "content": []}), *message_events("Hi")[1:]],
    ),
    "everything twice": (
        [
            *[added(items.new_message("msg_up"))] * 2,
            *[native("content_part.added", output_index=0, content_index=0, part=TEXT)] * 2,
            delta("Hi"),
            *[native("output_text.done", output_index=0, content_index=0, text="Hi")] * 2,
            *[native("content_part.done", output_index=0, content_index=0, part={**TEXT, "text": "Hi"})] * 2,
            *[done(message("Hi"))] * 2,
            added(message("Hi")),
        ],
        message_events("Hi"),
    ),
    "text after its end": (
        [
            done(message("Hi")),
            delta("late"),
            native("output_text.delta", output_index=0, content_index=1, delta="late"),
            native("output_text.annotation.added", output_index=0, content_index=0, annotation=CITATION),
        ],
        message_events("Hi"),
    ),
    "numbers with gaps": (
        [done(message("a", "msg_a"), 3), done(message("b", "msg_b"), 7)],
        [*message_events("a", 0, "msg_a"), *message_events("b", 1, "msg_b")],
    ),
    "one number for every item": (
        [done(message("a", "msg_a")), done(message("b", "msg_b"))],
        [*message_events("a", 0, "msg_a"), *message_events("b", 1, "msg_b")],
    ),
    "another kind of item under the number of an open one": (
        [added(items.new_message("msg_up")), done({**CALL, "arguments": "{}"})],
        [
            ItemStarted(0, items.new_message("msg_up")),
            ItemEnded(0),
            ItemStarted(1, CALL),
            Delta(1, None, "{}"),
            PartEnded(1, None),
            ItemEnded(1, {**CALL, "arguments": "{}"}),
        ],
    ),
    "no numbers at all": (
        [
            native("output_item.added", item=items.new_message("msg_up")),
            native("output_text.delta", delta="Hi"),
            native("output_item.done", item=message("Hi")),
        ],
        message_events("Hi"),
    ),
    "an id that changes with every event": (
        [added(items.new_message("a")), delta("Hi", item_id="b"), done(message("Hi", "c"))],
        [
            ItemStarted(0, items.new_message("a")),
            *MADE_UP[1:],
            PartEnded(0, 0, {**TEXT, "text": "Hi"}),
            ItemEnded(0, message("Hi", "c")),
        ],
    ),
    "an item without an id": (
        [done(message("Hi", ""))],
        [ItemStarted(0, items.new_message("msg_1")), *message_events("Hi", 0, "")[1:]],
    ),
    "empty deltas and deltas that are no text": (
        [delta(""), {**delta(""), "delta": None}, {**delta(""), "delta": 5}, delta("Hi")],
        [*MADE_UP, PartEnded(0, 0), ItemEnded(0)],
    ),
    "a citation": (
        [
            delta("Hi"),
            native("output_text.annotation.added", output_index=0, content_index=0, annotation=CITATION),
            native("output_text.annotation.added", output_index=0, content_index=0, annotation=None),
            done(
                message("Hi", content=[{**TEXT, "text": "Hi", "annotations": [CITATION, {**CITATION, "title": "B"}]}])
            ),
        ],
        [
            *MADE_UP,
            Annotated(0, 0, CITATION),
            Annotated(0, 0, {**CITATION, "title": "B"}),
            PartEnded(0, 0, {**TEXT, "text": "Hi", "annotations": [CITATION, {**CITATION, "title": "B"}]}),
            ItemEnded(
                0,
                message("Hi", content=[{**TEXT, "text": "Hi", "annotations": [CITATION, {**CITATION, "title": "B"}]}]),
            ),
        ],
    ),
    "a summary nobody announced": (
        [native("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="hm")],
        [
            ItemStarted(0, items.new_reasoning("rs_1")),
            PartStarted(0, 0, items.new_summary_text()),
            Delta(0, 0, "hm"),
            PartEnded(0, 0),
            ItemEnded(0),
        ],
    ),
    "keys that strict readers do not want null": (
        [
            added({**items.new_reasoning("rs_up"), "content": None, "encrypted_content": None}),
            native("reasoning_part.added", output_index=0, content_index=0, part=items.new_reasoning_text()),
            native("reasoning_text.delta", output_index=0, content_index=0, delta="hm"),
            native(
                "reasoning_part.done", output_index=0, content_index=0, part={"type": "reasoning_text", "text": "hm"}
            ),
            done({**items.new_reasoning("rs_up"), "encrypted_content": None}),
        ],
        [
            ItemStarted(0, items.new_reasoning("rs_up")),
            PartStarted(0, 0, items.new_reasoning_text()),
            Delta(0, 0, "hm"),
            PartEnded(0, 0, {"type": "reasoning_text", "text": "hm"}),
            ItemEnded(0, items.new_reasoning("rs_up")),
        ],
    ),
    "a call": (
        [
            added(CALL),
            native("function_call_arguments.delta", output_index=0, delta="{}"),
            native("function_call_arguments.done", output_index=0, arguments="{}"),
            native("function_call_arguments.done", output_index=0, arguments="{}"),
            done({**CALL, "arguments": "{}", "status": "incomplete"}),
        ],
        [
            ItemStarted(0, CALL),
            Delta(0, None, "{}"),
            PartEnded(0, None, {"arguments": "{}"}),
            ItemEnded(0, {**CALL, "arguments": "{}", "status": "incomplete"}, "incomplete"),
        ],
    ),
    "a call nobody announced": (
        [
            native("function_call_arguments.delta", output_index=0, delta="{"),
            native("function_call_arguments.done", output_index=0, arguments="{}"),
            done({**CALL, "arguments": "{}"}),
        ],
        [
            ItemStarted(0, CALL),
            Delta(0, None, "{}"),
            PartEnded(0, None),
            ItemEnded(0, {**CALL, "arguments": "{}"}),
        ],
    ),
    "a call whose end says nothing": (
        [added(CALL), native("function_call_arguments.done", output_index=0)],
        [ItemStarted(0, CALL), PartEnded(0, None), ItemEnded(0)],
    ),
    "a hosted tool": (
        [
            added({"id": "ws_1", "type": "web_search_call", "status": "in_progress"}),
            native("web_search_call.searching", output_index=0, item_id="ws_1", sequence_number=4),
            native("web_search_call.completed", output_index=0, item_id="ws_1", more=1),
            done({"id": "ws_1", "type": "web_search_call", "status": "completed", "action": SEARCH}),
            native("web_search_call.completed", output_index=0),
        ],
        [
            ItemStarted(0, {"id": "ws_1", "type": "web_search_call", "status": "in_progress"}),
            Progressed(0, "searching"),
            Progressed(0, "completed", {"more": 1}),
            ItemEnded(0, {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": SEARCH}),
            Opaque("responses", native("web_search_call.completed", output_index=0), 0),
        ],
    ),
    "kinds of items and parts nobody knows": (
        [
            done({"type": "acme:thing", "id": "x", "content": [{"type": "hologram", "shape": "cat"}]}),
            native("hologram.turned", output_index=0),
            {"type": "keepalive"},
        ],
        [
            ItemStarted(0, {"type": "acme:thing", "id": "x", "content": []}),
            PartStarted(0, 0, {"type": "hologram", "shape": "cat"}),
            PartEnded(0, 0, {"type": "hologram", "shape": "cat"}),
            ItemEnded(0, {"type": "acme:thing", "id": "x", "content": [{"type": "hologram", "shape": "cat"}]}),
            Opaque("responses", native("hologram.turned", output_index=0), 0),
            Opaque("responses", {"type": "keepalive"}, 0),
        ],
    ),
}


@pytest.mark.parametrize(("chunks", "expected"), CASES.values(), ids=CASES)
def test_chunks_become_events(chunks: list[Json], expected: list[Event]) -> None:
    *events, finished = decoded(CREATED, native("in_progress", response={}), *chunks, COMPLETED)
    assert events == [STARTED, *expected]
    called = any(isinstance(event, ItemStarted) and event.item["type"] == "function_call" for event in expected)
    assert finished == (Finished("tool_calls", "completed", None, COMPLETED["response"]) if called else FINISHED)


def ending(status: str, **response: Any) -> Json:
    return native(status, response={"status": status, **response})


USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": -1},
    "output_tokens": 5.0,
    "output_tokens_details": {"reasoning_tokens": True},
    "total_tokens": 15,
}
COUNTED = Usage(input=10, output=5, cache_read=10, cache_write=0, reasoning=None, raw=USAGE)

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
        Finished("other", "steered", None, {"status": "incomplete", "incomplete_details": {"reason": "steered"}}),
    ),
    "incomplete for no reason": (native("incomplete"), Finished("other", "incomplete")),
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


def test_usage_is_known_after_the_end() -> None:
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


def test_a_stream_without_a_beginning_is_understood() -> None:
    assert decoded(delta("Hi"), COMPLETED)[:4] == [Started("", None, None), *MADE_UP]
    assert decoded(COMPLETED)[0] == Started("", None, None)


def test_a_whole_response_is_understood_like_its_stream() -> None:
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
def test_what_is_not_the_protocol_is_a_violation(chunk: Any) -> None:
    decoder = ResponsesDecoder(counting_ids())
    decoder.feed(CREATED)
    with pytest.raises(ProtocolViolation):
        decoder.feed(chunk)


def without(event: Json, *keys: str) -> Json:
    return {key: value for key, value in event.items() if key not in keys}


ROUND_TRIPS = [name for name, stream in STREAMS.items() if stream.end != "failed"]


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_responses_to_events_to_responses_changes_nothing(name: str) -> None:
    stream = encoded(STREAMS[name].events)
    assert encoded(decoded(*stream)) == stream


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_a_streams_final_response_means_what_the_stream_meant(name: str) -> None:
    response = encoded(STREAMS[name].events)[-1]["response"]
    assert encoded(decoded(response))[-1]["response"] == response


@pytest.mark.parametrize("recording", recordings("responses"), ids=lambda recording: recording.stem)
def test_recordings_are_understood_as_before(recording: Any, update_golden: bool) -> None:
    check_events(recording, decoded(*chunks_of(recording.read_bytes())), update=update_golden)


@pytest.mark.parametrize("recording", recordings("responses"), ids=lambda recording: recording.stem)
def test_recordings_come_out_in_the_order_of_the_api(recording: Any) -> None:
    chunks = chunks_of(recording.read_bytes())
    stream = encoded(decoded(*chunks))
    check_order(stream)
    types = [chunk["type"] for chunk in chunks]
    if chunks[-1]["response"]["status"] == "incomplete":
        types[-1] = "response.incomplete"
    assert [event["type"] for event in stream] == types


@pytest.mark.parametrize("recording", recordings("responses"), ids=lambda recording: recording.stem)
def test_recorded_answers_add_up_to_what_their_upstream_said(recording: Any) -> None:
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
    """Events differ in their numbers, so none is taken for one like the last."""
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
