"""Readable reasoning of a Responses upstream as a summary."""

from typing import Any

import orjson
import pytest

from translation.representation.json_types import Item, Json
from translation.responses.summaries import ReasoningSummaries, rewrite_item, rewrite_output, rewrite_response

TEXT: Json = {"type": "reasoning_text", "text": "Hm."}
SUMMARY: Json = {"type": "summary_text", "text": "Hm."}
OTHER: Json = {"type": "strange", "text": "?"}
OPEN: Item = {"id": "rs_1", "type": "reasoning", "summary": [], "content": [TEXT]}
SUMMARIZED: Item = {"id": "rs_1", "type": "reasoning", "summary": [SUMMARY]}
PLACE: Json = {"item_id": "rs_1", "output_index": 1, "content_index": 2}
SUMMARY_PLACE: Json = {"item_id": "rs_1", "output_index": 1, "summary_index": 2}

REWRITTEN: dict[str, tuple[Json, Json]] = {
    "a delta": (
        {"type": "response.reasoning_text.delta", **PLACE, "delta": "Hm."},
        {"type": "response.reasoning_summary_text.delta", **SUMMARY_PLACE, "delta": "Hm."},
    ),
    "a delta without an index": (
        {"type": "response.reasoning_text.delta", "delta": "Hm."},
        {"type": "response.reasoning_summary_text.delta", "delta": "Hm.", "summary_index": 0},
    ),
    "the end of a text": (
        {"type": "response.reasoning_text.done", **PLACE, "text": "Hm."},
        {"type": "response.reasoning_summary_text.done", **SUMMARY_PLACE, "text": "Hm."},
    ),
    "the start of a part": (
        {"type": "response.content_part.added", **PLACE, "part": {**TEXT, "text": ""}},
        {"type": "response.reasoning_summary_part.added", **SUMMARY_PLACE, "part": {**SUMMARY, "text": ""}},
    ),
    "the start of a part of vLLM, without a text": (
        {"type": "response.reasoning_part.added", **PLACE, "part": {"type": "reasoning_text"}},
        {"type": "response.reasoning_summary_part.added", **SUMMARY_PLACE, "part": {**SUMMARY, "text": ""}},
    ),
    "the end of a part": (
        {"type": "response.content_part.done", **PLACE, "part": TEXT},
        {"type": "response.reasoning_summary_part.done", **SUMMARY_PLACE, "part": SUMMARY},
    ),
    "the end of an item": (
        {"type": "response.output_item.done", "output_index": 1, "item": OPEN},
        {"type": "response.output_item.done", "output_index": 1, "item": SUMMARIZED},
    ),
    "the end of a response": (
        {"type": "response.completed", "response": {"output": [OPEN]}},
        {"type": "response.completed", "response": {"output": [SUMMARIZED]}},
    ),
    "a whole response": ({"object": "response", "output": [OPEN]}, {"object": "response", "output": [SUMMARIZED]}),
}


@pytest.mark.parametrize(("event", "expected"), REWRITTEN.values(), ids=REWRITTEN)
def test_reasoning_becomes_a_summary(event: Json, expected: Json) -> None:
    before = orjson.dumps(event)
    assert ReasoningSummaries().rewrite_event(event) == expected
    assert orjson.dumps(event) == before, "the upstream's own event is not changed"


UNCHANGED: list[Json] = [
    {"type": "response.output_text.delta", "delta": "Hi"},
    {"type": "response.content_part.added", **PLACE, "part": {"type": "output_text", "text": ""}},
    {"type": "response.content_part.done", **PLACE, "part": None},
    {"type": "response.reasoning_summary_text.delta", **SUMMARY_PLACE, "delta": "Hm."},
    {"type": "response.output_item.added", "item": {"type": "message", "content": []}},
    {"type": "response.output_item.done", "item": SUMMARIZED},
    {"type": "response.completed", "response": {"output": []}},
    {"type": "response.failed", "response": None},
    {"type": "error", "message": "no"},
    {"error": {"message": "no"}},
]


@pytest.mark.parametrize("event", UNCHANGED, ids=str)
def test_other_events_are_the_same_object(event: Json) -> None:
    assert ReasoningSummaries().rewrite_event(event) is event


def test_an_item_with_a_summary_of_its_own_keeps_both() -> None:
    summaries = ReasoningSummaries()
    summaries.rewrite_event({"type": "response.reasoning_summary_part.added", "output_index": 1, "part": SUMMARY})
    for name in ("a delta", "the end of a text", "the start of a part", "the end of a part"):
        event, _ = REWRITTEN[name]
        assert summaries.rewrite_event(event) is event
    other = {**REWRITTEN["a delta"][0], "output_index": 2}
    assert summaries.rewrite_event(other)["type"] == "response.reasoning_summary_text.delta"


ITEMS: dict[str, tuple[Any, Any]] = {
    "text": (OPEN, SUMMARIZED),
    "text beside another part": ({**OPEN, "content": [TEXT, OTHER]}, {**SUMMARIZED, "content": [OTHER]}),
    "a summary beside text": ({**OPEN, "summary": [SUMMARY]}, {**OPEN, "summary": [SUMMARY]}),
    "no text": ({**OPEN, "content": None}, {**OPEN, "content": None}),
    "other parts": ({**OPEN, "content": [OTHER, "odd"]}, {**OPEN, "content": [OTHER, "odd"]}),
    "a message": ({"type": "message", "content": [TEXT]}, {"type": "message", "content": [TEXT]}),
    "no item": ("odd", "odd"),
}


@pytest.mark.parametrize(("item", "expected"), ITEMS.values(), ids=ITEMS)
def test_items_have_their_text_as_a_summary(item: Any, expected: Any) -> None:
    assert rewrite_item(item) == expected
    assert rewrite_output([item]) == [expected]
    assert rewrite_response({"output": [item]}) == {"output": [expected]}


def test_an_output_that_is_no_list_is_left_alone() -> None:
    assert rewrite_output("odd") == "odd"


@pytest.mark.parametrize("event", [event for event, _ in REWRITTEN.values() if "response" not in event], ids=str)
def test_an_event_that_changes_is_found_by_its_bytes(event: Json) -> None:
    if "type" in event:
        assert ReasoningSummaries.may_change(event["type"], orjson.dumps(event))


def test_other_events_need_no_parsing() -> None:
    assert ReasoningSummaries.may_change("response.reasoning_summary_part.added", b"{}")
    assert not ReasoningSummaries.may_change("response.output_text.delta", b'{"delta":"reasoning_text"}')
    assert not ReasoningSummaries.may_change("response.content_part.added", b'{"part":{"type":"output_text"}}')
    assert not ReasoningSummaries.may_change(None, b"reasoning_text")
