"""Events of a Responses upstream, and what they are decoded to."""

from typing import Any

from tests.unit.support.translator_drivers import counting_ids, decode
from translation.representation import items
from translation.representation.events import (
    Delta,
    Event,
    Finished,
    ItemStarted,
    PartStarted,
    Started,
)
from translation.representation.json_types import Item, Json
from translation.responses.upstream.decode import ResponsesDecoder


def decoded(*chunks: Json) -> list[Event]:
    return decode(ResponsesDecoder(counting_ids()), chunks)


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


MADE_UP: list[Event] = [ItemStarted(0, items.new_message("msg_1")), PartStarted(0, 0, TEXT), Delta(0, 0, "Hi")]
"""A message without a start event."""


def without(event: Json, *keys: str) -> Json:
    return {key: value for key, value in event.items() if key not in keys}
