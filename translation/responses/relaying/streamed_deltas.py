"""Compares the final texts of a relayed Responses stream with the deltas before them, which are forwarded unparsed."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import orjson

from translation.errors import ProtocolViolation
from translation.representation.json_types import Item, Json
from translation.representation.streamed_text import StreamedText
from translation.responses.item_forms import HIDES_TEXT
from translation.responses.item_places import StreamedItem, build_streamed_item, find_places
from translation.responses.upstream.output import TEXT_PLACES, TextPlace
from translation.tools.arguments import is_same_json

_PLACES: Final = {prefix: place for prefix, place in TEXT_PLACES.items() if place.item_type != "reasoning"}
"""Thinking is shown as it was streamed, and not compared."""

DELTA_EVENTS: Final = {f"{prefix}.delta": prefix for prefix in _PLACES}
"""Types of the events whose texts are compared -> the prefix of the type."""

DONE_EVENTS: Final = {f"{prefix}.done": prefix for prefix in _PLACES}
"""Types of the events that end such a text -> the prefix of the type."""

PART_DONE: Final = "response.content_part.done"
PART_PREFIXES: Final = {place.part_type: prefix for prefix, place in _PLACES.items() if place.part_type}
"""Type of a part that `PART_DONE` ends -> the prefix of the events of its text."""

_PAYLOADS_PER_READ: Final = 64
"""So many payloads are kept until they are read together, which costs less than to parse each."""

_ENDED_TWICE: Final = "the upstream ended a text twice, with two different texts"
_LACKS_TEXT: Final = "the upstream's final output lacks a text that it streamed"

_DELTA: Final = re.compile(rb'"delta": ?("(?:[^"\\]++|\\.)*+")')
_MARKS: Final = re.compile(rb'"(?:output|content)_index": ?[0-9]+[,}]|"type": ?"[^"]+"')
"""Matches what tells the text of an event."""

_TextsKey: TypeAlias = tuple[str, int]
"""The prefix of the events, and the output index."""


class _ItemTexts:
    """The streamed texts of one kind and one item, in their order."""

    def __init__(self, item_id: Any, *, is_json: bool) -> None:
        self.item_id = item_id
        self.texts: dict[int, StreamedText] = {}
        """Index of a part, as the upstream numbers it -> its text."""
        self.ended: set[int] = set()
        """The indexes whose texts were ended by an event of their own."""
        self.pieces: list[str] | None = [] if is_json else None
        """Arguments are kept, because an upstream may end them with the same JSON, written in another way."""
        self.has_other_form = False
        """Whether a whole text was another form of a streamed one."""
        self._joined = StreamedText()

    @property
    def joined(self) -> StreamedText:
        """All texts in one."""
        return self._joined if len(self.texts) > 1 else next(iter(self.texts.values()))

    def add(self, position: int, text: str) -> None:
        streamed = self.texts.get(position)
        if streamed is None:
            if len(self.texts) == 1:
                self._joined = self.joined.copy()
            streamed = self.texts[position] = StreamedText()
        streamed.add(text)
        if len(self.texts) > 1:
            self._joined.add(text)
        if self.pieces is not None:
            self.pieces.append(text)

    def find_rest(self, streamed: StreamedText, whole: Any) -> str:
        """Returns what a whole text has after a streamed one. Raises ProtocolViolation if it is another text."""
        if not isinstance(whole, str) or not whole.strip():
            return ""
        rest = streamed.find_rest(whole)
        is_other_form = rest is not None and (rest.is_normalized or rest.lacks_thought)
        if rest is not None and not (is_other_form and self.pieces is not None):
            self.has_other_form |= is_other_form
            return rest.text
        if self.pieces is not None and is_same_json("".join(self.pieces), whole):
            return ""
        raise ProtocolViolation("the upstream's final text differs from the text that it streamed")

    def may_be_one(self, whole: Any) -> bool:
        """Returns whether several texts may be pieces of one, to which the upstream gave numbers of their own."""
        return len(self.texts) > 1 and isinstance(whole, str) and self.joined.find_rest(whole) is not None

    def pair(self, wholes: dict[int, Any]) -> list[tuple[int, StreamedText, Any]]:
        """Returns (index of the part, streamed text, whole text) for the streamed texts, given the item's whole ones.

        Some upstreams number the parts of a response, or its deltas, and not the parts of an item. Then the texts
        belong to the parts in their order; to a single part belong all. Raises ProtocolViolation if there are fewer
        parts than texts.
        """
        if self.texts.keys() <= wholes.keys():
            return [(position, text, wholes[position]) for position, text in self.texts.items()]
        if len(wholes) == 1:
            return [(list(self.texts)[-1], self.joined, *wholes.values())]
        if any(text.ink_size for text in list(self.texts.values())[len(wholes) :]):
            raise ProtocolViolation(_LACKS_TEXT)
        pairs = zip(self.texts.items(), wholes.values(), strict=False)
        return [(position, text, whole) for (position, text), whole in pairs]


class StreamedDeltas:
    """What the deltas of one stream held so far, text by text.

    With `requires_texts` whole items must have the texts that were streamed, because they are stored. Otherwise an
    empty text counts as one that the upstream left out.
    """

    def __init__(self, *, requires_texts: bool = False) -> None:
        self._requires_texts = requires_texts
        self._unread: list[bytes] = []
        self._texts: dict[_TextsKey, _ItemTexts] = {}
        self._ended_items: dict[tuple[int, str], StreamedItem] = {}
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

    def end_text(self, prefix: str, event: Json) -> str:
        """Takes the event that ends a text and has the whole of it. Returns what the deltas lacked of it.

        Raises ProtocolViolation if the deltas were another text.
        """
        return self._end_text(prefix, event, event, is_first=True)

    def end_part(self, prefix: str, event: Json) -> str:
        """Takes the event that ends the part with a text and has the whole of it. Returns what the deltas lacked of it.

        Raises ProtocolViolation if the deltas, or the event that ended the text, had another text.
        """
        return self._end_text(prefix, event, event["part"], is_first=False)

    def _end_text(self, prefix: str, event: Json, holder: Json, *, is_first: bool) -> str:
        """Compares a text with the whole of it in `holder`. `is_first` says that no event can have ended it before."""
        self._read()
        place = _PLACES[prefix]
        position = _position_of(place, event)
        texts = self._texts.get((prefix, _output_index_of(event)))
        if texts is None or (streamed := texts.texts.get(position)) is None:
            return ""  # the client got no delta of this text
        whole = holder.get(place.text_key)
        if not is_first and texts.may_be_one(whole):
            return ""  # the item tells whether these are several texts
        rest = texts.find_rest(streamed, whole)
        self.has_other_form |= texts.has_other_form
        if rest and position in texts.ended and not is_first:
            raise ProtocolViolation(_ENDED_TWICE)
        texts.ended.add(position)
        if rest:
            texts.add(position, rest)
        return rest

    def end_item(self, output_index: Any, item: Item) -> list[Json]:
        """Takes a whole item. Returns the events of deltas that its texts lacked, without their sequence numbers.

        Raises ProtocolViolation if the deltas, or the events that ended the texts, had another text.
        """
        self._read()
        index = _output_index_of({"output_index": output_index})
        kind = str(item.get("type"))
        self._ended_items[index, kind] = build_streamed_item(index, kind, item.get("id"))
        return self._end_texts(index, output_index, item)

    def list_open_items(self) -> list[StreamedItem]:
        """Returns the items whose texts have begun, but not ended."""
        return [item for key, item in self._find_open_items().items() if key not in self._ended_items]

    def _find_open_items(self) -> dict[tuple[int, str], StreamedItem]:
        self._read()
        open_items: dict[tuple[int, str], StreamedItem] = {}
        for (prefix, index), texts in self._texts.items():
            kind = _PLACES[prefix].item_type
            open_items[index, kind] = build_streamed_item(index, kind, texts.item_id)
        return open_items

    def end_stream(self, output: Sequence[Item]) -> list[Json]:
        """Takes the whole output. Returns the events of deltas that texts lacked whose items have not ended.

        Raises ProtocolViolation if these texts were other ones.
        """
        open_items = self._find_open_items()
        if not output or not open_items:
            return []
        places = find_places(output, (open_items | self._ended_items).values())
        events: list[Json] = []
        for item, place in places.items():
            final = output[place] if item.id is None else {**output[place], "id": item.id}
            events += self._end_texts(item.output_index, item.output_index, final)
        if any(text.ink_size for texts in self._texts.values() for text in texts.texts.values()):
            raise ProtocolViolation(_LACKS_TEXT)
        return events

    def _end_texts(self, index: int, output_index: Any, item: Item) -> list[Json]:
        """Compares the texts of an item with the whole item, and forgets them. Returns what `end_item` returns."""
        events: list[Json] = []
        for prefix, place in _PLACES.items():
            if place.item_type != item.get("type") or (prefix, index) not in self._texts:
                continue
            wholes = dict(_texts_of(item, place))
            if not wholes:
                continue
            texts = self._texts.pop((prefix, index))
            for position, streamed, whole in texts.pair(wholes):
                if self._requires_texts and place.item_type != HIDES_TEXT and not whole and streamed.ink_size:
                    raise ProtocolViolation(_LACKS_TEXT)
                rest = texts.find_rest(streamed, whole)
                self.has_other_form |= texts.has_other_form
                if not rest:
                    continue
                if position in texts.ended:
                    raise ProtocolViolation(_ENDED_TWICE)
                at: Json = {"output_index": output_index}
                at |= {place.position_key: position} if place.position_key else {}
                at |= {"item_id": item["id"]} if isinstance(item.get("id"), str) else {}
                events.append({"type": f"{prefix}.delta", **at, "delta": rest})
        return events

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
        place = _PLACES[prefix]
        key = (prefix, _output_index_of(event))
        if (item_texts := self._texts.get(key)) is None:
            is_json = place.text_key == "arguments"
            item_texts = self._texts[key] = _ItemTexts(event.get("item_id"), is_json=is_json)
        item_texts.add(_position_of(place, event), "".join(texts))


def _output_index_of(event: Json) -> int:
    """Returns the output index of an event, -1 if it has none."""
    index = event.get("output_index")
    return index if isinstance(index, int) else -1


def _position_of(place: TextPlace, event: Json) -> int:
    """Returns the index of an event's part in its item, 0 if it has none."""
    position = event.get(place.position_key)
    return position if isinstance(position, int) else 0


def _texts_of(item: Item, place: TextPlace) -> Iterator[tuple[int, Any]]:
    """Yields (position, text) of the texts of an item that belong to a place."""
    if not place.list_key:
        yield 0, item.get(place.text_key)
        return
    parts = item.get(place.list_key)
    for position, part in enumerate(parts if isinstance(parts, list) else ()):
        if isinstance(part, dict) and part.get("type") == place.part_type:
            yield position, part.get(place.text_key)
