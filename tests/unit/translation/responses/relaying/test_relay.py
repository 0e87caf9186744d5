"""A Responses upstream's bytes to a Responses client's."""

from typing import Any

import pytest

from tests.unit.support.translator_drivers import every_split, feed_to_end, relay_to_end
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
from translation.representation.events import Failed, Usage
from translation.representation.json_types import Json
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.whole_response import OwnResponse, relay_response


def test_content_is_relayed_unchanged() -> None:
    stream = relay(model=None)
    assert relay_to_end(stream, WIRE) == WIRE


def test_lifecycle_events_name_the_model_the_client_knows() -> None:
    events = relayed(WIRE)
    assert [event["response"]["model"] for event in events if "response" in event] == ["m", "m", "m"]
    assert CONTENT in relay().feed(WIRE)


def test_bytes_may_be_split_into_any_reads() -> None:
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


def test_the_state_of_a_stream_is_known() -> None:
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
    stream.feed(sse.encode_data(b'{"type":"response.output_text.delta","delta":"x"}'))
    assert stream.has_content


def test_nothing_follows_the_end() -> None:
    stream = relay()
    whole = feed_to_end(stream, WIRE)
    assert whole.endswith(sse.DONE_FRAME)
    assert whole.count(sse.DONE_FRAME) == 1
    assert stream.feed(CONTENT + sse.DONE_FRAME + b"data: late") + stream.finish() == b""
    assert stream.fail(Failed("upstream_disconnected", "gone")) == b""


def test_a_completed_response_that_is_incomplete_is_named_so() -> None:
    wire = frame("response.completed", 4, response={**HEAD, "status": "incomplete"})
    assert relayed(CREATED + wire)[-1]["type"] == "response.incomplete"


@pytest.mark.parametrize("status", [{}, {"status": None}, {"status": "done" * 100}, {"status": "in_progress"}])
def test_an_end_of_no_known_status_has_that_of_its_name(status: Json) -> None:
    last = relayed(CREATED + frame("response.completed", 4, response={"id": "x", **status}))[-1]
    assert (last["type"], last["response"]["status"]) == ("response.completed", "completed")


NO_ITEMS = [
    ["a", 5],
    [{"id": "msg_1"}],
    [{"type": 5}],
    [None],
    [{**ITEM, "content": [{"type": "output_text", "text": 5}]}],
    "abc",
    {"type": "message"},
]


@pytest.mark.parametrize("output", NO_ITEMS, ids=str)
def test_a_stored_response_has_items_in_its_output(output: Any) -> None:
    stream = ResponsesRelay(OwnResponse(None, OURS, is_stored=True))
    stream.feed(
        CREATED + frame("response.output_item.done", 2, output_index=0, item=ITEM) + ending("completed", output=output)
    )
    assert stream.ended
    assert stream.response is not None
    assert (stream.response["status"], stream.response["output"]) == ("failed", [ITEM])
    if isinstance(output, list):
        with pytest.raises(ProtocolViolation):
            relay_response({**HEAD, "status": "completed", "output": output}, OwnResponse(None, OURS, is_stored=True))


@pytest.mark.parametrize(
    "done",
    [
        {"output_index": "0", "item": ITEM},
        {"output_index": 0, "item": "a"},
        {"output_index": 0, "item": {**ITEM, "content": [{"text": "no type"}]}},
        {"item": ITEM},
    ],
)
def test_an_item_that_cannot_be_stored_ends_the_response(done: Json) -> None:
    stream = ResponsesRelay(OwnResponse(None, OURS, is_stored=True))
    stream.feed(CREATED + frame("response.output_item.done", 2, **done) + END)
    assert stream.response is not None
    assert (stream.response["status"], stream.response["output"]) == ("failed", [])


def test_items_of_a_stored_response_get_the_texts_and_the_usage_that_they_lack() -> None:
    item = {**ITEM, "content": [{"type": "output_text", "annotations": []}]}
    completed = {**ITEM, "content": [{"type": "output_text", "annotations": [], "text": ""}]}
    own = OwnResponse(None, OURS, is_stored=True)
    relayed_whole = relay_response({**HEAD, "status": "completed", "output": [item], "usage": "many"}, own)
    assert (relayed_whole["output"], relayed_whole["usage"]) == ([completed], None)
    stream = ResponsesRelay(own)
    done = frame("response.output_item.done", 2, output_index=0, item=item)
    sent = stream.feed(CREATED + done + ending("completed", number=3, output=[item]))
    assert frame("response.output_item.done", 2, output_index=0, item=completed) in sent
    assert stream.response is not None
    assert stream.response["output"] == [completed]


def test_an_item_without_a_type_is_relayed_but_not_stored() -> None:
    wire = CREATED + frame("response.output_item.done", 2, output_index=0, item={"id": "x"}) + ending("completed", 3)
    unstored = ResponsesRelay(OwnResponse(None, OURS))
    assert b'"item":{"id":"x"}' in unstored.feed(wire)
    stored = ResponsesRelay(OwnResponse(None, OURS, is_stored=True))
    stored.feed(wire)
    assert (unstored.failed, stored.failed is None) == (None, False)


def test_a_stored_response_keeps_its_usage() -> None:
    own = OwnResponse(None, OURS, is_stored=True)
    assert relay_response({**HEAD, "status": "completed", "output": [], "usage": USAGE}, own)["usage"] == USAGE


def test_a_call_to_store_gets_the_id_that_it_lacks() -> None:
    call = {"type": "function_call", "id": "fc", "name": "f", "arguments": "{}"}
    own = OwnResponse(None, OURS, is_stored=True)
    whole = relay_response({**HEAD, "status": "completed", "output": [call]}, own)
    stream = ResponsesRelay(own)
    done = frame("response.output_item.done", 2, output_index=0, item=call)
    stream.feed(CREATED + done + ending("completed", number=3, output=[call]))
    assert stream.response is not None
    assert stream.response["output"] == whole["output"] == [{**call, "call_id": "tc_1"}]


def test_hidden_code_is_stored_although_it_was_streamed() -> None:
    call = {"type": "code_interpreter_call", "id": "ci", "container_id": "c", "code": None}
    place: Json = {"output_index": 0, "item_id": "ci"}
    stream = ResponsesRelay(OwnResponse(None, OURS, is_stored=True))
    stream.feed(
        CREATED
        + frame("response.output_item.added", 2, output_index=0, item=call)
        + frame("response.code_interpreter_call_code.delta", 3, **place, delta="1")
        + frame("response.output_item.done", 4, output_index=0, item=call)
        + ending("completed", number=5, output=[call])
    )
    assert stream.failed is None


@pytest.mark.parametrize(
    ("status", "kept"), [({}, "completed"), ({"status": None}, "completed"), ({"status": "incomplete"}, "incomplete")]
)
def test_a_stored_whole_response_has_a_status(status: Json, kept: str) -> None:
    body = {"id": "x", "output": [ITEM], **status}
    assert relay_response(body, OwnResponse(None, OURS, is_stored=True))["status"] == kept


@pytest.mark.parametrize("status", ["queued", "in_progress", "done", 5, ["completed"]])
def test_an_unfinished_whole_response_is_not_stored(status: Any) -> None:
    with pytest.raises(ProtocolViolation):
        relay_response({**HEAD, "status": status, "output": [ITEM]}, OwnResponse(None, OURS, is_stored=True))
