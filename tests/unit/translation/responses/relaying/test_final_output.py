"""The terminal event of a relayed stream has the items that the stream before it had."""

from typing import Any

import pytest

from tests.unit.support.stream_checks.responses_order import read_stream
from tests.unit.support.translator_drivers import feed_to_end, relay_to_end
from tests.unit.translation.responses.relaying.relayed_responses import CREATED, OURS, ending, frame, relay
from translation.representation.json_types import Item, Json
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.whole_response import OwnResponse


def message(text: str, item_id: str = "msg_1") -> Item:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": item_id, "type": "message", "role": "assistant", "status": "completed", "content": [part]}


def call(arguments: str, item_id: str = "fc_1") -> Item:
    more = {"call_id": f"call_{item_id}", "name": "f", "arguments": arguments, "status": "completed"}
    return {"id": item_id, "type": "function_call", **more}


THOUGHT: Item = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
BARE: Item = {**message(""), "content": []}
DAMAGED: Any = {**message("a"), "content": [{"type": "output_text", "text": 5}, "odd"]}


def stream_of(done: list[Item], status: str, output: Any) -> bytes:
    events = [
        frame("response.output_item.done", 2 + index, output_index=index, item=item) for index, item in enumerate(done)
    ]
    return CREATED + b"".join(events) + ending(status, 2 + len(done), output=output)


def end_of(wire: bytes) -> Json:
    response: Json = read_stream(relay_to_end(relay(), wire))[-1]["response"]
    return response


SPLIT = [THOUGHT, message("a")]
JOINED: dict[str, tuple[list[Item], Any, list[Item]]] = {
    "no output": (SPLIT, [], SPLIT),
    "null": (SPLIT, None, SPLIT),
    "the same": (SPLIT, SPLIT, SPLIT),
    "the last only": (SPLIT, SPLIT[1:], SPLIT),
    "the first only": (SPLIT, SPLIT[:1], SPLIT),
    "other ids": (SPLIT, [{**THOUGHT, "id": "x"}, message("a", "y")], [{**THOUGHT, "id": "x"}, message("a", "y")]),
    "no ids": ([message("a", "")], [{**message("a"), "id": None}], [{**message("a"), "id": None}]),
    "another id and one item less": (SPLIT, [message("a", "y")], [THOUGHT, message("a", "y")]),
    "an id that another item has": ([THOUGHT], [message("a", "rs_1")], [THOUGHT, message("a", "rs_1")]),
    "the order of two calls": (
        [call("1"), call("2", "fc_2")],
        [call("2", "fc_2"), call("1")],
        [call("2", "fc_2"), call("1")],
    ),
    "a message without its text": (SPLIT, [THOUGHT, BARE], SPLIT),
    "a call without its arguments": ([call('{"a":1}')], [call("")], [call('{"a":1}')]),
    "arguments written again": ([call('{"a":1}')], [call('{"a": 1}')], [call('{"a": 1}')]),
    "trimmed text": ([message("a\n")], [message("a")], [message("a")]),
    "text that only the end has": ([BARE], [message("a")], [message("a")]),
    "an item that only the end has": ([THOUGHT], SPLIT, SPLIT),
    "no text where text should be": ([message("a")], [DAMAGED], [message("a")]),
    "another thought": ([THOUGHT], [{**THOUGHT, "summary": []}], [{**THOUGHT, "summary": []}]),
}


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
@pytest.mark.parametrize("case", JOINED)
def test_the_terminal_event_has_all_items(case: str, status: str) -> None:
    done, output, expected = JOINED[case]
    response = end_of(stream_of(done, status, output))
    assert (response["status"], response["output"]) == (status, expected)


@pytest.mark.parametrize(
    ("done", "final"), [(message("a"), message("b")), (message("a"), message("ab")), (call("{}"), call('{"a":1}'))]
)
@pytest.mark.parametrize("is_stored", [True, False])
def test_another_answer_than_in_the_stream_is_a_failure(done: Item, final: Item, is_stored: bool) -> None:
    stream = ResponsesRelay(OwnResponse("m", OURS, is_stored))
    feed_to_end(stream, stream_of([done], "completed", [final]))
    assert stream.failed is not None
    assert (stream.failed.code, stream.response and stream.response["output"]) == ("upstream_garbled", [done])


def test_another_text_in_a_failed_response_leaves_its_failure() -> None:
    wire = CREATED + frame("response.output_item.done", 2, output_index=0, item=message("a"))
    end = ending("failed", 3, output=[message("b")], error={"code": "server_error", "message": "no memory"})
    assert end_of(wire + end)["error"]["message"] == "no memory"


PLACE = {"item_id": "msg_1", "output_index": 0, "content_index": 0}


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("response.output_text.delta", "lacks a text that it streamed"),
        ("response.output_text.done", "has no output"),
    ],
)
def test_text_without_any_item_is_a_failure(last: str, message: str) -> None:
    response = end_of(CREATED + frame(last, 2, **PLACE, delta="a", text="a") + ending("completed", output=[]))
    assert response["status"] == "failed"
    assert message in response["error"]["message"]


def test_events_that_are_not_known_need_no_output() -> None:
    assert end_of(CREATED + frame("response.strange", 2) + ending("completed", output=[]))["output"] == []


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"type": "response.output_item.done", "item": {}, }',
        b'{"item": {}}',
        b'{"item": {"type": 5}, "output_index": 0}',
    ],
)
def test_a_damaged_end_of_an_item_adds_none(damaged: bytes) -> None:
    wire = b"event: response.output_item.done\ndata: " + damaged + b"\n\n"
    stream = relay()
    stream.feed(CREATED + wire + ending("completed", output=[message("a")]))
    assert stream.response is not None
    assert stream.response["output"] == [message("a")]


def test_output_that_is_no_list_of_items_is_relayed_if_nobody_stores_it() -> None:
    assert end_of(CREATED + ending("completed", output=["odd"]))["output"] == ["odd"]


def test_a_stream_of_only_its_end_needs_no_output() -> None:
    assert end_of(ending("completed", 0, output=[]))["output"] == []
