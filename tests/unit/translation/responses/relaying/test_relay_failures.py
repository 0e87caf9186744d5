"""Failures of a Responses upstream on a relay, and the changes of its frames."""

from typing import Any

import orjson
import pytest

from tests.unit.support.golden import recordings
from tests.unit.support.stream_checks.responses_order import check_types, read_stream
from tests.unit.support.translator_drivers import fail_to_end, feed_to_end, relay_to_end
from tests.unit.translation.responses.relaying.relayed_responses import (
    CONTENT,
    CREATED,
    END,
    HEAD,
    ITEM,
    OURS,
    USAGE,
    WIRE,
    ending,
    frame,
    relay,
    relayed,
)
from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.representation.events import Failed
from translation.representation.json_types import Json
from translation.responses.client.initial_response import new_response
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.whole_response import (
    OwnResponse,
    failure_of_response,
    is_response_filtered,
    relay_response,
)


def failed(*reads: bytes) -> Json:
    """The response of a stream that failed."""
    *_, last = relayed(*reads)
    assert last["type"] == "response.failed"
    check_types([last])
    return dict(last["response"])


CUTS: dict[str, bytes] = {
    "before the end": CREATED + CONTENT,
    "before the end, after [DONE]": CREATED + CONTENT + sse.DONE_FRAME,
    "inside the end": CREATED + CONTENT + END[:-40],
    "inside a delta": CREATED + CONTENT + b'event: response.output_text.delta\ndata: {"delta":"Hi',
}


@pytest.mark.parametrize("wire", CUTS.values(), ids=CUTS)
def test_a_stream_that_breaks_off_is_a_failure(wire: bytes) -> None:
    events = relayed(wire)
    assert [event["sequence_number"] for event in events] == [0, 1, 2, 3, 4]
    assert events[-1]["type"] == "response.failed"
    response = events[-1]["response"]
    assert {**response, "status": "in_progress", "error": None} == {**HEAD, "model": "m"}
    assert response["error"]["type"] == "upstream_truncated"
    check_types([events[-1]])


def test_the_last_event_may_lack_its_blank_line() -> None:
    assert relayed(CREATED + CONTENT + END.rstrip(b"\n")) == relayed(WIRE)


def test_an_error_event_becomes_the_terminal_event() -> None:
    error = {"code": "rate_limit_exceeded", "message": "Slow down."}
    for event in (frame("error", 4, error=error), frame("error", 4, **error)):
        response = failed(CREATED + CONTENT + event)
        assert response["error"] == {**error, "type": "rate_limited"}


def test_an_error_before_content_is_known_at_once() -> None:
    stream = relay()
    stream.feed(CREATED + frame("error", 2, code="context_length_exceeded", message="Too long.", param="input"))
    assert stream.failed == Failed("context_length_exceeded", "Too long.", "input")
    assert not stream.has_content


def test_an_upstreams_own_failure_is_relayed() -> None:
    error = {"code": "server_error", "message": "Oops."}
    wire = CREATED + CONTENT + frame("error", 4, **error) + ending("failed", 5, error=error, usage=USAGE)
    assert failed(wire) == {**HEAD, "model": "m", "status": "failed", "error": error, "usage": USAGE}


def test_the_gateways_own_key_is_never_sent() -> None:
    error = {"code": "invalid_api_key", "message": "Incorrect API key: sk-secret"}
    for wire in (frame("error", 2, **error), ending("failed", 2, error=error)):
        stream = relay()
        out = relay_to_end(stream, CREATED + wire)
        assert b"sk-secret" not in out
        assert stream.failed is not None
        assert stream.failed.code == "upstream_unauthorized"


def test_a_broken_connection_ends_the_response() -> None:
    stream = relay()
    out = stream.feed(CREATED + CONTENT) + fail_to_end(stream, Failed("upstream_disconnected", "gone"))
    *_, last = read_stream(out)
    assert last["sequence_number"] == 4
    assert last["response"]["error"] == {"code": "server_error", "message": "gone", "type": "upstream_disconnected"}
    assert stream.failed == Failed("upstream_disconnected", "gone")
    check_types([last])


