"""Events with the index of their item in another reply."""

from typing import Any, get_args

import pytest

from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
)
from translation.representation.item_indexes import ItemEvent, ItemIndexes, shift_index, with_index

EVENTS: list[Any] = [
    ItemStarted(1, {"type": "message", "id": "msg_1"}),
    PartStarted(1, 0, {"type": "output_text"}),
    Delta(1, 0, "a", [{"token": "a"}], [7]),
    PartEnded(1, 0),
    ItemEnded(1),
    Annotated(1, 0, {"type": "url_citation"}),
    Progressed(1, "in_progress"),
    Opaque("responses", {}, 1),
]


def test_the_cases_are_all_events_about_items() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(ItemEvent))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_moves_with_all_it_has(event: Any) -> None:
    moved = with_index(event, 4)
    assert (moved.index, shift_index(event, 3)) == (4, moved)
    assert with_index(moved, 1) == event
    assert with_index(event, 1) is event


@pytest.mark.parametrize("event", [Noted(), Finished("stop"), Opaque("responses", {})], ids=["noted", "end", "opaque"])
def test_events_about_no_item_are_not_shifted(event: Event) -> None:
    assert shift_index(event, 3) is event


def test_items_are_numbered_as_they_are_added() -> None:
    indexes = ItemIndexes()
    assert [indexes.add(index) for index in (0, 2, 3)] == [0, 1, 2]
    assert (1 in indexes, 2 in indexes, indexes[3], len(indexes)) == (False, True, 2, 3)
    assert indexes.add(5, 9) == indexes[5] == 9
    assert indexes.move(Delta(2, 0, "a")) == Delta(1, 0, "a")
