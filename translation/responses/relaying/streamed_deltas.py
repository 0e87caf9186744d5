"""Compares the final texts of a relayed Responses stream with the deltas before them, which are forwarded unparsed."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from translation.errors import ProtocolViolation
from translation.representation.items import text_of
from translation.representation.json_types import Item, Json
from translation.representation.streamed_text import find_rest
from translation.responses.item_forms import is_blank
from translation.responses.item_places import StreamedItem, build_streamed_item, find_places
from translation.responses.relaying.beginnings import Beginnings, read_output_index
from translation.responses.relaying.restored_events import (
    PLACES_BY_TYPE,
    build_address,
    build_delta,
    build_item_beginning,
    build_part,
    build_part_beginning,
    build_text_end,
    build_text_events,
    copy_place,
    list_whole_texts,
)
from translation.responses.upstream.output import TEXT_PLACES, TextPlace
from translation.tools.arguments import is_same_json

_PLACES: Final = {prefix: place for prefix, place in TEXT_PLACES.items() if place.item_type != "reasoning"}
"""Thinking is shown as it was streamed, and not compared."""

DELTA_EVENTS: Final = {f"{prefix}.delta": prefix for prefix in _PLACES}
"""Types of the events whose texts are compared -> the prefix of the type."""

DONE_EVENTS: Final = {f"{prefix}.done": prefix for prefix in _PLACES}
"""Types of the events that end such a text -> the prefix of the type."""

PART_PREFIXES: Final = {place.part_type: prefix for prefix, place in _PLACES.items() if place.part_type}
"""Type of a part that `PART_DONE` ends -> the prefix of the events of its text."""

_PAYLOADS_PER_READ: Final = 64
"""So many payloads are kept until they are read together, which costs less than to parse each."""

_MAX_COMPARED_TEXTS: Final = 32
"""Beside so many open texts, a text without deltas is not looked for among them: that takes time of other requests."""

_ENDED_TWICE: Final = "the upstream ended a text twice, with two different texts"
_LACKS_TEXT: Final = "the upstream's final output lacks a text that it streamed"

_DELTA: Final = re.compile(rb'"delta": ?("(?:[^"\\]++|\\.)*+")')
_MARKS: Final = re.compile(rb'"(?:output|content)_index": ?[0-9]+[,}]|"type": ?"[^"]+"')
"""Matches what tells the text of an event."""

_TextsKey: TypeAlias = tuple[str, int]
"""The prefix of the events, and the output index."""


class Restored(NamedTuple):
    """What is restored of a text whose end or item the stream gives."""

    events: list[Json]
    """Events for what its deltas lacked, without their sequence numbers."""
    is_filled: bool = False
    """Whether an empty whole text now is the streamed one."""


NOTHING_RESTORED: Final = Restored([])


class _Pair(NamedTuple):
    position: int
    """The index of a streamed text, as its events number it."""
    streamed: str
    whole_position: int
    """The index of the whole text in its item."""


class _ItemTexts:
    """The streamed texts of one kind and one item, in their order."""

    def __init__(self, item_id: Any, *, is_json: bool) -> None:
        self.item_id = item_id
        self.texts: dict[int, list[str]] = {}
        """Index of a part, as the upstream numbers it -> the pieces of its text."""
        self.ended: set[int] = set()
        """The indexes whose texts were ended by an event of their own."""
        self.has_other_form = False
        """Whether a whole text was another form of a streamed one."""
        self._is_json = is_json
        self._pieces: list[str] = []

    @property
    def joined(self) -> str:
        """All texts in one, in the order in which their pieces came."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def add(self, position: int, text: str) -> None:
        self.texts.setdefault(position, []).append(text)
        self._pieces.append(text)

    def read_text(self, position: int) -> str:
        """Returns the text of one part so far."""
        self.texts[position] = ["".join(self.texts[position])]
        return self.texts[position][0]

    def find_rest(self, streamed: str, whole: Any) -> str:
        """Returns what a whole text has after a streamed one. Raises ProtocolViolation if it is another text."""
        if whole == streamed or is_blank(whole):
            return ""
        rest = find_rest(streamed, whole)
        is_other_form = rest is not None and (rest.is_normalized or rest.lacks_thought)
        if rest is not None and not (is_other_form and self._is_json):
            self.has_other_form |= is_other_form
            return rest.text
        if self._is_json and is_same_json(streamed, whole):
            return ""
        raise ProtocolViolation("the upstream's final text differs from the text that it streamed")

    def may_begin(self, whole: str) -> bool:
        """Returns whether all texts in one may be a text, or its beginning."""
        streamed = self.joined
        first = streamed[:1] + whole[:1]
        if len(first) == 2 and first.isascii() and first.isalnum() and first[0] != first[1]:
            return False  # plain letters have one form, and are no part of a tag around thinking
        return find_rest(streamed, whole) is not None

    def pair(self, whole_positions: Sequence[int]) -> list[_Pair]:
        """Returns the streamed texts, each with the whole one that it belongs to.

        Some upstreams number the parts of a response, or its deltas, and not the parts of an item. Then the texts
        belong to the parts in their order; to a single part belong all. Raises ProtocolViolation if there are fewer
        parts than texts.
        """
        positions = list(self.texts)
        if self.texts.keys() <= set(whole_positions):
            return [_Pair(position, self.read_text(position), position) for position in positions]
        if len(whole_positions) == 1:
            return [_Pair(positions[-1], self.joined, whole_positions[0])]
        if any(self.read_text(position).strip() for position in positions[len(whole_positions) :]):
            raise ProtocolViolation(_LACKS_TEXT)
        pairs = zip(positions, whole_positions, strict=False)
        return [_Pair(position, self.read_text(position), whole_position) for position, whole_position in pairs]