def test_a_failure_before_anything_is_a_response_all_the_same() -> None:
    events = read_stream(fail_to_end(relay(), Failed("upstream_timeout", "silence")))
    check_types(events)
    assert [event["type"] for event in events] == ["response.created", "response.in_progress", "response.failed"]
    assert [event["sequence_number"] for event in events] == [0, 1, 2]
    assert [event["response"]["id"] for event in events] == ["resp_ours"] * 3
    assert [event["response"]["status"] for event in events] == ["in_progress", "in_progress", "failed"]
    assert events[-1]["response"]["error"]["message"] == "silence"


def test_the_upstreams_sequence_numbers_are_continued() -> None:
    wire = frame("response.created", 7, response=HEAD) + frame(
        "response.output_item.added", 9, output_index=0, item=ITEM
    )
    assert relayed(wire)[-1]["sequence_number"] == 10
    unnumbered = sse.encode_event("response.created", orjson.dumps({"type": "response.created", "response": HEAD}))
    assert relayed(unnumbered)[-1]["sequence_number"] == 1


GARBAGE: dict[str, bytes] = {
    "no JSON": sse.encode_data(b"<html>"),
    "no JSON in a named event": sse.encode_event("response.output_text.delta", b"<html>"),
    "half an object": sse.encode_event("response.output_text.delta", b'{"delta":"Hi'),
    "no UTF-8": sse.encode_event("response.output_text.delta", b'{"delta":"\xff"}'),
    "no object": sse.encode_data(b"[1]"),
    "no type": sse.encode_data(b'{"choices":[]}'),
    "a type that is no text": sse.encode_data(b'{"type":5}'),
    "no response": sse.encode_data(b'{"type":"response.created"}'),
    "a response that is none": sse.encode_data(b'{"type":"response.completed","response":null}'),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("model", ["m", None])
def test_data_outside_the_protocol_ends_the_response(garbage: bytes, model: str | None) -> None:
    *rest, last = relayed(CREATED + garbage + CONTENT + END, model=model)
    assert [event["type"] for event in rest] == ["response.created", "response.in_progress"]
    assert last["response"]["error"]["type"] == "upstream_garbled"


def test_a_frame_over_the_cap_is_a_violation() -> None:
    with pytest.raises(ProtocolViolation):
        ResponsesRelay(OwnResponse(None, OURS), max_frame_bytes=10).feed(b"data: " + b"x" * 20)


@pytest.mark.parametrize("recording", recordings("responses"), ids=lambda recording: recording.stem)
def test_recordings_keep_every_event(recording: Any) -> None:
    wire = recording.read_bytes()
    events = relayed(wire, model=None)
    assert [event["sequence_number"] for event in events] == list(range(wire.count(b"event: ")))
    assert events[-1]["type"] == f"response.{events[-1]['response']['status']}"


def test_a_whole_response_names_the_model_the_client_knows() -> None:
    assert relay_response(HEAD, OwnResponse("m", {})) == {**HEAD, "model": "m"}
    assert relay_response(HEAD) is HEAD


@pytest.mark.parametrize("body", [{}, {"error": {"message": "No."}}, {"output": None}, []])
def test_an_invalid_response_is_a_violation(body: Any) -> None:
    with pytest.raises(ProtocolViolation):
        relay_response(body, OwnResponse("m", {}))


SCRUBBED: dict[str, tuple[bytes, str]] = {
    "an error event": (frame("error", 2, message="at SECRET", code="server_error", param=None), "at [hidden]"),
    "the end": (ending("failed", error={"code": "server_error", "message": "at SECRET"}), "at [hidden]"),
    "an end with more than words": (
        ending("failed", error={"message": "boom", "param": "SECRET", "code": "x", "more": [{"a": "SECRET", "b": 1}]}),
        "boom",
    ),
    "an end without words": (ending("failed", error=None), "the upstream reported an error without saying which"),
}


@pytest.mark.parametrize(("end", "message"), SCRUBBED.values(), ids=SCRUBBED)
def test_an_upstreams_failure_message_is_redacted(end: bytes, message: str) -> None:
    stream = ResponsesRelay(OwnResponse(None, OURS), scrub=lambda words: words.replace("SECRET", "[hidden]"))
    out = relay_to_end(stream, CREATED + end)
    assert b"SECRET" not in out
    assert stream.failed is not None
    assert stream.failed.message == message


def test_credentials_that_an_upstream_echoes_are_not_sent() -> None:
    mcp = {"type": "mcp", "server_label": "s"}
    stream = ResponsesRelay(OwnResponse(None, OURS))
    out = relay_to_end(stream, CREATED + ending("completed", tools=[{**mcp, "authorization": "SECRET"}]))
    assert b"SECRET" not in out
    assert stream.response is not None
    assert stream.response["tools"] == [mcp]
    whole = {**HEAD, "status": "completed", "output": [], "tools": [{**mcp, "headers": {"a": "SECRET"}}]}
    assert relay_response(whole)["tools"] == [mcp]


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        ("failed", {"code": "server_error", "message": "boom"}, Failed("server_error", "boom")),
        ("cancelled", None, Failed("upstream_error", "the upstream cancelled the response")),
        ("completed", None, None),
        ("incomplete", None, None),
    ],
)
def test_a_whole_response_that_failed_is_no_answer(status: str, error: Json | None, expected: Failed | None) -> None:
    assert failure_of_response({**HEAD, "status": status, "error": error}) == expected


