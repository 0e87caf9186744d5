"""Adds up the events of one turn: deltas become parts, parts become items."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    ItemStatus,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
    Started,
    Usage,
)
from translation.representation.json_types import Item, Json
from translation.representation.text_fields import text_field_of

_PART_LIST_KEYS = {"summary_text": "summary"}
"""Part type -> the item's key for the list such parts are in; every other type is in `content`."""


class PartState:
    """One growing text: a part, or the item itself (arguments, input, code)."""

    __slots__ = ("_final", "_key", "_logprobs", "_texts", "annotations", "append", "start")

    def __init__(self, start: Json, key: str | None) -> None:
        self.start = start
        self._key = key
        self._texts = texts = [start.get(key) or "" if key else ""]
        self._logprobs: list[Json] = [*given] if (given := start.get("logprobs")) else []
        self.annotations: list[Json] = [*given] if (given := start.get("annotations")) else []
        self._final: Json | None = None
        self.append = texts.append
        """Takes more text. The list's own method, because it is called for every delta."""

    def add_logprobs(self, logprobs: Iterable[Json]) -> None:
        self._logprobs += logprobs

    @property
    def text(self) -> str:
        """Everything so far."""
        texts = self._texts
        if len(texts) > 1:
            texts[:] = ["".join(texts)]
        return texts[0]

    @property
    def logprobs(self) -> list[Json]:
        """Of every token so far, where the upstream sent them."""
        return self._logprobs

    def end(self, final: Json | None) -> Json:
        """The text is complete. `final` is the upstream's own object, if it sent one. Gives the `snapshot`."""
        self._final = self.snapshot() if final is None else final
        return self._final

    def snapshot(self) -> Json:
        """The whole object as it is now; once ended, as it was then, or the upstream's own object if it sent one."""
        if self._final is not None:
            return self._final
        whole = dict(self.start)
        if self._key is not None:
            whole[self._key] = self.text
        if self.annotations or "annotations" in whole:
            whole["annotations"] = self.annotations.copy()
        if self._logprobs or "logprobs" in whole:
            whole["logprobs"] = self._logprobs.copy()
        return whole


class ItemState:
    """One item from `ItemStarted` to `ItemEnded`. Never changes the objects the events carry."""

    __slots__ = ("_final", "_own_text", "parts", "start", "type")

    def __init__(self, start: Item) -> None:
        self.start = start
        self.type: str = start["type"]
        self.parts: list[PartState] = []
        channel = text_field_of((self.type, None))
        self._own_text = None if channel is None else PartState(start, channel.key)
        self._final: Item | None = None

    @property
    def own_text(self) -> PartState:
        """The item's own text. Few types have one; what is said of it in others leads nowhere."""
        if self._own_text is None:
            self._own_text = PartState(self.start, None)
        return self._own_text

    def start_part(self, part: Json) -> PartState:
        channel = text_field_of((self.type, part.get("type")))
        state = PartState(part, channel and channel.key)
        self.parts.append(state)
        return state

    def end_part(self, part_index: int | None, final: Json | None) -> Json:
        """A text is complete. `final` is the upstream's own part, or for the item itself the keys it settles.

        Gives the part, or the item, as it is then.
        """
        if part_index is not None:
            return self.parts[part_index].end(final)
        return self.own_text.end(None if final is None else {**self.own_text.snapshot(), **final})

    def add_delta(self, delta: Delta) -> None:
        """Text for a part, or for the item itself."""
        part = self.own_text if delta.part_index is None else self.parts[delta.part_index]
        part.append(delta.text)
        if delta.logprobs:
            part.add_logprobs(delta.logprobs)

    def part_at(self, part_index: int | None) -> PartState:
        """The state of a part, or with None of the item's own text."""
        return self.own_text if part_index is None else self.parts[part_index]

    def end(self, final: Item | None, status: ItemStatus) -> Item:
        """The finished item: the upstream's own, if it sent one, else what the deltas add up to, with this status."""
        if final is None:
            final = self.snapshot()
            # OpenAI's reasoning items carry no status, so it is said only where it tells something.
            if "status" in final or status != "completed":
                final["status"] = status
        self._final = final
        return final

    def mark_incomplete(self) -> Item:
        """The turn broke off: an item that has not ended ends here, incomplete."""
        return self._final or self.end(None, "incomplete")

    def snapshot(self) -> Item:
        """The item as it is now."""
        if self._final is not None:
            return self._final
        whole = self.start.copy() if self._own_text is None else {**self._own_text.snapshot()}
        lists: dict[str, list[Json]] = {}
        for part in self.parts:
            name = _PART_LIST_KEYS.get(part.start.get("type", ""), "content")
            if name not in lists:
                whole[name] = lists[name] = []
            lists[name].append(part.snapshot())
        return whole


class TurnCollector:
    """The outcome of one turn. Feed it batches that satisfy the event grammar; read it after Finished or Failed."""

    def __init__(self) -> None:
        self.started: Started | None = None
        self.finished: Finished | None = None
        self.failed: Failed | None = None
        self.usage: Usage | None = None
        """The latest counts the upstream reported."""
        self.facts: Json = {}
        """Everything `Noted`, the latest word winning."""
        self._states: list[ItemState] = []

    @property
    def items(self) -> list[Item]:
        """In order of appearance. Items that were still open when the turn failed are `incomplete`."""
        return [state.snapshot() for state in self._states]

    def feed(self, batch: Sequence[Event]) -> None:
        """Take one batch."""
        for event in batch:
            match event:
                case Delta():
                    self._states[event.index].add_delta(event)
                case ItemStarted():
                    self._states.append(ItemState(event.item))
                case PartStarted():
                    self._states[event.index].start_part(event.part)
                case PartEnded():
                    self._states[event.index].end_part(event.part_index, event.part)
                case ItemEnded():
                    self._states[event.index].end(event.item, event.status)
                case Annotated():
                    self._states[event.index].part_at(event.part_index).annotations.append(event.annotation)
                case Noted():
                    self.usage = event.usage or self.usage
                    self.facts |= event.facts or {}
                case Started():
                    self.started = event
                case Finished():
                    self.finished = event
                    self.usage = event.usage or self.usage
                case Failed():
                    self.failed = event
                    self.usage = event.usage or self.usage
                    for state in self._states:
                        state.mark_incomplete()
                case Progressed() | Opaque():
                    pass  # they leave nothing in an item: where they matter, ItemEnded carries the upstream's own
                case _:
                    assert_never(event)
