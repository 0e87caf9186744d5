"""The grammar of event streams, as an automaton: tests check every stream of events with it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from translation.errors import ProtocolViolation
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
    Started,
)


@dataclass(slots=True)
class _OpenItem:
    part_count: int = 0
    open_parts: set[int] = field(default_factory=set)


class EventGrammar:
    """Checks the events of one turn in order. It raises ProtocolViolation at the first event out of order."""

    def __init__(self) -> None:
        self._started = False
        self._ended = False
        self._item_count = 0
        self._open: dict[int, _OpenItem] = {}

    def check(self, events: Iterable[Event]) -> None:
        """Checks the next events. Raises ProtocolViolation at the first one that the grammar does not allow here."""
        for event in events:
            self._check(event)

    def finish(self) -> None:
        """Raises ProtocolViolation unless the stream has ended with exactly one terminal event."""
        if not self._ended:
            raise ProtocolViolation("the stream stopped without Finished or Failed")

    def _check(self, event: Event) -> None:
        if self._ended:
            raise ProtocolViolation(f"{event} after the end")
        match event:
            case Started():
                if self._started:
                    raise ProtocolViolation("Started twice")
                self._started = True
                return
            case Failed():
                self._ended = True
                return
            case Noted() | Opaque(index=None):
                return
        if not self._started:
            raise ProtocolViolation(f"{event} before Started")
        match event:
            case ItemStarted(index=index, item=item):
                if index != self._item_count:
                    raise ProtocolViolation(f"item {index} opened, {self._item_count} expected")
                if not item.get("type") or not item.get("id"):
                    raise ProtocolViolation(f"item {index} has no type or no id")
                self._item_count += 1
                self._open[index] = _OpenItem()
            case PartStarted(index=index, part_index=part_index):
                owner = self._require_open_item(index)
                if part_index != owner.part_count:
                    raise ProtocolViolation(f"part {part_index} of item {index} opened, {owner.part_count} expected")
                owner.part_count += 1
                owner.open_parts.add(part_index)
            case Delta(index=index, part_index=part_index) | Annotated(index=index, part_index=part_index):
                self._require_open_part(index, part_index)
            case PartEnded(index=index, part_index=part_index):
                self._require_open_part(index, part_index)
                self._require_open_item(index).open_parts.discard(-1 if part_index is None else part_index)
            case ItemEnded(index=index):
                if still := self._require_open_item(index).open_parts:
                    raise ProtocolViolation(f"item {index} ended with open parts {sorted(still)}")
                del self._open[index]
            case Progressed(index=index):
                self._require_open_item(index)
            case Opaque(index=int(index)):
                if index >= self._item_count:
                    raise ProtocolViolation(f"Opaque for item {index}, which never started")
            case _:  # Finished: the others are above
                if self._open:
                    raise ProtocolViolation(f"finished with open items {sorted(self._open)}")
                self._ended = True

    def _require_open_item(self, index: int) -> _OpenItem:
        try:
            return self._open[index]
        except KeyError:
            raise ProtocolViolation(f"item {index} is not open") from None

    def _require_open_part(self, index: int, part_index: int | None) -> None:
        owner = self._require_open_item(index)
        if part_index is not None and part_index not in owner.open_parts:
            raise ProtocolViolation(f"part {part_index} of item {index} is not open")