def test_an_error_that_was_held_back_leaves_no_gap_in_the_numbers() -> None:
    wrong = frame("error", 4, error={"type": "server_error", "code": "server_error", "message": "boom", "param": None})
    last = ending("failed", 5, error={"code": "server_error", "message": "boom"})
    assert [event["sequence_number"] for event in relayed(CREATED + CONTENT + wrong + last)] == [0, 1, 2, 3, 4]


def test_an_unsent_terminal_event_can_still_become_a_failure() -> None:
    stream = relay()
    end = ending("completed", output=[ITEM])
    told = stream.feed(CREATED + CONTENT + end)
    assert stream.ended
    *rest, last = read_stream(told + fail_to_end(stream, Failed("store_unavailable", "not kept")))
    assert [event["sequence_number"] for event in rest] == [0, 1, 2, 3, 4]
    assert (last["type"], last["sequence_number"]) == ("response.failed", 5)
    assert (last["response"]["status"], last["response"]["output"]) == ("failed", [ITEM])
    assert last["response"]["error"]["message"] == "not kept"


THOUGHT = {"id": "rs_1", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
SUMMARIZED = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
REASONING_PLACE = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
REASONING_WIRE = (
    CREATED
    + frame("response.output_item.added", 2, output_index=0, item={**THOUGHT, "content": []})
    + frame("response.content_part.added", 3, **REASONING_PLACE, part={"type": "reasoning_text", "text": ""})
    + frame("response.reasoning_text.delta", 4, **REASONING_PLACE, delta="Hm.")
    + frame("response.reasoning_text.done", 5, **REASONING_PLACE, text="Hm.")
    + frame("response.content_part.done", 6, **REASONING_PLACE, part=THOUGHT["content"][0])
    + frame("response.output_item.done", 7, output_index=0, item=THOUGHT)
    + ending("completed", 8, usage=USAGE, output=[THOUGHT])
)


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("is_named", [True, False], ids=["named frames", "frames without a name"])
def test_readable_reasoning_is_relayed_as_a_summary(is_stored: bool, is_named: bool) -> None:
    wire = REASONING_WIRE
    if not is_named:
        wire = b"\n".join(line for line in wire.split(b"\n") if not line.startswith(b"event:"))
    stream = ResponsesRelay(OwnResponse(None, OURS, is_stored=is_stored), summarizes_reasoning=True)
    events = read_stream(relay_to_end(stream, wire))
    assert [event["sequence_number"] for event in events] == list(range(9))
    assert [event["type"] for event in events[3:7]] == [
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
    ]
    assert events[7]["item"] == SUMMARIZED
    assert events[8]["response"]["output"] == [SUMMARIZED]
    assert stream.response is not None
    assert stream.response["output"] == [SUMMARIZED]


def test_without_that_request_readable_reasoning_is_relayed_unchanged() -> None:
    stream = ResponsesRelay(OwnResponse(None, OURS))
    assert relay_to_end(stream, REASONING_WIRE) == REASONING_WIRE + sse.DONE_FRAME


def test_a_response_without_its_output_has_the_summaries_of_its_items() -> None:
    stream = ResponsesRelay(OwnResponse(None, OURS, is_stored=True), summarizes_reasoning=True)
    feed_to_end(
        stream, CREATED + frame("response.output_item.done", 2, output_index=0, item=THOUGHT) + ending("completed")
    )
    assert stream.response is not None
    assert stream.response["output"] == [SUMMARIZED]


def test_a_whole_response_has_its_reasoning_as_a_summary() -> None:
    whole = {**HEAD, "status": "completed", "output": [THOUGHT]}
    assert relay_response(whole)["output"] == [THOUGHT]
    assert relay_response(whole, summarizes_reasoning=True)["output"] == [SUMMARIZED]
    assert whole["output"] == [THOUGHT]


BARE_USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}


