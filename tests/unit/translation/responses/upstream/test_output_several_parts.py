"""Items with two parts, whichever of their events a Responses upstream leaves out: no text is lost or doubled."""

from itertools import product
from typing import Any

import pytest

from tests.unit.support.translator_drivers import counting_ids
from translation.representation.events import Delta, Event, ItemEnded
from translation.responses.upstream.decode import ResponsesDecoder

Json = dict[str, Any]

CREATED: Json = {"type": "response.created", "response": {"id": "r", "model": "m"}}
PLACE: Json = {"output_index": 0, "item_id": "i"}
MESSAGE: Json = {"type": "message", "id": "i", "role": "assistant", "status": "in_progress", "content": []}
REASONING: Json = {"type": "reasoning", "id": "i", "summary": []}
KINDS: dict[str, tuple[Json, str, str, str, str]] = {
    # the item, the key of its parts, the key of their number, the type of a part, the names of the events of parts
    "text": (MESSAGE, "content", "content_index", "output_text", "content_part"),
    "summary": (REASONING, "summary", "summary_index", "summary_text", "reasoning_summary_part"),
    "thinking": (REASONING | {"content": []}, "content", "content_index", "reasoning_text", "content_part"),
}
EVENTS = {"output_text": "output_text", "summary_text": "reasoning_summary_text", "reasoning_text": "reasoning_text"}


def read_texts(item: Json | None) -> list[str]:
    return [part["text"] for key in ("summary", "content") for part in (item or {}).get(key, ())]


@pytest.mark.parametrize("pieces", list(product(range(4), range(1, 4))), ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_two_parts_are_whole(kind: str, pieces: tuple[int, int]) -> None:
    item, list_key, number_key, part_type, part_events = KINDS[kind]
    texts = ["abc"[: pieces[0]], "xyz"[: pieces[1]]]
    for announced, text_done, part_done, item_done, at_end, first in product((False, True), repeat=6):
        begun: list[Json] = []
        ended: list[Json] = []
        for number, text in enumerate(texts, int(first)):
            place = {**PLACE, number_key: number}
            part: Json = {"type": part_type, "text": text}
            if announced and text:
                begun.append({"type": f"response.{part_events}.added", **place, "part": {**part, "text": ""}})
            begun += [{"type": f"response.{EVENTS[part_type]}.delta", **place, "delta": piece} for piece in text]
            ends: list[Json] = []
            if text_done and text:
                ends.append({"type": f"response.{EVENTS[part_type]}.done", **place, "text": text})
            if part_done and text:
                ends.append({"type": f"response.{part_events}.done", **place, "part": part})
            (ended if at_end else begun).extend(ends)
        whole = item | {list_key: [{"type": part_type, "text": text} for text in texts if text]}
        events = [CREATED, {"type": "response.output_item.added", "output_index": 0, "item": item}, *begun, *ended]
        if item_done:
            events.append({"type": "response.output_item.done", "output_index": 0, "item": whole})
        events.append({"type": "response.completed", "response": {"status": "completed", "output": [whole]}})
        decoder = ResponsesDecoder(counting_ids())
        decoded: list[Event] = [each for event in events for each in decoder.feed(event)] + decoder.finish()
        assert "".join(each.text for each in decoded if isinstance(each, Delta)) == "".join(texts)
        [end] = [each for each in decoded if isinstance(each, ItemEnded)]
        assert "".join(read_texts(end.item)) == "".join(texts)
        if kind == "summary":
            assert read_texts(end.item) == [text for text in texts if text]


def test_an_empty_text_under_a_number_without_a_part_ends_nothing() -> None:
    decoder = ResponsesDecoder(counting_ids())
    decoder.feed(CREATED)
    deltas: list[Json] = [
        {"type": "response.output_text.delta", **PLACE, "content_index": number, "delta": text}
        for number, text in enumerate("ab")
    ]
    empty: Json = {"type": "response.output_text.done", **PLACE, "content_index": 7, "text": ""}
    ended = {**MESSAGE, "content": [{"type": "output_text", "text": "abc"}]}
    done = {"type": "response.output_item.done", "output_index": 0, "item": ended}
    events = [each for event in (*deltas, empty, done) for each in decoder.feed(event)]
    assert [each.text for each in events if isinstance(each, Delta)] == ["a", "b", "c"]
