"""The part of a reply that was sent before its loop was interrupted, and the events that end it."""

from collections.abc import Container, Iterable, Sequence
from typing import Final

from translation.representation.collector import ItemState
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    ItemEnded,
    ItemStarted,
    PartEnded,
    PartStarted,
)
from translation.representation.items import HOSTED_CALL_KINDS
from translation.representation.json_types import Item

_CONTEXT_TYPES: Final = frozenset({"compaction", "mcp_list_tools"})
"""Types of items that the gateway makes itself: they stay if the round that follows is sampled again."""

_REPEATABLE_TYPES: Final = frozenset({*HOSTED_CALL_KINDS, *_CONTEXT_TYPES, "reasoning"})
"""Types of items of a round that may be sampled again: clients do nothing with them but show them."""


class SentOutput:
    """The items of a reply as far as they were sent. `events` are the sent events, from the start of the reply."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._states: list[ItemState] = []
        self._open_items: set[int] = set()
        self._open_parts: dict[tuple[int, int], None] = {}
        self._has_text: set[int] = set()
        for event in events:
            self._take(event)

    @property
    def item_count(self) -> int:
        """The number of items that were begun."""
        return len(self._states)

    def has_ended(self, index: int) -> bool:
        """Whether the item at this index was sent whole."""
        return index < len(self._states) and index not in self._open_items

    def whole_items(self, before: int) -> list[Item]:
        """Returns the whole items at indexes below `before`; lists of tools and compactions wherever they are."""
        return [
            state.snapshot()
            for index, state in enumerate(self._states)
            if self.has_ended(index) and (index < before or state.type in _CONTEXT_TYPES)
        ]

    def may_be_repeated(self, since: int) -> bool:
        """Whether the round whose items begin at the index `since` may be sampled again.

        It may not once clients have text of its answer, or a call that they may run: they would get it twice.
        """
        return all(
            state.type in _REPEATABLE_TYPES or (state.type == "message" and index not in self._has_text)
            for index, state in enumerate(self._states)
            if index >= since
        )

    def build_end_events(self, spared: Container[int]) -> Sequence[Event]:
        """Returns the events that end open items as incomplete, except those at the indexes `spared`."""
        events: list[Event] = []
        for index in sorted(self._open_items):
            if index in spared:
                continue
            state = self._states[index]
            events += [
                PartEnded(index, part_index, state.parts[part_index].snapshot())
                for item_index, part_index in self._open_parts
                if item_index == index
            ]
            events.append(ItemEnded(index, {**state.snapshot(), "status": "incomplete"}, "incomplete"))
        return events

    def _take(self, event: Event) -> None:
        match event:
            case ItemStarted():
                self._open_items.add(len(self._states))
                self._states.append(ItemState(event.item))
            case PartStarted():
                self._open_parts[event.index, event.part_index] = None
                self._states[event.index].start_part(event.part)
                self._record_text(event.index, event.part.get("text") or event.part.get("refusal"))
            case Delta():
                self._states[event.index].add_delta(event)
                self._record_text(event.index, event.text)
            case Annotated():
                self._states[event.index].part_at(event.part_index).annotations.append(event.annotation)
            case PartEnded():
                if event.part_index is not None:
                    self._open_parts.pop((event.index, event.part_index), None)
                self._states[event.index].end_part(event.part_index, event.part)
            case ItemEnded():
                self._open_items.discard(event.index)
                self._states[event.index].end(event.item, event.status)
            case _:
                pass

    def _record_text(self, index: int, text: str | None) -> None:
        if text:
            self._has_text.add(index)
