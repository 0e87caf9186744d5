"""A Responses upstream's bytes to a Responses client's."""

from typing import Any

import orjson
import pytest

from tests.unit.support.golden import recordings
from tests.unit.support.stream_checks.responses_order import check_types, read_stream
from tests.unit.support.translator_drivers import every_split, fail_to_end, feed_to_end, relay_to_end
from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.representation.events import Failed, Usage
from translation.representation.json_types import Json
from translation.responses.initial_response import new_response
from translation.responses.relaying.relay import ResponsesRelay, failure_of_response, relay_response

HEAD = new_response({"model": "up", "input": "hi"}, response_id="resp_up", created_at=100, model="up")
OURS = new_response({"model": "m", "input": "hi"}, response_id="resp_ours", created_at=200, model="m")
ITEM = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
USAGE = {
    "input_tokens": 3,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 2,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 5,
}


def frame(event_type: str, number: int, **keys: Any) -> bytes:
    return sse.encode_event(event_type, orjson.dumps({"type": event_type, "sequence_number": number, **keys}))


def ending(status: str, number: int = 4, **keys: Any) -> bytes:
    return frame(f"response.{status}", number, response={**HEAD, "status": status, **keys})


CREATED = frame("response.created", 0, response=HEAD) + frame("response.in_progress", 1, response=HEAD)
CONTENT = frame("response.output_item.added", 2, output_index=0, item=ITEM) + frame("response.strange", 3, ünknown="ß")
END = ending("completed", usage=USAGE)
WIRE = CREATED + CONTENT + END + sse.DONE_FRAME


def relay(*, model: str | None = "m") -> ResponsesRelay:
    return ResponsesRelay(model=model, initial_response=OURS, max_frame_bytes=100_000)


def relayed(*reads: bytes, model: str | None = "m") -> list[Json]:
    """The events of a whole stream; its frames are checked."""
    stream = relay(model=model)
    return read_stream(relay_to_end(stream, *reads))


def failed(*reads: bytes) -> Json:
    """The response of a stream that failed."""
    *_, last = relayed(*reads)
    assert last["type"] == "response.failed"
    check_types([last])
    return dict(last["response"])


def test_content_leaves_as_it_came() -> None:
    stream = relay(model=None)
    assert relay_to_end(stream, WIRE) == WIRE


def test_lifecycle_events_name_the_model_the_client_knows() -> None:
    events = relayed(WIRE)
    assert [event["response"]["model"] for event in events if "response" in event] == ["m", "m", "m"]
    assert CONTENT in relay().feed(WIRE)


def test_how_the_network_cuts_the_bytes_does_not_matter() -> None:
    whole = relayed(WIRE)
    for reads in every_split(WIRE):
        assert relayed(*reads) == whole


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
def test_line_ends_and_comments_become_whole_frames(ends: bytes) -> None:
    wire = b": hello\n\n" + WIRE.replace(b"event: ", b"id: 7\nevent:")
    assert relayed(wire.replace(b"\n", ends)) == relayed(WIRE)


def test_frames_without_a_name_get_one() -> None:
    unnamed = b"\n".join(line for line in WIRE.split(b"\n") if not line.startswith(b"event:"))
    misnamed = b"\n".join(b"event: message" if line.startswith(b"event:") else line for line in WIRE.split(b"\n"))
    assert relayed(unnamed) == relayed(misnamed) == relayed(WIRE)


def test_what_a_stream_says_is_known() -> None:
    stream = relay()
    stream.feed(CREATED)
    assert not stream.has_content
    assert stream.response == {**HEAD, "model": "m"}
    stream.feed(CONTENT)
    assert stream.has_content
    stream.feed(END)
    assert stream.response == {**HEAD, "model": "m", "status": "completed", "usage": USAGE}
    assert stream.usage == Usage(input=3, output=2, cache_read=0, cache_write=0, reasoning=0, raw=USAGE)
    assert stream.failed is None


def test_unnamed_content_is_content() -> None:
    stream = relay()
    stream.feed(CREATED + sse.encode_data(b'{"type":"keepalive"}'))
    assert not stream.has_content
    stream.feed(sse.encode_data(b'{"type":"response.output_text.delta"}'))
    assert stream.has_content


def test_nothing_follows_the_end() -> None:
    stream = relay()
    whole = feed_to_end(stream, WIRE)
    assert whole.endswith(sse.DONE_FRAME)
    assert whole.count(sse.DONE_FRAME) == 1
    assert stream.feed(CONTENT + sse.DONE_FRAME + b"data: late") + stream.finish() == b""
    assert stream.fail(Failed("upstream_disconnected", "gone")) == b""