@pytest.mark.parametrize(
    "reported",
    [
        BARE_USAGE,
        {**BARE_USAGE, "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}},
        {**USAGE, "input_tokens_details": None, "output_tokens_details": {"reasoning_tokens": None}},
        {**USAGE, "input_tokens_details": "odd"},
    ],
    ids=["no details", "no cache writes", "nulls", "odd details"],
)
def test_counts_that_strict_clients_require_are_filled_in(reported: Json) -> None:
    whole = relay_response({**HEAD, "status": "completed", "usage": reported})
    assert whole["usage"] == USAGE
    if reported.get("input_tokens_details") == "odd":
        return  # the stream's own reader of counts refuses that
    (*_, last) = relayed(CREATED + ending("completed", usage=reported))
    assert last["response"]["usage"] == USAGE
    check_types([last])


@pytest.mark.parametrize("reported", [None, {}, "odd", {**USAGE, "invented": 1}], ids=str)
def test_complete_counts_are_relayed_unchanged(reported: Any) -> None:
    whole = {**HEAD, "status": "completed", "usage": reported}
    assert relay_response(whole) is whole


def test_truncation_is_reported_as_requested() -> None:
    asked = new_response({"model": "m", "truncation": "auto"}, response_id="resp_ours", created_at=200, model="m")
    stream = ResponsesRelay(OwnResponse(None, asked))
    assert read_stream(relay_to_end(stream, WIRE))[-1]["response"]["truncation"] == "auto"
    whole = {**HEAD, "status": "completed"}
    assert relay_response(whole, OwnResponse(None, asked)) == {**whole, "truncation": "auto"}


@pytest.mark.parametrize("is_named", [True, False])
def test_a_character_that_is_split_over_two_deltas_is_joined(is_named: bool) -> None:
    deltas = [frame("response.output_text.delta", number, delta="TEXT") for number in (3, 4)]
    split = [delta.replace(b"TEXT", half) for delta, half in zip(deltas, (rb"a\ud83d", rb"\ude00"), strict=True)]
    if not is_named:
        split = [delta[delta.index(b"data:") :] for delta in split]
    events = relayed(CREATED, *split, ending("completed", number=5))
    assert [event["delta"] for event in events if "delta" in event] == ["a", "😀"]


FILTER: Json = {"incomplete_details": {"reason": "content_filter"}}


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ({**FILTER, "output": []}, True),
        ({**FILTER, "output": [{"type": "message", "content": []}]}, True),
        ({**FILTER, "output": [{"type": "message", "content": [{"type": "output_text", "text": "Well"}]}]}, False),
        ({**FILTER, "output": [{"type": "function_call", "name": "f"}]}, False),
        ({"incomplete_details": {"reason": "max_output_tokens"}, "output": []}, False),
        ({"incomplete_details": None, "output": []}, False),
    ],
)
def test_a_filter_ended_a_response_that_has_nothing(response: Json, expected: bool) -> None:
    assert is_response_filtered(response) is expected


@pytest.mark.parametrize("content", [b"", CONTENT], ids=["nothing", "after a text"])
def test_a_filter_ended_a_stream_that_had_nothing(content: bytes) -> None:
    filtered = relay()
    filtered.feed(CREATED + content + ending("incomplete", **FILTER))
    assert filtered.is_filtered is not bool(content)
