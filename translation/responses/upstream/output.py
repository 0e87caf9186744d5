"""Tracks the items and parts of a Responses upstream's output, and turns its stream events into ours.

Does not know lifecycle events, usage or errors.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from translation.errors import ProtocolViolation
from translation.representation import items
from translation.representation.events import (
    Annotated,
    Event,
    ItemEnded,
    ItemStarted,
    ItemStatus,
    PartEnded,
)
from translation.representation.items import TEXT_FIELDS, NewId
from translation.representation.json_types import Item, Json
from translation.responses.item_forms import check_names, complete_item
from translation.responses.item_places import StreamedItem, find_places
from translation.responses.upstream.output_items import (
    DisplacedItems,
    OutputItem,
    TextState,
    build_delta_events,
    build_missing_text,
    compare_displaced_text,
    compare_ended_texts,
    end_part,
    end_parts,
    find_stray_part,
    is_repeated,
    join_parts,
    keep_streamed_text,
    keep_streamed_texts,
    list_parts,
    refuse_displaced_delta,
    remove_nulls,
    start_part,
)


class TextPlace(NamedTuple):
    """The place of an event's text: a part in an item's list, or the item itself.

    `text_key` is the key of the whole text, `position_key` the event's key for the index in the list. A text of the
    item itself has no part type, list and position: they are empty.
    """

    item_type: str
    part_type: str
    text_key: str
    list_key: str
    position_key: str


def _text_place(item_type: str, part_type: str | None, key: str) -> TextPlace:
    if part_type is None:
        return TextPlace(item_type, "", key, "", "")
    if part_type == "summary_text":
        return TextPlace(item_type, part_type, key, "summary", "summary_index")
    return TextPlace(item_type, part_type, key, "content", "content_index")


TEXT_PLACES: dict[str, TextPlace] = {
    text_field.event_prefix: _text_place(*types, text_field.key) for types, text_field in TEXT_FIELDS.items()
}
"""Event type without `.delta` or `.done` -> where its text belongs."""


_ITEM_FACTORIES = {"message": items.new_message, "reasoning": items.new_reasoning}

PART_FACTORIES = {
    "output_text": items.new_output_text,
    "refusal": items.new_refusal,
    "reasoning_text": items.new_reasoning_text,
    "summary_text": items.new_summary_text,
}
"""Type of a part -> the function that builds an empty one."""


class OutputReader:
    """Returns our events for the upstream's events about one output.

    Items are identified by the upstream's `output_index` and numbered from 0 without gaps. Upstreams omit some or all
    of the events around a text, and some change an item's id between events. Missing events are added and repeated ones
    are dropped. If an item takes the index of another one, that one ends, and what the upstream still sends about it is
    only compared with what was streamed. Every method takes one upstream event as `chunk`, and raises AttributeError,
    KeyError, TypeError or ValueError if it is malformed.
    """

    def __init__(self, new_id: NewId) -> None:
        self.has_calls = False
        """Whether the model called a tool that the client runs."""
        self._new_id = new_id
        self._items: dict[int, OutputItem] = {}
        self._displaced: DisplacedItems | None = None
        """The items whose output index another item took. None until there is one, as in almost every output."""
        self._last_index = 0
        self._reused_index: int | None = None
        """The output index of the last item that the upstream added at the place of another one."""
        self._count = 0

    def find_item(self, chunk: Json) -> OutputItem | None:
        """Returns the item that an event is about, `None` if it was not started."""
        item = self._items.get(self._output_index(chunk))
        return item if self._displaced is None else self._displaced.find_owner(chunk, item) or item

    def read_delta(self, place: TextPlace, chunk: Json) -> list[Event]:
        """Reads an event with a piece of text."""
        item = self._items.get(self._output_index(chunk))
        if self._displaced is not None and self._displaced.find_owner(chunk, item) is not None:
            return refuse_displaced_delta(chunk.get("delta"))
        if item is not None:
            text = (
                item.own_text
                if not place.list_key
                else item.texts.get((place.list_key, chunk.get(place.position_key, 0)))
            )
            if text is not None:
                return build_delta_events(text, chunk.get("delta"), chunk.get("logprobs"))
        if not place.part_type:
            return []  # a call that was not started has no name yet: the event that ends it has everything
        events, text = self._ensure_text(place, chunk)
        deltas = build_delta_events(text, chunk.get("delta"), chunk.get("logprobs"))
        if deltas:
            text.numbered.setdefault(chunk.get(place.position_key, 0), []).append(chunk["delta"])
        return events + deltas

    def end_text(self, place: TextPlace, chunk: Json) -> list[Event]:
        """Reads an event that ends a text and repeats the whole of it."""
        item = self.find_item(chunk)
        if item is not None and item.is_displaced:
            number = chunk.get(place.position_key, 0)
            return compare_displaced_text(item, place.list_key, number, place.text_key, chunk)
        if not place.part_type:
            if item is None or not item.own_text.is_open:
                return []
            whole = {place.text_key: chunk.get(place.text_key)}
            events = build_missing_text(item.own_text, whole)
            whole = keep_streamed_text(item.own_text, whole)
            item.own_text.is_open = False
            return [*events, PartEnded(item.index, None, whole if isinstance(whole[place.text_key], str) else None)]
        if item is not None and item.is_open:
            position = chunk.get(place.position_key, 0)
            if is_repeated(item, place.list_key, position, chunk.get(place.text_key)):
                return []
            if (text := item.texts.get((place.list_key, position))) is not None:
                text.is_repeated = True
                return build_missing_text(text, chunk)
        events, text = self._ensure_text(place, chunk)
        return events + build_missing_text(text, chunk)

    def start_item(self, chunk: Json) -> list[Event]:
        """Reads an event that adds an item."""
        output_index, item = self._output_index(chunk), chunk["item"]
        known = self._items.get(output_index)
        if self._displaced is not None and self._displaced.is_repetition(item, known):
            return []
        if known is not None:
            if known.is_open and (known.type, known.start.get("call_id")) == (item["type"], item.get("call_id")):
                return []
            if not known.is_open and known.start["id"] == item.get("id"):
                return []
        return self._take_place(output_index, item)

    def end_item(self, chunk: Json) -> list[Event]:
        """Reads an event that ends an item and has the whole of it."""
        output_index, item = self._output_index(chunk), chunk["item"]
        known = self._items.get(output_index)
        displaced = None if self._displaced is None else self._displaced.find_same(item, known)
        if displaced is not None:
            displaced.is_done = True
            return compare_ended_texts(displaced, item)
        if known is None or known.type != item["type"] or not (known.is_open or known.start["id"] == item.get("id")):
            return self.add_item(item, output_index)
        return self._end_item(known, item, "completed")

    def add_item(self, item: Item, output_index: int) -> list[Event]:
        """Starts and ends an item that is complete and had no events before."""
        start = {**item, "status": "in_progress"} if "status" in item else item
        events = self._take_place(output_index, start)
        return events + self._end_item(self._items[output_index], item, "completed")

    def start_part(self, list_key: str, chunk: Json) -> list[Event]:
        """Reads an event that adds a part to the item's list under `list_key`."""
        part = chunk["part"]
        return self._ensure_part(list_key, _position(chunk), part, chunk, is_announced=True)[0]

    def end_part(self, list_key: str, chunk: Json) -> list[Event]:
        """Reads an event that ends a part in the item's list under `list_key`, and has the whole of it."""
        part, position = chunk["part"], _position(chunk)
        item = self.find_item(chunk)
        text_field = None if item is None else TEXT_FIELDS.get((item.type, part.get("type")))
        if item is not None and text_field is not None:
            if item.is_displaced:
                return compare_displaced_text(item, list_key, position, text_field.key, part)
            if item.is_open and is_repeated(item, list_key, position, part.get(text_field.key)):
                return []
        events, text = self._ensure_part(list_key, position, part, chunk)
        return events + end_part(text, part)

    def annotate(self, chunk: Json) -> list[Event]:
        """Reads an event that adds a citation to a text."""
        events, text = self._ensure_text(TEXT_PLACES["response.output_text"], chunk)
        annotation = chunk.get("annotation")
        if not text.is_open or text.part_index is None or not isinstance(annotation, dict):
            return events
        text.annotations.append(annotation)
        return [*events, Annotated(text.index, text.part_index, annotation)]

    def finish(self, output: Sequence[Item], status: ItemStatus) -> list[Event]:
        """Ends the turn, whose whole output is `output`: ends every open item, and adds those without any event.

        `status` is that of items which are not in `output`.
        """
        events: list[Event] = []
        streamed = self._list_streamed()
        places = find_places(output, [streamed_item for streamed_item, _ in streamed])
        count = self._count
        for streamed_item, item in streamed:
            place = places.get(streamed_item)
            final = None if place is None else output[place]
            if output and final is None and item.is_open and item.has_text:
                raise ProtocolViolation("the upstream's final output lacks an item that it streamed")
            if final is not None and item.is_open and len(output) == count:
                final = {**final, "id": item.start["id"]}  # some upstreams change an item's id
            same = final is not None and final.get("id") == item.start["id"]
            if final is not None and same:
                events += compare_ended_texts(item, final)
            events += self._end_item(item, final if same else None, status)
            if final is not None and not same and len(output) == count:
                events += compare_ended_texts(item, final)
        if len(output) > count:
            has_thought_in_text = any(item.has_thought_in_text for _, item in streamed)
            for place, final in enumerate(output):
                if place not in places.values() and not (has_thought_in_text and final.get("type") == "reasoning"):
                    events += self.add_item(final, place)
        return events

    def _output_index(self, chunk: Json) -> int:
        output_index = chunk.get("output_index")
        self._last_index = self._last_index if output_index is None else output_index
        return self._last_index

    def _list_streamed(self) -> list[tuple[StreamedItem, OutputItem]]:
        """Returns all items with their places."""
        numbered: Iterable[tuple[int, OutputItem]] = self._items.items()
        if self._displaced is not None:
            # An index that several items had is the place of one of them at most, so all are numbered as they came.
            numbered = sorted((item.index, item) for item in [*self._displaced.items, *self._items.values()])
        return [(StreamedItem(place, item.type, str(item.start["id"])), item) for place, item in numbered]

    def _take_place(self, output_index: int, item: Item) -> list[Event]:
        """Starts an item, and ends the one that had its output index."""
        known = self._items.get(output_index)
        if known is None:
            return self._start_item(output_index, item)
        self._reused_index = output_index
        if self._displaced is None:
            self._displaced = DisplacedItems()
        self._displaced.add(known)
        return self._end_item(known, None, "completed") + self._start_item(output_index, item)

    def _start_item(self, output_index: int, item: Item) -> list[Event]:
        if not isinstance(item["type"], str):
            raise TypeError("the type of an item is not a string")
        index = self._count
        self._count += 1
        check_names(item)
        self.has_calls = self.has_calls or item["type"] in items.CALL_TYPES
        start = remove_nulls(item)
        if not start.get("id"):
            start["id"] = self._new_id(items.ID_PREFIXES.get(item["type"], "item"))
        if self._displaced is not None:
            self._displaced.free_id(start)
        if item["type"] == "message":
            start.setdefault("role", "assistant")
        text_field = TEXT_FIELDS.get((item["type"], None))
        if text_field is not None and start.setdefault(text_field.key, ""):
            start[text_field.key] = ""
        for list_key in ("content", "summary"):
            if list_parts(start, list_key):
                start[list_key] = []
        self._items[output_index] = OutputItem(index, start, TextState(index, None, text_field and text_field.key))
        return [ItemStarted(index, start)]

    def _ensure_text(self, place: TextPlace, chunk: Json) -> tuple[list[Event], TextState]:
        """Returns the text that an event is about, and the events that start it if the upstream sent none."""
        part = PART_FACTORIES[place.part_type]()
        return self._ensure_part(place.list_key, chunk.get(place.position_key, 0), part, chunk)

    def _ensure_part(
        self, list_key: str, position: int, part: Json, chunk: Json, *, is_announced: bool = False
    ) -> tuple[list[Event], TextState]:
        events: list[Event] = []
        item = self.find_item(chunk) or self._move_item(part)
        if item is None:
            item_type = "reasoning" if part.get("type") in ("reasoning_text", "summary_text") else "message"
            item_id = chunk.get("item_id") or self._new_id(items.ID_PREFIXES[item_type])
            events += self._start_item(self._last_index, _ITEM_FACTORIES[item_type](item_id))
            item = self._items[self._last_index]
        elif not item.is_open:
            return [], TextState(item.index, None, None, is_open=False)
        text = item.texts.get((list_key, position))
        if text is None and not is_announced:
            text = find_stray_part(item, list_key, part)
        if text is None:
            started, text = start_part(item, list_key, position, part)
            text.is_announced = is_announced
            events += started
        return events, text

    def _move_item(self, part: Json) -> OutputItem | None:
        """Moves an item that was added at the place of another one to the output index that its events have.

        Some versions of vLLM count an item only after they added it. Returns None if there is no such item.
        """
        reused, self._reused_index = self._reused_index, None
        item = None if reused is None else self._items.get(reused)
        if reused is None or item is None or not item.is_open or item.texts:
            return None
        if (item.type, part.get("type")) not in TEXT_FIELDS:
            return None
        del self._items[reused]
        self._items[self._last_index] = item
        return item

    def _end_item(self, item: OutputItem, final: Item | None, status: ItemStatus) -> list[Event]:
        """Ends an item and all its texts. Returns no event if it has ended."""
        item.is_done = item.is_done or final is not None
        if not item.is_open:
            return []
        item.is_open = False
        final = None if final is None else join_parts(item, final)
        events: list[Event] = []
        for list_key in ("summary", "content"):
            events += end_parts(item, list_key, list_parts(final or {}, list_key))
        for text in item.texts.values():
            events += end_part(text, None)
        events += build_missing_text(item.own_text, final or {})
        if item.own_text.pieces and item.own_text.is_open:
            events.append(PartEnded(item.index, None))
        item.own_text.is_open = False
        if final is not None:
            status = "incomplete" if final.get("status") == "incomplete" else "completed"
            final = complete_item(keep_streamed_texts(item, remove_nulls(final)))
            if not final.get("id"):
                final = {**final, "id": item.start["id"]}
        events.append(ItemEnded(item.index, final, status))
        return events


def _position(chunk: Json) -> int:
    position: int = chunk["summary_index"] if "summary_index" in chunk else chunk.get("content_index", 0)
    return position
