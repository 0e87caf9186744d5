"""Collects the events of a turn."""

import copy

import pytest

from tests.unit.support.event_grammar import EventGrammar
from translation.representation import items
from translation.representation.collector import ItemState, TurnCollector
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
    Usage,
)
from translation.representation.json_types import Item, Json

LOGPROB: Json = {"token": "x", "logprob": -0.1, "bytes": [120], "top_logprobs": []}
CITED: Json = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
MESSAGE = items.new_message("msg_1")
CALL = items.new_function_call("fc_1", call_id="call_1", name="f")
SEARCH: Item = {"id": "ws_1", "type": "web_search_call", "status": "in_progress"}


def collect(*events: Event, end: Event | None = None) -> TurnCollector:
    turn: list[Event] = [Started("m"), *events, end or Finished("stop")]
    grammar = EventGrammar()
    grammar.check(turn)
    grammar.finish()
    collector = TurnCollector()
    collector.feed(turn)
    return collector


def part(index: int, part_index: int, start: Json, *texts: str, ended: Json | None = None) -> list[Event]:
    deltas = [Delta(index, part_index, text) for text in texts]
    return [PartStarted(index, part_index, start), *deltas, PartEnded(index, part_index, ended)]


CASES: dict[str, tuple[list[Event], list[Item]]] = {
    "deltas of a text are one text": (
        [ItemStarted(0, MESSAGE), *part(0, 0, items.new_output_text(), "a", "b", "c"), ItemEnded(0)],
        [{**MESSAGE, "status": "completed", "content": [{**items.new_output_text(), "text": "abc"}]}],
    ),
    "parts keep their order": (
        [
            ItemStarted(0, MESSAGE),
            *part(0, 0, items.new_output_text(), "a"),
            *part(0, 1, items.new_refusal(), "no"),
            ItemEnded(0),
        ],
        [
            {
                **MESSAGE,
                "status": "completed",
                "content": [{**items.new_output_text(), "text": "a"}, {"type": "refusal", "refusal": "no"}],
            }
        ],
    ),
    "logprobs and citations stay with their text": (
        [
            ItemStarted(0, MESSAGE),
            PartStarted(0, 0, items.new_output_text()),
            Delta(0, 0, "x", [LOGPROB]),
            Annotated(0, 0, CITED),
            PartEnded(0, 0),
            ItemEnded(0),
        ],
        [
            {
                **MESSAGE,
                "status": "completed",
                "content": [{**items.new_output_text(), "text": "x", "annotations": [CITED], "logprobs": [LOGPROB]}],
            }
        ],
    ),
    "a part without those keys gets them when there is something in them": (
        [
            ItemStarted(0, MESSAGE),
            PartStarted(0, 0, items.new_refusal()),
            Delta(0, 0, "x", [LOGPROB]),
            Annotated(0, 0, CITED),
            PartEnded(0, 0),
            ItemEnded(0),
        ],
        [
            {
                **MESSAGE,
                "status": "completed",
                "content": [{"type": "refusal", "refusal": "x", "annotations": [CITED], "logprobs": [LOGPROB]}],
            }
        ],
    ),
    "summaries and raw reasoning are in lists of their own, without a status": (
        [
            ItemStarted(0, items.new_reasoning("rs_1")),
            *part(0, 0, items.new_summary_text(), "s"),
            *part(0, 1, items.new_reasoning_text(), "r"),
            ItemEnded(0),
        ],
        [
            {
                "id": "rs_1",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "s"}],
                "content": [{"type": "reasoning_text", "text": "r"}],
            }
        ],
    ),
    "truncated reasoning is incomplete": (
        [ItemStarted(0, items.new_reasoning("rs_1")), ItemEnded(0, status="incomplete")],
        [{**items.new_reasoning("rs_1"), "status": "incomplete"}],
    ),
    "calls may interleave": (
        [
            ItemStarted(0, CALL),
            ItemStarted(1, {**CALL, "id": "fc_2"}),
            Delta(1, None, "[]"),
            Delta(0, None, "{"),
            Delta(0, None, "}"),
            PartEnded(1, None),
            ItemEnded(1),
            PartEnded(0, None),
            ItemEnded(0),
        ],
        [
            {**CALL, "status": "completed", "arguments": "{}"},
            {**CALL, "status": "completed", "id": "fc_2", "arguments": "[]"},
        ],
    ),
    "the upstream's own item wins over the deltas": (
        [ItemStarted(0, CALL), Delta(0, None, "{"), ItemEnded(0, {**CALL, "arguments": "{}", "status": "completed"})],
        [{**CALL, "arguments": "{}", "status": "completed"}],
    ),
    "the upstream's own part wins over the deltas": (
        [
            ItemStarted(0, MESSAGE),
            *part(0, 0, items.new_refusal(), "n", ended={**items.new_refusal(), "refusal": "no"}),
            ItemEnded(0),
        ],
        [{**MESSAGE, "status": "completed", "content": [{"type": "refusal", "refusal": "no"}]}],
    ),
    "the upstream's own last word on arguments wins over the deltas": (
        [ItemStarted(0, CALL), Delta(0, None, "{"), PartEnded(0, None, {"arguments": "{}"}), ItemEnded(0)],
        [{**CALL, "arguments": "{}", "status": "completed"}],
    ),
    "a text that had begun goes on": (
        [ItemStarted(0, {**CALL, "arguments": "{"}), Delta(0, None, "}"), PartEnded(0, None), ItemEnded(0)],
        [{**CALL, "arguments": "{}", "status": "completed"}],
    ),
    "an item that came whole stays whole": (
        [ItemStarted(0, {**MESSAGE, "content": [{**items.new_output_text(), "text": "a"}]}), ItemEnded(0)],
        [{**MESSAGE, "status": "completed", "content": [{**items.new_output_text(), "text": "a"}]}],
    ),
    "unknown nouns are preserved": (
        [
            ItemStarted(0, SEARCH),
            Progressed(0, "searching"),
            *part(0, 0, {"type": "new", "x": 1}, "lost", ended={"type": "new", "x": 2}),
            *part(0, 1, {"x": 1}, "lost"),
            Opaque("responses", {}, 0),
            ItemEnded(0),
        ],
        [{**SEARCH, "status": "completed", "content": [{"type": "new", "x": 2}, {"x": 1}]}],
    ),
}


