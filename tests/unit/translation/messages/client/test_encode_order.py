"""Blocks follow each other, also where the items of an upstream overlap."""

import pytest

from tests.unit.support.stream_checks.messages_order import check_message_stream
from tests.unit.translation.messages.encoded_messages import (
    CALL,
    MESSAGE,
    REASONING,
    STOP,
    TEXT,
    THOUGHT,
    item,
    without_nulls,
)
from translation.chat.delta_run import ChatDeltaRun
from translation.messages.client.encode import MessagesEncoder
from translation.representation.events import Delta, Event, ItemEnded, ItemStarted, PartEnded, PartStarted, Started
from translation.representation.json_types import Item, Json

SECOND_CALL: Item = {**CALL, "id": "fc_2", "call_id": "call_2", "name": "g"}
OVERLAPS: dict[str, tuple[list[Event], list[Json]]] = {
    "calls": (
        [
            ItemStarted(0, CALL),
            ItemStarted(1, SECOND_CALL),
            Delta(1, None, '{"b"'),
            Delta(0, None, '{"a"'),
            Delta(1, None, ":2}"),
            ItemEnded(1),
            Delta(0, None, ":1}"),
            ItemEnded(0),
        ],
        [
            {"type": "tool_use", "id": "call_1", "name": "f", "input": {"a": 1}},
            {"type": "tool_use", "id": "call_2", "name": "g", "input": {"b": 2}},
        ],
    ),
    "a call, thinking and text": (
        [
            ItemStarted(0, CALL),
            *item(1, REASONING, "hm", part=THOUGHT),
            ItemStarted(2, MESSAGE),
            PartStarted(2, 0, TEXT),
            Delta(2, 0, "y"),
            Delta(0, None, "{}"),
            ItemEnded(0),
            Delta(2, 0, "es"),
            PartEnded(2, 0),
            ItemEnded(2),
        ],
        [
            {"type": "tool_use", "id": "call_1", "name": "f", "input": {}},
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "text", "text": "yes"},
        ],
    ),
    "the parts of a message": (
        [
            ItemStarted(0, MESSAGE),
            PartStarted(0, 0, TEXT),
            Delta(0, 0, "o"),
            PartStarted(0, 1, TEXT),
            Delta(0, 1, "tw"),
            Delta(0, 0, "ne"),
            PartEnded(0, 0),
            Delta(0, 1, "o"),
            PartEnded(0, 1),
            ItemEnded(0),
        ],
        [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
    ),
    "the parts of a message, and another one": (
        [
            ItemStarted(0, MESSAGE),
            PartStarted(0, 0, TEXT),
            Delta(0, 0, "one"),
            *item(1, MESSAGE, "three", part=TEXT),
            PartStarted(0, 1, TEXT),
            Delta(0, 1, "two"),
            PartEnded(0, 1),
            PartEnded(0, 0),
            ItemEnded(0),
        ],
        [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}, {"type": "text", "text": "three"}],
    ),
}


@pytest.mark.parametrize(("events", "blocks"), OVERLAPS.values(), ids=OVERLAPS)
def test_blocks_of_items_that_overlap_follow_each_other(events: list[Event], blocks: list[Json]) -> None:
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking="text")
    batch = [Started("m"), *events, STOP]
    wire = b"".join(encoder.feed([event]) for event in batch) + encoder.conclude()
    assert without_nulls(check_message_stream(wire)["content"]) == blocks
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking="text")
    assert encoder.feed(batch) + encoder.conclude() == wire


def test_only_deltas_of_the_open_block_are_forwarded_by_template() -> None:
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking="text")
    runs = []
    for index in (0, 1):
        delta = Delta(index, None, "{")
        run = ChatDeltaRun.from_delta(b'{"arguments":"{"}', "arguments", delta)
        assert run is not None
        runs.append(run)
    encoder.feed([Started("m"), ItemStarted(0, CALL), Delta(0, None, '{"a"')])
    encoder.feed([ItemStarted(1, SECOND_CALL), Delta(1, None, '{"b"')])
    assert [encoder.build_delta_template(run) is not None for run in runs] == [True, False]
    encoder.feed([Delta(0, None, ":1}"), ItemEnded(0)])
    assert [encoder.build_delta_template(run) is not None for run in runs] == [False, True]
