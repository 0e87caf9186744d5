"""A malformed event in the middle of a relayed Responses stream fails the response: clients would read a number as a
part of the answer, or stop without an end."""

from typing import Any

import orjson
import pytest

from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.whole_response import OwnResponse

TEXT = {"type": "output_text", "text": "Hello", "annotations": []}
MESSAGE = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [TEXT]}
PLACE = {"output_index": 0, "content_index": 0, "item_id": "m"}


def response(status: str, *output: Any) -> Any:
    return {"id": "r", "object": "response", "status": status, "model": "u", "output": [*output]}


def event(kind: str, **fields: Any) -> Any:
    return {"type": f"response.{kind}", **fields}


BEFORE = [
    event("created", response=response("in_progress")),
    event("output_item.added", output_index=0, item={**MESSAGE, "status": "in_progress", "content": []}),
    event("content_part.added", **PLACE, part={**TEXT, "text": ""}),
    event("output_text.delta", **PLACE, delta="Hel"),
]
AFTER = [
    event("output_text.delta", **PLACE, delta="lo"),
    event("output_text.done", **PLACE, text="Hello"),
    event("content_part.done", **PLACE, part=TEXT),
    event("output_item.done", output_index=0, item=MESSAGE),
    event("completed", response=response("completed", MESSAGE)),
]

MALFORMED: dict[str, Any] = {
    "a delta that is a number": event("output_text.delta", **PLACE, delta=5),
    "a delta that is null": event("output_text.delta", **PLACE, delta=None),
    "a delta that is an object": event("output_text.delta", **PLACE, delta={}),
    "no delta": event("output_text.delta", **PLACE),
    "a refusal that is a number": event("refusal.delta", **PLACE, delta=5),
    "a summary that is a number": event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta=5),
    "arguments that are a number": event("function_call_arguments.delta", output_index=1, delta=5),
    "a final text that is a number": event("output_text.done", **PLACE, text=5),
    "an item that is null": event("output_item.added", output_index=1, item=None),
    "an ended item that is a text": event("output_item.done", output_index=1, item="x"),
    "no item": event("output_item.done", output_index=1),
    "no type": {"delta": "x"},
    "a type that is a number": {"type": 5},
    "a list": [1],
}

WELL_FORMED: dict[str, Any] = {
    "no final text": event("output_text.done", **PLACE),
    "an event that is not known": event("new_thing.delta", delta=5),
    "spaces": b'{"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": ""}',
}


def relay(middle: Any) -> tuple[ResponsesRelay, bytes]:
    relayed = ResponsesRelay(OwnResponse("m", response("in_progress")))
    sent = b""
    for each in (*BEFORE, middle, *AFTER):
        payload = each if isinstance(each, bytes) else orjson.dumps(each)
        name = orjson.loads(payload).get("type") if payload.startswith(b"{") else None
        head = b"event: %b\n" % name.encode() if isinstance(name, str) else b""
        sent += relayed.feed(head + b"data: %b\n\n" % payload)
    return relayed, sent + relayed.finish() + relayed.conclude()


@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_event_fails_the_response(malformed: Any) -> None:
    relayed, sent = relay(malformed)
    assert relayed.failed is not None
    assert relayed.failed.code == "upstream_garbled"
    assert b"response.failed" in sent
    assert b"response.completed" not in sent
    assert b'"lo"' not in sent


@pytest.mark.parametrize("middle", WELL_FORMED.values(), ids=WELL_FORMED)
def test_other_events_are_forwarded(middle: Any) -> None:
    relayed, sent = relay(middle)
    assert relayed.failed is None
    assert b"response.completed" in sent
