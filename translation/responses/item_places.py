"""Finds the items of a stream in the output of its terminal event, which may number and name them otherwise."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from translation.representation.json_types import Item


class StreamedItem(NamedTuple):
    """An item as the events of a stream told it. `id` is None if they gave it no id."""

    output_index: int
    type: str
    id: str | None


def build_streamed_item(output_index: int, type_: str, id_: Any) -> StreamedItem:
    """Returns an item by what an event says of it. An id that is no text counts as none."""
    return StreamedItem(output_index, type_, id_ if isinstance(id_, str) else None)


def find_places(output: Sequence[Item], streamed: Iterable[StreamedItem]) -> dict[StreamedItem, int]:
    """Returns the place in `output` of each item of the stream that is there.

    Some upstreams give an item a new id in each event. Then its place is that of its index. If the indexes do not fit
    the types of the items, because the upstream counts from 1, leaves items out or gives several one index, the items
    of each type are taken in their order.
    """
    in_order = sorted(streamed, key=lambda item: item.output_index)
    ids = Counter(item["id"] for item in output if isinstance(item.get("id"), str))
    by_id = {item["id"]: place for place, item in enumerate(output) if ids[item.get("id")] == 1}
    places: dict[StreamedItem, int] = {}
    free = set(range(len(output)))
    for item in in_order:
        place = by_id.get(item.id)
        if place in free and output[place].get("type") == item.type:
            places[item] = place
            free.remove(place)
    free_by_type: dict[str, list[int]] = {}
    for place in sorted(free):
        free_by_type.setdefault(str(output[place].get("type")), []).append(place)
    others = [item for item in in_order if item not in places and item.type in free_by_type]
    indexes = {item.output_index for item in others}
    has_own_indexes = len(indexes) == len(others) and indexes <= free
    if has_own_indexes and all(str(output[item.output_index].get("type")) == item.type for item in others):
        return places | {item: item.output_index for item in others}
    next_places = {kind: iter(free_places) for kind, free_places in free_by_type.items()}
    for item in others:
        if (next_place := next(next_places[item.type], None)) is not None:
            places[item] = next_place
    return places
