"""Gives the items of a reply other indexes: where stages leave items out, and where replies continue other replies."""

from dataclasses import replace
from typing import TypeAlias, TypeVar

from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    ItemEnded,
    ItemStarted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
)

ItemEvent: TypeAlias = ItemStarted | PartStarted | Delta | PartEnded | ItemEnded | Annotated | Progressed | Opaque
"""The events about an item. An `Opaque` event is one only if it has an index."""

ItemEventT = TypeVar("ItemEventT", bound=ItemEvent)


class ItemIndexes:
    """The index of each item of a reply in another reply. Items that the other reply does not have are not in it."""

    __slots__ = ("_indexes",)

    def __init__(self) -> None:
        self._indexes: dict[int, int] = {}

    def __contains__(self, index: int) -> bool:
        return index in self._indexes

    def __getitem__(self, index: int) -> int:
        return self._indexes[index]

    def get(self, index: int) -> int | None:
        """Returns the index of an item in the other reply; None if it is not there."""
        return self._indexes.get(index)

    def __len__(self) -> int:
        return len(self._indexes)

    def add(self, index: int, new_index: int | None = None) -> int:
        """Adds an item that starts, by default as the next one of the other reply. Returns its index there."""
        new_index = self._indexes[index] = len(self._indexes) if new_index is None else new_index
        return new_index

    def move(self, event: ItemEventT) -> ItemEventT:
        """Returns an event of a known item with the index in the other reply."""
        return with_index(event, self._indexes[event.index or 0])


def with_index(event: ItemEventT, index: int) -> ItemEventT:
    """Returns the event for an item of another index; the same object if that is its index."""
    if event.index == index:
        return event
    if isinstance(event, Delta):  # Most events are deltas, and `replace` would take several times as long.
        return Delta(index, event.part_index, event.text, event.logprobs, event.token_ids)  # type: ignore[return-value]
    return replace(event, index=index)


def shift_index(event: Event, offset: int) -> Event:
    """Returns an event of a reply whose items follow `offset` other items. Events about no item stay the same."""
    match event:
        case ItemStarted() | PartStarted() | Delta() | PartEnded() | ItemEnded() | Annotated() | Progressed():
            return with_index(event, event.index + offset)
        case Opaque(index=int(index)):
            return replace(event, index=index + offset)
    return event
