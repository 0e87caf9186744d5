"""Types of an upstream's events that no `event:` line can hold: on every way they end the reply as failed."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
import pytest

from tests.unit.support.translator_drivers import counting_ids
from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.messages.relaying.relay import MessagesRelay
from translation.representation.json_types import Json
from translation.responses.client.initial_response import new_response
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.whole_response import OwnResponse
from translation.responses.upstream.decode import ResponsesDecoder

HEAD: Final = new_response({"model": "m", "input": "hi"}, response_id="resp_1", created_at=100, model="m")
MESSAGE: Final = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
PART: Final = {"type": "output_text", "text": "", "annotations": []}
PLACE: Final = {"item_id": "msg_1", "output_index": 0, "content_index": 0}

TYPES: Final[Mapping[str, Any]] = {
    "a number": 5,
    "true": True,
    "a list": ["ping"],
    "an object": {"a": "ping"},
    "a line feed": "a\nb",
    "a carriage return": "a\rb",
    "a separator of lines beyond ASCII": "a\u2028b",
    "an event within": "x\n\nevent: response.completed\ndata: {}",
}


def _frame(event_type: Any, **fields: Any) -> bytes:
    return sse.encode_data(orjson.dumps({"type": event_type, "sequence_number": 3, **fields}))


def _relay_response(*frames: bytes) -> tuple[bytes, Any]:
    relay = ResponsesRelay(OwnResponse(None, HEAD))
    relay.feed(_frame("response.created", response=HEAD))
    for each in frames[:-1]:
        relay.feed(each)
    return relay.feed(frames[-1]), relay.failed


def _relay_renumbered(frame: bytes) -> tuple[bytes, Any]:
    """Relays it after a final text with more than the deltas, whose rest is one more event."""
    return _relay_response(
        _frame("response.output_item.added", output_index=0, item=MESSAGE),
        _frame("response.content_part.added", **PLACE, part=PART),
        _frame("response.output_text.delta", **PLACE, delta="a"),
        _frame("response.output_text.done", **PLACE, text="ab"),
        frame,
    )


def _relay_message(frame: bytes) -> tuple[bytes, Any]:
    relay = MessagesRelay(model=None)
    relay.feed(_frame("message_start", message={"id": "msg_1", "usage": {}}))
    return relay.feed(frame), relay.failed


RELAYS: Final = {"responses": _relay_response, "renumbered": _relay_renumbered, "messages": _relay_message}


@pytest.mark.parametrize("relay", RELAYS.values(), ids=RELAYS)
@pytest.mark.parametrize("event_type", TYPES.values(), ids=TYPES)
def test_a_relay_fails_and_sends_no_frame_of_such_a_type(
    event_type: Any, relay: Callable[[bytes], tuple[bytes, Any]]
) -> None:
    sent, failed = relay(_frame(event_type))
    assert (sent, failed.code) == (b"", "upstream_garbled")


@pytest.mark.parametrize("relay", RELAYS.values(), ids=RELAYS)
def test_a_relay_forwards_events_of_other_unknown_types(relay: Callable[[bytes], tuple[bytes, Any]]) -> None:
    sent, failed = relay(_frame("neu.größer 2"))
    assert sent.startswith("event: neu.größer 2\ndata: {".encode())
    assert (sent.count(b"\n"), failed) == (3, None)


def test_an_event_that_is_named_keeps_its_frame_when_it_cannot_be_renumbered() -> None:
    frame = sse.encode_event("response.new", orjson.dumps({"type": "a\nb", "sequence_number": 9}))
    assert _relay_renumbered(frame) == (frame, None)


@pytest.mark.parametrize("event_type", TYPES.values(), ids=TYPES)
def test_a_decoder_refuses_such_a_type(event_type: Any) -> None:
    decoder = ResponsesDecoder(counting_ids())
    started: Json = {"type": "response.created", "response": HEAD}
    decoder.feed(started)
    with pytest.raises(ProtocolViolation):
        decoder.feed({"type": event_type})


@pytest.mark.parametrize("event_type", ["", "ping", "response.output_text.delta", "größer", "two words"])
def test_a_text_of_one_line_is_a_type(event_type: str) -> None:
    assert sse.require_event_name(event_type) == event_type