def test_a_completed_response_that_is_incomplete_is_called_so() -> None:
    wire = frame("response.completed", 4, response={**HEAD, "status": "incomplete"})
    assert relayed(CREATED + wire)[-1]["type"] == "response.incomplete"


@pytest.mark.parametrize("status", [{}, {"status": None}, {"status": "done" * 100}, {"status": "in_progress"}])
def test_an_end_of_no_known_status_has_that_of_its_name(status: Json) -> None:
    last = relayed(CREATED + frame("response.completed", 4, response={"id": "x", **status}))[-1]
    assert (last["type"], last["response"]["status"]) == ("response.completed", "completed")


NO_ITEMS = [["a", 5], [{"id": "msg_1"}], [{"type": 5}], [None], "abc", {"type": "message"}]


@pytest.mark.parametrize("output", NO_ITEMS, ids=str)
def test_what_is_kept_has_items_in_its_output(output: Any) -> None:
    stream = ResponsesRelay(model=None, initial_response=OURS, is_stored=True)
    stream.feed(
        CREATED + frame("response.output_item.done", 2, output_index=0, item=ITEM) + ending("completed", output=output)
    )
    assert stream.ended
    assert stream.response is not None
    assert (stream.response["status"], stream.response["output"]) == ("failed", [ITEM])
    if isinstance(output, list):
        with pytest.raises(ProtocolViolation):
            relay_response(
                {**HEAD, "status": "completed", "output": output}, model=None, initial_response=OURS, is_stored=True
            )


@pytest.mark.parametrize(
    "done", [{"output_index": "0", "item": ITEM}, {"output_index": 0, "item": "a"}, {"item": ITEM}]
)
def test_an_item_that_cannot_be_kept_ends_the_response(done: Json) -> None:
    stream = ResponsesRelay(model=None, initial_response=OURS, is_stored=True)
    stream.feed(CREATED + frame("response.output_item.done", 2, **done) + END)
    assert stream.response is not None
    assert (stream.response["status"], stream.response["output"]) == ("failed", [])


@pytest.mark.parametrize(
    ("status", "kept"), [({}, "completed"), ({"status": None}, "completed"), ({"status": "incomplete"}, "incomplete")]
)
def test_a_whole_response_that_is_kept_has_a_status(status: Json, kept: str) -> None:
    body = {"id": "x", "output": [ITEM], **status}
    assert relay_response(body, model=None, initial_response=OURS, is_stored=True)["status"] == kept


@pytest.mark.parametrize("status", ["queued", "in_progress", "done", 5, ["completed"]])
def test_a_whole_response_that_has_not_ended_is_not_kept(status: Any) -> None:
    with pytest.raises(ProtocolViolation):
        relay_response({**HEAD, "status": status, "output": [ITEM]}, model=None, initial_response=OURS, is_stored=True)


