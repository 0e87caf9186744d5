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
        self._items: dict[tuple[int, str], Item] = {}
        """The output index and the type -> the newest item that began so."""
        self._indexes: set[int] = set()
        self._names: dict[tuple[str, str], tuple[int, str]] = {}
        """The key and the value of an id -> the output index and the type of its item."""
        self._parts: dict[tuple[int, Any], Json] = {}
        """The output index and the position of each part -> the part as it began."""

    def add(self, payload: bytes) -> None:
        """Adds the payload of an event that begins an item or a part."""
        self._unread.append(payload)

    def add_event(self, event: Json) -> None:
        """Adds an event that begins an item or a part."""
        index = read_output_index(event)
        if isinstance(item := event.get("item"), dict):
            place = index, str(item.get("type"))
            self._items[place] = item
            self._indexes.add(index)
            self._names |= dict.fromkeys(_list_names(item), place)
        if isinstance(part := event.get("part"), dict):
            self._parts[index, event.get("content_index", 0)] = part

    def has_item(self, output_index: int, item: Item | None = None) -> bool:
        """Returns whether an item began at an index, or, if `item` is given, at another one under its id."""
        self._read()
        return output_index in self._indexes or any(name in self._names for name in _list_names(item or {}))

    def find_item(self, output_index: int, item_type: str) -> Item | None:
        """Returns the item of a type that began at an index; None if there was none."""
        self._read()
        return self._items.get((output_index, item_type))

    def find_index(self, item: Item, place: int) -> int | None:
        """Returns the output index at which the item at a place of the whole output began; None if it did not."""
        self._read()
        begun = next((self._names[name] for name in _list_names(item) if name in self._names), None)
        if begun is None and (place, str(item.get("type"))) in self._items:
            return place
        return begun[0] if begun is not None and begun[1] == item.get("type") and begun[0] != NO_INDEX else None

    def has_part(self, output_index: int, position: int) -> bool:
        """Returns whether a part of an item began."""
        self._read()
        return (output_index, position) in self._parts

    def has_text(self, output_index: int, place: TextPlace, position: int) -> bool:
        """Returns whether a text came in the event that began its item or its part: clients add up the deltas to it."""
        self._read()
        item = self._items.get((output_index, place.item_type), {})
        if not place.list_key:
            return bool(item.get(place.text_key))
        parts = item.get(place.list_key)
        holders: list[Any] = [self._parts.get((output_index, position))]
        holders += parts[position : position + 1] if isinstance(parts, list) else []
        return any(isinstance(holder, dict) and holder.get(place.text_key) for holder in holders)

    def _read(self) -> None:
        payloads, self._unread = self._unread, []
        for payload in payloads:
            try:
                self.add_event(orjson.loads(payload))
            except (orjson.JSONDecodeError, AttributeError):
                continue  # it was forwarded without parsing, so the client saw that it is damaged


def _list_names(item: Item) -> list[tuple[str, str]]:
    return [(key, item[key]) for key in ("id", "call_id") if isinstance(item.get(key), str)]
