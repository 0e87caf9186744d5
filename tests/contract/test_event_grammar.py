"""The automaton accepts what an event stream may be and names the first event with no right to be there."""

import pytest

from tests.unit.support.event_grammar import EventGrammar
from translation.errors import ProtocolViolation
from translation.representation import items
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
    Started,
)

STARTED = Started("m")
MESSAGE = ItemStarted(0, items.new_message("msg_1"))
PART = PartStarted(0, 0, items.new_output_text())
CALL = ItemStarted(0, items.new_function_call("fc_1", call_id="a", name="f"))

LEGAL: dict[str, list[Event]] = {
    "nothing but an end": [Failed("x", "before the start")],
    "no items": [STARTED, Finished("stop")],
    "a message": [STARTED, MESSAGE, PART, Delta(0, 0, "a"), PartEnded(0, 0), ItemEnded(0), Finished("stop")],
    "two parts, cited": [
        STARTED,
        MESSAGE,
        PART,
        Annotated(0, 0, {}),
        PartEnded(0, 0),
        PartStarted(0, 1, items.new_refusal()),
        PartEnded(0, 1),
        ItemEnded(0),
        Finished("stop"),
    ],
    "interleaved calls": [
        STARTED,
        CALL,
        ItemStarted(1, items.new_function_call("fc_2", call_id="b", name="g")),
        Delta(1, None, "{}"),
        Delta(0, None, "{}"),
        PartEnded(0, None),
        ItemEnded(1),
        ItemEnded(0),
        Finished("tool_calls"),
    ],
    "a hosted tool": [
        STARTED,
        CALL,
        Progressed(0, "searching"),
        ItemEnded(0),
        Opaque("responses", {}, 0),
        Finished("stop"),
    ],
    "notes at any time": [Noted(), Opaque("chat", {}), STARTED, Noted(), Finished("stop")],
    "a failure with open items": [STARTED, MESSAGE, PART, Failed("x", "broke off")],
}

ILLEGAL: dict[str, tuple[list[Event], str]] = {
    "an item before the start": ([MESSAGE], "before Started"),
    "two starts": ([STARTED, STARTED], "Started twice"),
    "anything after the end": ([STARTED, Finished("stop"), Noted()], "after the end"),
    "a skipped item": ([STARTED, ItemStarted(1, items.new_message("msg_1"))], "item 1 opened, 0 expected"),
    "an item without an id": ([STARTED, ItemStarted(0, {"type": "message"})], "no type or no id"),
    "a skipped part": (
        [STARTED, MESSAGE, PartStarted(0, 1, items.new_refusal())],
        "part 1 of item 0 opened, 0 expected",
    ),
    "text for a part that is not open": ([STARTED, MESSAGE, Delta(0, 0, "a")], "part 0 of item 0 is not open"),
    "text for an item that is not open": ([STARTED, Delta(0, None, "a")], "item 0 is not open"),
    "an item that ends with an open part": ([STARTED, MESSAGE, PART, ItemEnded(0)], "open parts"),
    "an end with an open item": ([STARTED, MESSAGE, Finished("stop")], "open items"),
    "progress of nothing": ([STARTED, Progressed(0, "searching")], "item 0 is not open"),
    "news of an item that never was": ([STARTED, Opaque("responses", {}, 0)], "never started"),
}


@pytest.mark.parametrize("events", LEGAL.values(), ids=LEGAL)
def test_a_legal_stream_passes(events: list[Event]) -> None:
    grammar = EventGrammar()
    grammar.check(events)
    grammar.finish()


@pytest.mark.parametrize(("events", "words"), ILLEGAL.values(), ids=ILLEGAL)
def test_the_first_illegal_event_is_reported(events: list[Event], words: str) -> None:
    grammar = EventGrammar()
    grammar.check(events[:-1])
    with pytest.raises(ProtocolViolation, match=words):
        grammar.check(events[-1:])


def test_a_stream_that_just_stops_has_no_end() -> None:
    grammar = EventGrammar()
    grammar.check([STARTED])
    with pytest.raises(ProtocolViolation, match="without Finished or Failed"):
        grammar.finish()