CUTS: dict[str, bytes] = {
    "before the end": CREATED + CONTENT,
    "before the end, though it says it is done": CREATED + CONTENT + sse.DONE_FRAME,
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


def test_the_last_event_may_come_without_its_blank_line() -> None:
    assert relayed(CREATED + CONTENT + END.rstrip(b"\n")) == relayed(WIRE)


def test_an_error_event_is_told_by_the_terminal_one() -> None:
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


def test_the_gateways_own_key_is_never_shown() -> None:
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


def test_the_upstreams_own_numbers_are_gone_on_from() -> None:
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
def test_what_is_not_the_protocol_ends_the_response(garbage: bytes, model: str | None) -> None:
    *rest, last = relayed(CREATED + garbage + CONTENT + END, model=model)
    assert [event["type"] for event in rest] == ["response.created", "response.in_progress"]
    assert last["response"]["error"]["type"] == "upstream_garbled"


def test_a_frame_over_the_cap_is_a_violation() -> None:
    with pytest.raises(ProtocolViolation):
        ResponsesRelay(model=None, initial_response=OURS, max_frame_bytes=10).feed(b"data: " + b"x" * 20)


@pytest.mark.parametrize("recording", recordings("responses"), ids=lambda recording: recording.stem)
def test_recordings_keep_every_event(recording: Any) -> None:
    wire = recording.read_bytes()
    events = relayed(wire, model=None)
    assert [event["sequence_number"] for event in events] == list(range(wire.count(b"event: ")))
    assert events[-1]["type"] == f"response.{events[-1]['response']['status']}"


def test_a_whole_response_names_the_model_the_client_knows() -> None:
    assert relay_response(HEAD, model="m") == {**HEAD, "model": "m"}
    assert relay_response(HEAD, model=None) is HEAD


@pytest.mark.parametrize("body", [{}, {"error": {"message": "No."}}, {"output": None}, []])
def test_what_is_no_response_is_a_violation(body: Any) -> None:
    with pytest.raises(ProtocolViolation):
        relay_response(body, model="m")


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
def test_what_an_upstream_says_of_a_failure_is_scrubbed(end: bytes, message: str) -> None:
    stream = ResponsesRelay(model=None, initial_response=OURS, scrub=lambda words: words.replace("SECRET", "[hidden]"))
    out = relay_to_end(stream, CREATED + end)
    assert b"SECRET" not in out
    assert stream.failed is not None
    assert stream.failed.message == message


def test_credentials_that_an_upstream_echoes_are_not_sent() -> None:
    mcp = {"type": "mcp", "server_label": "s"}
    stream = ResponsesRelay(model=None, initial_response=OURS)
    out = relay_to_end(stream, CREATED + ending("completed", tools=[{**mcp, "authorization": "SECRET"}]))
    assert b"SECRET" not in out
    assert stream.response is not None
    assert stream.response["tools"] == [mcp]
    whole = {**HEAD, "status": "completed", "output": [], "tools": [{**mcp, "headers": {"a": "SECRET"}}]}
    assert relay_response(whole, model=None)["tools"] == [mcp]


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


def test_a_terminal_event_that_nobody_was_sent_can_still_become_a_failure() -> None:
    stream = relay()
    end = ending("completed", output=[ITEM])
    told = stream.feed(CREATED + CONTENT + end)
    assert stream.ended
    *rest, last = read_stream(told + fail_to_end(stream, Failed("store_unavailable", "not kept")))
    assert [event["sequence_number"] for event in rest] == [0, 1, 2, 3]
    assert (last["type"], last["sequence_number"]) == ("response.failed", 4)
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
    stream = ResponsesRelay(model=None, initial_response=OURS, is_stored=is_stored, summarizes_reasoning=True)
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


def test_without_that_wish_readable_reasoning_is_relayed_as_it_came() -> None:
    stream = ResponsesRelay(model=None, initial_response=OURS)
    assert relay_to_end(stream, REASONING_WIRE) == REASONING_WIRE + sse.DONE_FRAME


def test_a_response_without_its_output_has_the_summaries_of_its_items() -> None:
    stream = ResponsesRelay(model=None, initial_response=OURS, is_stored=True, summarizes_reasoning=True)
    feed_to_end(
        stream, CREATED + frame("response.output_item.done", 2, output_index=0, item=THOUGHT) + ending("completed")
    )
    assert stream.response is not None
    assert stream.response["output"] == [SUMMARIZED]


def test_a_whole_response_has_its_reasoning_as_a_summary() -> None:
    whole = {**HEAD, "status": "completed", "output": [THOUGHT]}
    assert relay_response(whole, model=None)["output"] == [THOUGHT]
    assert relay_response(whole, model=None, summarizes_reasoning=True)["output"] == [SUMMARIZED]
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
    whole = relay_response({**HEAD, "status": "completed", "usage": reported}, model=None)
    assert whole["usage"] == USAGE
    if reported.get("input_tokens_details") == "odd":
        return  # the stream's own reader of counts refuses that
    (*_, last) = relayed(CREATED + ending("completed", usage=reported))
    assert last["response"]["usage"] == USAGE
    check_types([last])


@pytest.mark.parametrize("reported", [None, {}, "odd", {**USAGE, "invented": 1}], ids=str)
def test_counts_that_lack_nothing_are_relayed_as_they_came(reported: Any) -> None:
    whole = {**HEAD, "status": "completed", "usage": reported}
    assert relay_response(whole, model=None) is whole


def test_truncation_reads_as_it_was_asked_for() -> None:
    asked = new_response({"model": "m", "truncation": "auto"}, response_id="resp_ours", created_at=200, model="m")
    stream = ResponsesRelay(model=None, initial_response=asked)
    assert read_stream(relay_to_end(stream, WIRE))[-1]["response"]["truncation"] == "auto"
    whole = {**HEAD, "status": "completed"}
    assert relay_response(whole, model=None, initial_response=asked) == {**whole, "truncation": "auto"}


@pytest.mark.parametrize("is_named", [True, False])
def test_a_character_that_is_split_over_two_deltas_is_joined(is_named: bool) -> None:
    deltas = [frame("response.output_text.delta", number, delta="TEXT") for number in (3, 4)]
    split = [delta.replace(b"TEXT", half) for delta, half in zip(deltas, (rb"a\ud83d", rb"\ude00"), strict=True)]
    if not is_named:
        split = [delta[delta.index(b"data:") :] for delta in split]
    events = relayed(CREATED, *split, ending("completed", number=5))
    assert [event["delta"] for event in events if "delta" in event] == ["a", "😀"]
