"""The events of items, and the message that a stream and a collector make of them."""

from tests.unit.support.stream_checks.messages_order import check_message, check_message_stream
from translation.messages.client.collect import MessageCollector
from translation.messages.client.encode import MessagesEncoder
from translation.messages.client.reply_objects import ThinkingView
from translation.representation.events import (
    Delta,
    Event,
    Finished,
    ItemEnded,
    ItemStarted,
    PartEnded,
    PartStarted,
    Started,
)
from translation.representation.json_types import Item, Json

MESSAGE: Item = {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
REASONING: Item = {"id": "rs_1", "type": "reasoning", "summary": []}
CALL: Item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "f", "arguments": ""}
TEXT: Json = {"type": "output_text", "text": "", "annotations": []}
THOUGHT: Json = {"type": "reasoning_text", "text": ""}
SUMMARY: Json = {"type": "summary_text", "text": ""}
STOP = Finished("stop")


class Seal:
    """A seal that contains its data as text."""

    def may_need_seal(self, _payload: bytes, /) -> bool:
        return True

    def seal_added_item(self, item: Item, /) -> Item:
        return item

    def seal_done_item(self, item: Item, /) -> Item:
        if item["type"] == "reasoning" or item.get("details"):
            return {**item, "encrypted_content": f"sealed {item['id']}"}
        return item


def reply_of(*events: Event, view: ThinkingView = "text", seal: Seal | None = None) -> Json:
    """The message of the events, which is the same as a stream and as a whole."""
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking=view, seal=seal)
    collector = MessageCollector(message_id="msg_1", model="m", thinking=view, seal=seal)
    batch = [Started("m"), *events]
    wire = b"".join(encoder.feed([event]) for event in batch) + encoder.conclude()
    collector.feed(batch)
    assert encoder.conclude() == b""
    whole = collector.result()
    check_message(whole)
    streamed = check_message_stream(wire)
    assert without_nulls(streamed["content"]) == without_nulls(whole["content"])
    assert streamed["stop_reason"] == whole["stop_reason"]
    return whole


def without_nulls(blocks: list[Json]) -> list[Json]:
    return [{key: value for key, value in block.items() if value is not None} for block in blocks]


def item(index: int, start: Item, *texts: str, part: Json | None = None, final: Item | None = None) -> list[Event]:
    """The events of an item with one text."""
    part_index = None if part is None else 0
    parts: list[Event] = [] if part is None else [PartStarted(index, 0, part)]
    deltas = [Delta(index, part_index, text) for text in texts]
    ends: list[Event] = [] if part is None else [PartEnded(index, 0)]
    return [ItemStarted(index, start), *parts, *deltas, *ends, ItemEnded(index, final)]
