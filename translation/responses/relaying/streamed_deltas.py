"""Compares the final texts of a relayed Responses stream with the deltas before them, which are forwarded unparsed."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import orjson

from translation.errors import ProtocolViolation
from translation.representation.json_types import Item, Json
from translation.representation.streamed_text import StreamedText
from translation.responses.upstream.output import TEXT_PLACES, TextPlace

_PLACES: Final = {prefix: place for prefix, place in TEXT_PLACES.items() if place.item_type != "reasoning"}
"""Thinking is shown as it was streamed, and not compared."""

DELTA_EVENTS: Final = {f"{prefix}.delta": prefix for prefix in _PLACES}
"""Types of the events whose texts are compared -> the prefix of the type."""

DONE_EVENTS: Final = {f"{prefix}.done": prefix for prefix in _PLACES}
"""Types of the events that end such a text -> the prefix of the type."""

_PAYLOADS_PER_READ: Final = 64
"""So many payloads are kept until they are read together, which costs less than to parse each."""

_DELTA: Final = re.compile(rb'"delta": ?("(?:[^"\\]++|\\.)*+")')
_MARKS: Final = re.compile(rb'"(?:output|content)_index": ?[0-9]+[,}]|"type": ?"[^"]+"')
"""Matches what tells the text of an event."""

_TextKey: TypeAlias = tuple[str, str, str]
"""The prefix of the events, the output index, and the index of the part."""


class StreamedDeltas:
    """What the deltas of one stream held so far, text by text."""

    def __init__(self) -> None:
        self._unread: list[bytes] = []
        self._texts: dict[_TextKey, StreamedText] = {}
        self._ended: set[_TextKey] = set()

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
        self._read()
        place = _PLACES[prefix]
        key = _key_of(prefix, place, event)
        rest = self._find_rest(key, event.get(place.text_key))
        self._ended.add(key)
        if rest:
            self._texts[key].add(rest)
        return rest

    def end_item(self, output_index: Any, item: Item) -> list[Json]:
        """Takes a whole item. Returns the events of deltas that its texts lacked, without their sequence numbers.

        Raises ProtocolViolation if the deltas, or the events that ended the texts, had another text.
        """
        self._read()
        events: list[Json] = []
        for prefix, place in _PLACES.items():
            if place.item_type != item.get("type"):
                continue
            for position, whole in _texts_of(item, place):
                at: Json = {"output_index": output_index}
                at |= {place.position_key: position} if place.position_key else {}
                key = _key_of(prefix, place, at)
                rest = self._find_rest(key, whole)
                self._texts.pop(key, None)
                if not rest:
                    continue
                if key in self._ended:
                    raise ProtocolViolation("the upstream ended a text twice, with two different texts")
                at |= {"item_id": item["id"]} if isinstance(item.get("id"), str) else {}
                events.append({"type": f"{prefix}.delta", **at, "delta": rest})
            if any(_texts_of(item, place)):
                self._require_none_left(prefix, str(output_index))
        return events

    def end_stream(self, output: Sequence[Item]) -> list[Json]:
        """Takes the whole output. Returns the events of deltas that texts lacked whose items have not ended.

        Raises ProtocolViolation if these texts were other ones.
        """
        events = [event for index, item in enumerate(output) for event in self.end_item(index, item)]
        if output:
            for prefix in _PLACES:
                self._require_none_left(prefix)
        return events

    def _require_none_left(self, prefix: str, output_index: str | None = None) -> None:
        """Raises ProtocolViolation for a text that was streamed, and that the items to which it belongs do not have."""
        for (kind, index, _), text in self._texts.items():
            if kind == prefix and output_index in (None, index) and text.ink_size:
                raise ProtocolViolation("the upstream's final output lacks a text that it streamed")

    def _find_rest(self, key: _TextKey, whole: Any) -> str:
        streamed = self._texts.get(key)
        if streamed is None or not isinstance(whole, str) or not whole.strip():
            return ""  # the client got no delta of this text, or no whole text
        if (rest := streamed.find_rest(whole)) is None:
            raise ProtocolViolation("the upstream's final text differs from the text that it streamed")
        return rest

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
        key = _key_of(prefix, _PLACES[prefix], event)
        if (text := self._texts.get(key)) is None:
            text = self._texts[key] = StreamedText()
        text.add("".join(texts))


def _key_of(prefix: str, place: TextPlace, event: Json) -> _TextKey:
    position = event.get(place.position_key, 0) if place.position_key else ""
    return (prefix, str(event.get("output_index")), str(position))


def _texts_of(item: Item, place: TextPlace) -> Iterator[tuple[int, Any]]:
    """Yields (position, text) of the texts of an item that belong to a place."""
    if not place.list_key:
        yield 0, item.get(place.text_key)
        return
    parts = item.get(place.list_key)
    for position, part in enumerate(parts if isinstance(parts, list) else ()):
        if isinstance(part, dict) and part.get("type") == place.part_type:
            yield position, part.get(place.text_key)
