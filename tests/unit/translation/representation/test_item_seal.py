"""Items are sealed wherever a reply contains them; everything else is unchanged."""

from typing import Any

import orjson
import pytest

from tests.unit.support.stream_checks.responses_order import read_stream
from tests.unit.support.translator_drivers import feed_to_end, relay_to_end
from translation.framing import sse
from translation.representation import items
from translation.representation.events import Event, Failed, Finished, ItemEnded, ItemStarted, Started
from translation.representation.json_types import Item, Json
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.client.initial_response import new_response
from translation.responses.client.snapshot import Snapshot
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.whole_response import OwnResponse, relay_response

HEAD = new_response({"input": "Hi"}, response_id="resp_1", created_at=100, model="m")
THOUGHT: Item = items.new_reasoning("rs_1")
SECRET: Item = {**THOUGHT, "encrypted_content": "raw"}
MESSAGE: Item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": []}
CALL: Item = items.new_function_call("fc_1", call_id="c1", name="f")


class Seal:
    """A seal that replaces the text raw by sealed."""

    def may_need_seal(self, payload: bytes) -> bool:
        return b"raw" in payload

    def seal_added_item(self, item: Item) -> Item:
        return {key: value for key, value in item.items() if value != "raw"} if "raw" in item.values() else item

    def seal_done_item(self, item: Item) -> Item:
        return {**item, "encrypted_content": "sealed"} if "raw" in item.values() else item


def read_items_and_response(stream: bytes) -> tuple[list[Json], Json]:
    """The items in a stream's events in order, and its last response."""
    events = read_stream(stream)
    assert b"raw" not in stream
    return [event["item"] for event in events if "item" in event], events[-1]["response"]


def test_a_translated_reply_has_sealed_items() -> None:
    turn: list[Event] = [
        Started("m"),
        ItemStarted(0, SECRET),
        ItemEnded(0, SECRET),
        ItemStarted(1, MESSAGE),
        ItemEnded(1, MESSAGE),
        ItemStarted(2, CALL),
        ItemEnded(2, CALL),
        Finished("stop"),
    ]
    announced = {**THOUGHT}
    sealed = {**THOUGHT, "encrypted_content": "sealed"}
    found, response = read_items_and_response(feed_to_end(ResponsesEncoder(HEAD, lambda: 105, Seal()), turn))
    call = {**CALL, "arguments": "{}"}
    assert found == [announced, sealed, MESSAGE, MESSAGE, CALL, call]
    assert response["output"] == [sealed, MESSAGE, call]
    collecting = Snapshot(HEAD, lambda: 105, Seal())
    collecting.feed(turn)
    assert collecting.result()["output"] == [sealed, MESSAGE, call]


def test_an_interrupted_item_has_no_unsealed_data() -> None:
    turn: list[Event] = [Started("m"), ItemStarted(0, SECRET), Failed("upstream_error", "it broke")]
    _, response = read_items_and_response(feed_to_end(ResponsesEncoder(HEAD, lambda: 105, Seal()), turn))
    assert response["output"] == [{**THOUGHT, "status": "incomplete"}]


def frame(event_type: str, number: int, **keys: Any) -> bytes:
    return sse.encode_event(event_type, orjson.dumps({"type": event_type, "sequence_number": number, **keys}))


CREATED = frame("response.created", 0, response=HEAD)
ADDED = frame("response.output_item.added", 1, output_index=0, item=SECRET)
DONE = frame("response.output_item.done", 2, output_index=0, item=SECRET)
PLAIN_ADDED = frame("response.output_item.added", 3, output_index=1, item=MESSAGE)
PLAIN_DONE = frame("response.output_item.done", 4, output_index=1, item=MESSAGE)
SEALED = {**THOUGHT, "encrypted_content": "sealed"}


def ending(*output: Any) -> bytes:
    return (
        frame("response.completed", 5, response={**HEAD, "status": "completed", "output": list(output)})
        + sse.DONE_FRAME
    )


def relay(*, kept: bool = False, seal: Seal | None = None) -> ResponsesRelay:
    return ResponsesRelay(OwnResponse(None, HEAD, is_stored=kept), seal=seal)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("output", [[SECRET, MESSAGE], []])
def test_a_relay_parses_only_frames_with_sealable_data(kept: bool, output: list[Item]) -> None:
    stream = relay(kept=kept, seal=Seal())
    # Bytes that no JSON writer of the gateway would produce are relayed unchanged.
    plain = PLAIN_DONE.replace(b'"output_index":1', b'"output_index" : 1')
    frames = relay_to_end(stream, CREATED + ADDED + DONE + PLAIN_ADDED + plain + ending(*output))
    assert PLAIN_ADDED in frames
    assert plain in frames
    found, response = read_items_and_response(frames)
    assert found == [THOUGHT, SEALED, MESSAGE, MESSAGE]
    assert response["output"] == [SEALED, MESSAGE]


def test_a_relay_without_a_seal_parses_no_item() -> None:
    stream = relay()
    frames = relay_to_end(stream, CREATED + ADDED + DONE + ending(SECRET))
    assert ADDED + DONE in frames
    assert stream.response is not None
    assert stream.response["output"] == [SECRET]


def test_items_without_sealable_data_are_relayed_unchanged() -> None:
    named = frame("response.output_item.done", 2, output_index=0, item={**MESSAGE, "note": "raw or not"})
    stream = relay(seal=Seal())
    assert named in stream.feed(CREATED + named)
    nameless = b"data: " + named.partition(b"\ndata: ")[2]
    assert relay(seal=Seal()).feed(CREATED + nameless).endswith(named)


def test_an_item_that_cannot_be_stored_ends_a_stored_relay() -> None:
    stream = relay(kept=True, seal=Seal())
    stream.feed(CREATED + frame("response.output_item.done", 1, output_index=0, item="raw"))
    assert stream.failed is not None
    assert stream.failed.code == "upstream_garbled"


def test_a_whole_response_has_sealed_items() -> None:
    body = {**HEAD, "status": "completed", "output": [SECRET, MESSAGE, "odd"]}
    assert relay_response(body, seal=Seal())["output"] == [SEALED, MESSAGE, "odd"]
    plain = {**body, "output": [MESSAGE]}
    assert relay_response(plain, seal=Seal()) is plain


def test_an_output_that_is_no_list_is_left_to_its_reader() -> None:
    stream = relay(seal=Seal())
    end = frame("response.completed", 1, response={**HEAD, "status": "completed", "output": {"odd": 1}})
    assert b'{"odd":1}' in feed_to_end(stream, CREATED + end)
