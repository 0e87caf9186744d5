"""Remembers which items and parts a relayed stream has begun. Their events are only parsed if somebody asks."""

from typing import Any, Final

import orjson

from translation.representation.json_types import Item, Json
from translation.responses.upstream.output import TextPlace

ITEM_ADDED: Final = "response.output_item.added"
PART_ADDED: Final = "response.content_part.added"

NO_INDEX: Final = -1
"""The output index of the events that have none, which some upstreams send."""

BEGIN_EVENTS: Final = frozenset({ITEM_ADDED, PART_ADDED})
"""Types of the events that begin an item or a part of one."""


def read_output_index(event: Json) -> int:
    """Returns the output index of an event."""
    index = event.get("output_index")
    return index if isinstance(index, int) else NO_INDEX


class Beginnings:
    """The items and parts that one stream has begun."""

    def __init__(self) -> None:
        self._unread: list[bytes] = []
        self._items: list[tuple[int, Item]] = []
        """The output index of each item, and the item as it began."""
        self._parts: dict[tuple[int, Any], Json] = {}
        """The output index and the position of each part -> the part as it began."""

    def add(self, payload: bytes) -> None:
        """Adds the payload of an event that begins an item or a part."""
        self._unread.append(payload)

    def add_event(self, event: Json) -> None:
        """Adds an event that begins an item or a part."""
        if isinstance(item := event.get("item"), dict):
            self._items.append((read_output_index(event), item))
        if isinstance(part := event.get("part"), dict):
            self._parts[read_output_index(event), event.get("content_index", 0)] = part

    def has_item(self, output_index: int, item: Item | None = None) -> bool:
        """Returns whether an item began at an index, or, if `item` is given, at another one under its id."""
        return self._find_item(output_index, item) is not None

    def find_index(self, item: Item, place: int) -> int | None:
        """Returns the output index at which the item at a place of the whole output began; None if it did not."""
        index, begun = self._find_item(place, item) or (NO_INDEX, {})
        return index if index != NO_INDEX and begun.get("type") == item.get("type") else None

    def has_part(self, output_index: int, position: int) -> bool:
        """Returns whether a part of an item began."""
        self._read()
        return (output_index, position) in self._parts

    def has_text(self, output_index: int, place: TextPlace, position: int) -> bool:
        """Returns whether a text came in the event that began its item or its part: clients add up the deltas to it."""
        self._read()
        holders: list[Any] = [self._parts.get((output_index, position))] if place.list_key else []
        for index, item in self._items:
            if index == output_index and item.get("type") == place.item_type:
                parts = item.get(place.list_key) if place.list_key else [item]
                holders += parts[position : position + 1] if isinstance(parts, list) else []
        return any(isinstance(holder, dict) and holder.get(place.text_key) for holder in holders)

    def _find_item(self, output_index: int, item: Item | None) -> tuple[int, Item] | None:
        self._read()
        names = [(key, item[key]) for key in ("id", "call_id") if item and isinstance(item.get(key), str)]
        for index, begun in self._items:
            if index == output_index or any(begun.get(key) == name for key, name in names):
                return index, begun
        return None

    def _read(self) -> None:
        payloads, self._unread = self._unread, []
        for payload in payloads:
            try:
                self.add_event(orjson.loads(payload))
            except (orjson.JSONDecodeError, AttributeError):
                continue  # it was forwarded without parsing, so the client saw that it is damaged