@pytest.mark.parametrize(("events", "expected"), CASES.values(), ids=CASES)
def test_events_add_up_to_items(events: list[Event], expected: list[Item]) -> None:
    before = copy.deepcopy(events)
    assert collect(*events).items == expected
    assert events == before, "an event's objects were changed"


def test_items_still_open_when_the_turn_fails_are_incomplete() -> None:
    done: list[Event] = [ItemStarted(0, CALL), PartEnded(0, None), ItemEnded(0)]
    open_text: list[Event] = [ItemStarted(1, MESSAGE), PartStarted(1, 0, items.new_refusal()), Delta(1, 0, "n")]
    collector = collect(*done, *open_text, end=Failed("upstream_truncated", "gone", usage=Usage(1, 2)))
    assert [item["status"] for item in collector.items] == ["completed", "incomplete"]
    assert collector.items[1]["content"] == [{"type": "refusal", "refusal": "n"}]
    assert collector.failed == Failed("upstream_truncated", "gone", usage=Usage(1, 2))
    assert collector.finished is None
    assert collector.usage == Usage(1, 2)


def test_the_latest_usage_and_facts_win() -> None:
    collector = collect(
        Noted(usage=Usage(1, 1)),
        Noted(facts={"service_tier": "flex", "system_fingerprint": "a"}),
        Noted(usage=Usage(1, 5), facts={"system_fingerprint": "b"}),
    )
    assert collector.usage == Usage(1, 5)
    assert collector.facts == {"service_tier": "flex", "system_fingerprint": "b"}
    assert collector.started == Started("m")
    assert collector.finished == Finished("stop")
    assert collect(Noted(usage=Usage(1, 1)), end=Finished("stop", usage=Usage(1, 2))).usage == Usage(1, 2)


def test_an_item_can_be_read_while_it_grows() -> None:
    state = ItemState(MESSAGE)
    refusal = state.start_part(items.new_refusal())
    refusal.append("n")
    assert refusal.text == "n"
    refusal.append("o")
    refusal.add_logprobs([LOGPROB])
    assert state.part_at(0).text == "no"
    assert state.part_at(0).logprobs == [LOGPROB]
    assert state.snapshot()["content"][0]["refusal"] == "no"
    assert state.snapshot()["status"] == "in_progress"
