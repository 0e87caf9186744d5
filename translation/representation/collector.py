"""Collects the events of one turn: deltas add up to parts, parts to items."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from translation.representation.delta_runs import TextKey, TextObserver
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
from translation.representation.items import text_field_of
from translation.representation.json_types import Item, Json

_PART_LIST_KEYS = {"summary_text": "summary"}
"""Part type -> the key of the item's list that holds such parts. Parts of any other type are in `content`."""


class PartState:
    """The state of one growing text: of a part, or of the item itself (arguments, input, code).

    `start` is the object as it was opened. `key` is the key that accumulates the text; None if the object has no text.
    """

    __slots__ = ("_final", "_key", "_logprobs", "_texts", "annotations", "append", "start")

    def __init__(self, start: Json, key: str | None) -> None:
        self.start = start
        self._key = key
        self._texts = texts = [start.get(key) or "" if key else ""]
        self._logprobs: list[Json] = [*initial] if (initial := start.get("logprobs")) else []
        self.annotations: list[Json] = [*initial] if (initial := start.get("annotations")) else []
        self._final: Json | None = None
        self.append = texts.append
        """Appends text. This is the bound method of the list itself, because it is called for every delta."""

    def add_logprobs(self, logprobs: Iterable[Json]) -> None:
        self._logprobs += logprobs

    @property
    def text(self) -> str:
        """The text so far."""
        texts = self._texts
        if len(texts) > 1:
            texts[:] = ["".join(texts)]
        return texts[0]

    @property
    def logprobs(self) -> list[Json]:
        """The log probabilities of the tokens so far; empty if the upstream sends none."""
        return self._logprobs

    def end(self, final: Json | None) -> Json:
        """Marks the text as complete and returns the final object: the upstream's own `final`, or else the snapshot."""
        self._final = self.snapshot() if final is None else final
        return self._final

    def snapshot(self) -> Json:
        """Returns a copy of the object in its current state. After `end` it returns the final object."""
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
    """The state of one item from `ItemStarted` to `ItemEnded`. It never changes the objects that the events carry."""

    __slots__ = ("_final", "_own_text", "parts", "start", "type")

    def __init__(self, start: Item) -> None:
        self.start = start
        self.type: str = start["type"]
        self.parts: list[PartState] = []
        text_field = text_field_of((self.type, None))
        self._own_text = None if text_field is None else PartState(start, text_field.key)
        self._final: Item | None = None

    @property
    def own_text(self) -> PartState:
        """The item's own text, for types with a row of part type None in `TEXT_FIELDS`.

        For any other type the deltas are collected too, but the text is in no snapshot.
        """
        if self._own_text is None:
            self._own_text = PartState(self.start, None)
        return self._own_text

    def start_part(self, part: Json) -> PartState:
        text_field = text_field_of((self.type, part.get("type")))
        state = PartState(part, text_field and text_field.key)
        self.parts.append(state)
        return state

    def end_part(self, part_index: int | None, final: Json | None) -> Json:
        """Marks one text as complete and returns the final part, or with `part_index=None` the item as it is then.

        `final` is the upstream's own part, or for the item itself the keys that replace collected ones.
        """
        if part_index is not None:
            return self.parts[part_index].end(final)
        return self.own_text.end(None if final is None else {**self.own_text.snapshot(), **final})

    def add_delta(self, delta: Delta) -> None:
        """Appends the delta's text and log probabilities to its part, or to the item itself."""
        part = self.own_text if delta.part_index is None else self.parts[delta.part_index]
        part.append(delta.text)
        if delta.logprobs:
            part.add_logprobs(delta.logprobs)

    def part_at(self, part_index: int | None) -> PartState:
        """Returns the state of a part, or with None the state of the item's own text."""
        return self.own_text if part_index is None else self.parts[part_index]

    def end(self, final: Item | None, status: ItemStatus) -> Item:
        """Ends the item and returns it: the upstream's own `final`, or else the collected item with this status."""
        if final is None:
            final = self.snapshot()
            # Reasoning items of OpenAI have no status, so only a status other than `completed` is added.
            if "status" in final or status != "completed":
                final["status"] = status
        self._final = final
        return final

    def mark_incomplete(self) -> Item:
        """Ends an item that is still open as `incomplete`, because the turn was cut off. Returns the item."""
        return self._final or self.end(None, "incomplete")

    def snapshot(self) -> Item:
        """Returns a copy of the item in its current state. After `end` it returns the final item."""
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
    """Collects the outcome of one turn.

    The batches must satisfy the event grammar. The attributes are complete after Finished or Failed.
    """

    def __init__(self) -> None:
        self.started: Started | None = None
        self.finished: Finished | None = None
        self.failed: Failed | None = None
        self.usage: Usage | None = None
        """The last token counts that the upstream reported."""
        self.facts: Json = {}
        """The facts of all `Noted` events merged; a later value replaces an earlier one."""
        self._states: list[ItemState] = []

    @property
    def items(self) -> list[Item]:
        """The items in order of appearance. Items that were still open when the turn failed are `incomplete`."""
        return [state.snapshot() for state in self._states]

    def text_appender(self, text_key: TextKey) -> TextObserver:
        """Returns the function that appends to a text of an item or a part that has started."""
        index, part_index = text_key
        return self._states[index].part_at(part_index).append

    def feed(self, batch: Sequence[Event]) -> None:
        """Adds one batch of events."""
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
                    pass  # they change no item: where they matter, ItemEnded carries the upstream's own object
                case _:
                    assert_never(event)