class StreamedDeltas:
    """What the deltas of one stream held so far, text by text.

    Clients may read the deltas, the events that end a text, the items or the whole response. What a whole text has
    beyond its deltas is returned as further events, all of it if there was no delta. A whole text that is empty gets
    what was streamed.
    """

    def __init__(self) -> None:
        self._unread: list[bytes] = []
        self._texts: dict[_TextsKey, _ItemTexts] = {}
        self._ended_items: dict[tuple[int, str], StreamedItem] = {}
        self._ended_calls: set[tuple[int, Any]] = set()
        """The output indexes and the ids of the calls that ended: several may have one index."""
        self.beginnings = Beginnings()
        """The items and parts that the stream has begun."""
        self.has_other_form = False
        """Whether the upstream ended a text with another form of it. Clients get both, each where the upstream sent it.
        """

    @property
    def has_texts(self) -> bool:
        return bool(self._unread or self._texts)

    def add(self, payload: bytes) -> None:
        """Adds the payload of an event with a delta."""
        self._unread.append(payload)
        if len(self._unread) == _PAYLOADS_PER_READ:
            self._read()

    def end_text(self, prefix: str, event: Json, holder: Json, *, is_first: bool) -> Restored:
        """Takes the event that ends a text, or the part with it, and compares the whole text in `holder` with its
        deltas. `is_first` says that no event can have ended the text before.

        Raises ProtocolViolation if the deltas, or the event that ended the text, had another text.
        """
        self._read()
        place = _PLACES[prefix]
        index, position = read_output_index(event), _position_of(place, event)
        texts = self._texts.get((prefix, index))
        whole = holder.get(place.text_key)
        if texts is None or position not in texts.texts:
            if not isinstance(whole, str) or is_blank(whole) or not self._is_new(prefix, index, position, whole):
                return NOTHING_RESTORED
            return self._begin_text(prefix, event, position, whole, is_first=is_first)
        streamed = texts.read_text(position)
        if is_blank(whole):
            return Restored([], _fill_text(holder, place, streamed))
        if not is_first and len(texts.texts) > 1 and isinstance(whole, str) and texts.may_begin(whole):
            return NOTHING_RESTORED  # the item tells whether these are several texts
        rest = texts.find_rest(streamed, whole)
        self.has_other_form |= texts.has_other_form
        if rest and position in texts.ended and not is_first:
            raise ProtocolViolation(_ENDED_TWICE)
        texts.ended.add(position)
        if not rest:
            return NOTHING_RESTORED
        texts.add(position, rest)
        return Restored([build_delta(prefix, copy_place(event), rest)])

    def end_item(self, index: int, item: Item) -> Restored:
        """Takes a whole item. Returns the events of deltas that its texts lacked, without their sequence numbers.

        Raises ProtocolViolation if the deltas, or the events that ended the texts, had another text.
        """
        self._read()
        kind = str(item.get("type"))
        restored = self._end_texts(index, item, item.get("id"))
        self._ended_items[index, kind] = build_streamed_item(index, kind, item.get("id"))
        self._ended_calls.add((index, str(item.get("call_id"))))
        return restored

    def list_open_items(self) -> list[StreamedItem]:
        """Returns the items whose texts have begun, but not ended."""
        return [item for key, item in self._find_open_items().items() if key not in self._ended_items]

    def build_open_items(self) -> list[tuple[int, Item]]:
        """Returns the items that have begun, but not ended, as far as they were streamed, with their output indexes."""
        items: list[tuple[int, Item]] = []
        for index, kind, _ in self.list_open_items():
            if (begun := self.beginnings.find_item(index, kind)) is None:
                continue
            item: Item = {**begun, "status": "incomplete"}
            for prefix, place in PLACES_BY_TYPE.get(kind, ()):
                texts = self._texts.get((prefix, index))
                if texts is not None and not place.list_key:
                    item[place.text_key] = texts.joined
            self._fill_parts(index, item)
            items.append((index, item))
        return items

    def _find_open_items(self) -> dict[tuple[int, str], StreamedItem]:
        self._read()
        open_items: dict[tuple[int, str], StreamedItem] = {}
        for (prefix, index), texts in self._texts.items():
            kind = _PLACES[prefix].item_type
            open_items[index, kind] = build_streamed_item(index, kind, texts.item_id)
        return open_items

    def end_stream(self, output: Sequence[Item]) -> list[Json]:
        """Takes the whole output. Returns the events of deltas that texts lacked whose items have not ended, and fills
        the texts that the output lacks.

        Raises ProtocolViolation if these texts were other ones, or the output has no item for them.
        """
        open_items = self._find_open_items()
        if not open_items:
            return []
        places = find_places(output, (open_items | self._ended_items).values())
        events: list[Json] = []
        for item, place in places.items():
            if (item.output_index, item.type) not in open_items:
                continue
            final = output[place]
            # Further events of an item have the id that its first ones had.
            item_id = item.id or final.get("id")
            events += self._end_texts(item.output_index, final, item_id).events
        if any(texts.joined.strip() for texts in self._texts.values()):
            raise ProtocolViolation(_LACKS_TEXT)
        return events

    def _end_texts(self, index: int, item: Item, item_id: Any) -> Restored:
        """Compares the texts of an item with the whole item, and forgets them. Returns what `end_item` returns."""
        events: list[Json] = []
        is_filled = self._fill_parts(index, item)
        at = build_address(index, item_id)
        for prefix, place in _PLACES.items():
            if place.item_type != item.get("type"):
                continue
            holders = dict(list_whole_texts(item, place))
            if (texts := self._texts.pop((prefix, index), None)) is not None:
                for pair in texts.pair(list(holders)):
                    holder = holders.pop(pair.whole_position)
                    if is_blank(whole := holder.get(place.text_key)):
                        is_filled |= _fill_text(holder, place, pair.streamed)
                        continue
                    rest = texts.find_rest(pair.streamed, whole)
                    self.has_other_form |= texts.has_other_form
                    if not rest:
                        continue
                    if pair.position in texts.ended:
                        raise ProtocolViolation(_ENDED_TWICE)
                    position = {place.position_key: pair.position} if place.position_key else {}
                    events.append(build_delta(prefix, at | position, rest))
            events += self._begin_texts(prefix, index, item, holders)
        return Restored(events, is_filled)

    def _begin_texts(self, prefix: str, index: int, item: Item, holders: Mapping[int, Json]) -> list[Json]:
        """Returns the events of the texts of an item that had no delta, by their positions, and of the item's beginning
        if there was none."""
        events: list[Json] = []
        place = _PLACES[prefix]
        if place.item_type not in PLACES_BY_TYPE:
            return []
        for position, holder in holders.items():
            whole = holder.get(place.text_key)
            if not isinstance(whole, str) or is_blank(whole):
                continue
            if not self._is_new(prefix, index, position, whole, str(item.get("call_id"))):
                continue
            if not self.beginnings.has_item(index, item):
                events.append(build_item_beginning(index, item))
                self.beginnings.add_event(events[-1])
            has_part = self.beginnings.has_part(index, position)
            events += build_text_events(prefix, index, item, position, has_part=has_part)
        return events

    def _fill_parts(self, index: int, item: Item) -> bool:
        """Gives a message without any part those that were streamed. Returns whether there were any."""
        if item.get("type") != "message" or item.get("content"):
            return False
        texts = {
            position: build_part(place, texts.read_text(position))
            for prefix, place in PLACES_BY_TYPE["message"]
            if (texts := self._texts.get((prefix, index))) is not None
            for position in texts.texts
        }
        if not any(text_of("message", part).strip() for part in texts.values()):
            return False
        item["content"] = [part for _, part in sorted(texts.items())]
        return True

    def _is_new(self, prefix: str, index: int, position: int, whole: str, call_id: str | None = None) -> bool:
        """Returns whether a whole text without deltas is one that the client does not have.

        Some upstreams number a text otherwise when they end it. `call_id` is that of its item, if the item is known.
        """
        place = _PLACES[prefix]
        has_ended = (index, place.item_type) in self._ended_items
        if has_ended and (call_id is None or (index, call_id) in self._ended_calls):
            return False
        if len(self._texts) > _MAX_COMPARED_TEXTS or self.beginnings.has_text(index, place, position):
            return False
        return not any(kind == prefix and texts.may_begin(whole) for (kind, _), texts in self._texts.items())

    def _begin_text(self, prefix: str, event: Json, position: int, whole: str, *, is_first: bool) -> Restored:
        """Returns the events of a whole text that had no delta; none if its item has not begun, which then has it."""
        place, index = _PLACES[prefix], read_output_index(event)
        if not self.beginnings.has_item(index):
            return NOTHING_RESTORED
        at = copy_place(event) | ({place.position_key: position} if place.position_key else {})
        events: list[Json] = []
        if place.list_key and not self.beginnings.has_part(index, position):
            events.append(build_part_beginning(place, at))
            self.beginnings.add_event(events[0])
        self._add_text(prefix, index, event.get("item_id"), position, whole)
        self._texts[prefix, index].ended.add(position)
        events.append(build_delta(prefix, at, whole))
        return Restored(events if is_first else [*events, build_text_end(prefix, at, event["part"])])

    def _read(self) -> None:
        """Reads the payloads that wait. Raises ProtocolViolation for one that is no event."""
        payloads, self._unread = self._unread, []
        if not payloads:
            return
        joined = b"\n".join(payloads)
        strings = _DELTA.findall(joined)
        try:
            # Nearly always all payloads are of one text. A quote inside JSON text is escaped, so no text has a mark.
            marks = _MARKS.findall(payloads[0])
            if len(strings) == len(payloads) and all(joined.count(mark) == len(payloads) for mark in marks):
                self._add(orjson.loads(payloads[0]), orjson.loads(b"[%b]" % b",".join(strings)))
                return
            for payload in payloads:
                event = orjson.loads(payload)
                self._add(event, [event["delta"]])
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise ProtocolViolation("the upstream sent an event that is not JSON of the Responses API") from error

    def _add(self, event: Json, texts: list[str]) -> None:
        prefix = DELTA_EVENTS[event["type"]]
        position = _position_of(_PLACES[prefix], event)
        self._add_text(prefix, read_output_index(event), event.get("item_id"), position, "".join(texts))

    def _add_text(self, prefix: str, index: int, item_id: Any, position: int, text: str) -> None:
        if (item_texts := self._texts.get((prefix, index))) is None:
            is_json = _PLACES[prefix].text_key == "arguments"
            item_texts = self._texts[prefix, index] = _ItemTexts(item_id, is_json=is_json)
        item_texts.add(position, text)


def _position_of(place: TextPlace, event: Json) -> int:
    """Returns the index of an event's part in its item, 0 if it has none."""
    position = event.get(place.position_key)
    return position if isinstance(position, int) else 0


def _fill_text(holder: Json, place: TextPlace, streamed: str) -> bool:
    """Puts a streamed text where a whole one is empty. Returns whether it shows anything."""
    if is_blank(streamed):
        return False
    holder[place.text_key] = streamed
    return True
