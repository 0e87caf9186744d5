"""Events of chat replies, as tests of the decoder write them down."""

from typing import Any

from tests.unit.support.translator_drivers import collect
from translation.representation import items
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

STARTED = Started("m", "c1")
STOP = Finished("stop", "stop")


def message(index: int, *texts: str, id: str = "msg_1", status: Any = "completed") -> list[Event]:
    return [
        ItemStarted(index, items.new_message(id)),
        PartStarted(index, 0, items.new_output_text()),
        *(Delta(index, 0, text) for text in texts),
        PartEnded(index, 0),
        ItemEnded(index, status=status),
    ]


def reasoning(index: int, *texts: str, id: str = "rs_1", status: Any = "completed") -> list[Event]:
    return [
        ItemStarted(index, items.new_reasoning(id)),
        PartStarted(index, 0, items.new_reasoning_text()),
        *(Delta(index, 0, text) for text in texts),
        PartEnded(index, 0),
        ItemEnded(index, status=status),
    ]


def function(index: int, name: str, *texts: str, call_id: str = "a", id: str = "fc_1") -> list[Event]:
    return [
        ItemStarted(index, items.new_function_call(id, call_id=call_id, name=name)),
        *(Delta(index, None, text) for text in texts),
        PartEnded(index, None),
        ItemEnded(index),
    ]


def texts(events: list[Event]) -> list[tuple[str, str]]:
    """Returns (item type, text) of every message and reasoning item."""
    return [(item["type"], "".join(part["text"] for part in item["content"])) for item in collect(events)]
