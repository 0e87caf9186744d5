"""Tracks the items and parts of a Responses upstream's output, and turns its stream events into ours.

Does not know lifecycle events, usage or errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Final, NamedTuple

from translation.decoding.unshown_output import build_final_text_event
from translation.errors import ProtocolViolation
from translation.representation import items
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    ItemEnded,
    ItemStarted,
    ItemStatus,
    PartEnded,
    PartStarted,
)
from translation.representation.items import TEXT_FIELDS, NewId
from translation.representation.json_types import Item, Json
from translation.representation.streamed_text import FinalRest, find_rest
from translation.responses.item_places import StreamedItem, find_places
from translation.tools.arguments import is_same_json

_OMIT_IF_NULL = ("content", "encrypted_content", "logprobs", "phase")
"""Keys that are removed if they are null, because strict readers refuse null. vLLM sends them so."""

_OPTIONAL_LIST: Final = (list, NoneType)
_OPTIONAL_TEXT: Final = (str, NoneType)
"""Built once, because an inline `list | None` builds a new type object at each check."""


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


_DIFFERS: Final = "the upstream's final text differs from the text that it streamed"

_ITEM_FACTORIES = {"message": items.new_message, "reasoning": items.new_reasoning}

_PART_FACTORIES = {
    "output_text": items.new_output_text,
    "refusal": items.new_refusal,
    "reasoning_text": items.new_reasoning_text,
    "summary_text": items.new_summary_text,
}


@dataclass(slots=True)
class _TextState:
    index: int
    part_index: int | None
    text_key: str | None
    is_reasoning: bool = False
    pieces: list[str] = field(default_factory=list)
    """The text so far."""
    annotations: int = 0
    is_open: bool = True
    is_announced: bool = False
    """Whether an event added the part, before its texts."""
    has_other_form: bool = False
    """Whether the upstream's final text is another form of this one."""
    has_thought: bool = False
    """Whether it has thinking that the upstream's final text does not have."""
    stray_count: int = 0
    """How many events with a number that no part has were taken as its own."""

    @property
    def takes_strays(self) -> bool:
        """Whether the upstream announced the part, but sent no text with the part's own number."""
        return self.is_announced and len(self.pieces) <= self.stray_count


@dataclass(slots=True)
class OutputItem:
    """One item that was started. `index` is the gateway's number of the item, not the upstream's `output_index`."""

    index: int
    start: Item
    own_text: _TextState
    texts: dict[tuple[str, int], _TextState] = field(default_factory=dict)
    """The key of the list, and the upstream's number of the part -> its text."""
    newest: dict[str, _TextState] = field(default_factory=dict)
    """The key of a list -> the text of its newest part."""
    is_open: bool = True

    @property
    def has_text(self) -> bool:
        """Whether deltas of an answer or a call came for it."""
        return self.type != "reasoning" and any(text.pieces for text in (self.own_text, *self.texts.values()))

    @property
    def has_thought_in_text(self) -> bool:
        """Whether its text has thinking that the upstream's final value does not have there."""
        return any(text.has_thought for text in self.texts.values())

    @property
    def type(self) -> str:
        return str(self.start["type"])

    def list_texts(self, list_key: str) -> list[_TextState]:
        """Returns the texts of the parts in one list, in their order."""
        return [text for (key, _), text in self.texts.items() if key == list_key]


class OutputReader:
    """Returns our events for the upstream's events about one output.

    Items are identified by the upstream's `output_index` and numbered from 0 without gaps. Upstreams omit some or all
    of the events around a text, and some change an item's id between events. Missing events are added and repeated ones
    are dropped. Every method takes one upstream event as `chunk`, and raises AttributeError, KeyError, TypeError or
    ValueError if it is malformed.
    """

    def __init__(self, new_id: NewId) -> None:
        self.has_calls = False
        """Whether the model called a tool that the client runs."""
        self._new_id = new_id
        self._items: dict[int, OutputItem] = {}
        self._last_index = 0
        self._reused_index: int | None = None
        """The output index of the last item that the upstream added at the place of another one."""
        self._count = 0

    def find_item(self, chunk: Json) -> OutputItem | None:
        """Returns the item that an event is about, `None` if it was not started."""
        return self._items.get(self._output_index(chunk))

    def read_delta(self, place: TextPlace, chunk: Json) -> list[Event]:
        """Reads an event with a piece of text."""
        item = self._items.get(self._output_index(chunk))
        if item is not None:
            text = (
                item.own_text
                if not place.list_key
                else item.texts.get((place.list_key, chunk.get(place.position_key, 0)))
            )
            if text is not None:
                return _delta_events(text, chunk.get("delta"), chunk.get("logprobs"))
        if not place.part_type:
            return []  # a call that was not started has no name yet: the event that ends it has everything
        events, text = self._ensure_text(place, chunk)
        return events + _delta_events(text, chunk.get("delta"), chunk.get("logprobs"))

    def end_text(self, place: TextPlace, chunk: Json) -> list[Event]:
        """Reads an event that ends a text and repeats the whole of it."""
        item = self._items.get(self._output_index(chunk))
        if not place.part_type:
            if item is None or not item.own_text.is_open:
                return []
            whole = {place.text_key: chunk.get(place.text_key)}
            events = _missing_text(item.own_text, whole)
            item.own_text.is_open = False
            return [*events, PartEnded(item.index, None, whole if isinstance(whole[place.text_key], str) else None)]
        if item is not None and item.is_open:
            text = item.texts.get((place.list_key, chunk.get(place.position_key, 0)))
            if text is not None:
                return _missing_text(text, chunk)
            if _is_repeated(item, place.list_key, chunk.get(place.text_key)):
                return []
        events, text = self._ensure_text(place, chunk)
        return events + _missing_text(text, chunk)

    def start_item(self, chunk: Json) -> list[Event]:
        """Reads an event that adds an item."""
        output_index, item = self._output_index(chunk), chunk["item"]
        known = self._items.get(output_index)
        if known is None:
            return self._start_item(output_index, item)
        if known.is_open and (known.type, known.start.get("call_id")) == (item["type"], item.get("call_id")):
            return []
        if not known.is_open and known.start["id"] == item.get("id"):
            return []
        self._reused_index = output_index
        return self._end_item(known, None, "completed") + self._start_item(output_index, item)

    def end_item(self, chunk: Json) -> list[Event]:
        """Reads an event that ends an item and has the whole of it."""
        output_index, item = self._output_index(chunk), chunk["item"]
        known = self._items.get(output_index)
        if known is None or known.type != item["type"] or not (known.is_open or known.start["id"] == item.get("id")):
            return self.add_item(item, output_index)
        return self._end_item(known, item, "completed")

    def add_item(self, item: Item, output_index: int) -> list[Event]:
        """Starts and ends an item that is complete and had no events before."""
        start = {**item, "status": "in_progress"} if "status" in item else item
        events = self.start_item({"output_index": output_index, "item": start})
        return events + self._end_item(self._items[output_index], item, "completed")

    def start_part(self, list_key: str, chunk: Json) -> list[Event]:
        """Reads an event that adds a part to the item's list under `list_key`."""
        part = chunk["part"]
        return self._ensure_part(list_key, _position(chunk), part, chunk, is_announced=True)[0]

    def end_part(self, list_key: str, chunk: Json) -> list[Event]:
        """Reads an event that ends a part in the item's list under `list_key`, and has the whole of it."""
        part, position = chunk["part"], _position(chunk)
        item = self._items.get(self._output_index(chunk))
        if item is not None and item.is_open and (list_key, position) not in item.texts:
            text_field = TEXT_FIELDS.get((item.type, part.get("type")))
            if text_field is not None and _is_repeated(item, list_key, part.get(text_field.key)):
                return []
        events, text = self._ensure_part(list_key, position, part, chunk)
        return events + _end_part(text, part)

    def annotate(self, chunk: Json) -> list[Event]:
        """Reads an event that adds a citation to a text."""
        events, text = self._ensure_text(TEXT_PLACES["response.output_text"], chunk)
        annotation = chunk.get("annotation")
        if not text.is_open or text.part_index is None or not isinstance(annotation, dict):
            return events
        text.annotations += 1
        return [*events, Annotated(text.index, text.part_index, annotation)]

    def finish(self, output: Sequence[Item], status: ItemStatus) -> list[Event]:
        """Ends the turn, whose whole output is `output`: ends every open item, and adds those without any event.

        `status` is that of items which are not in `output`.
        """
        events: list[Event] = []
        streamed = {index: StreamedItem(index, item.type, str(item.start["id"])) for index, item in self._items.items()}
        places = find_places(output, streamed.values())
        count = self._count
        for output_index, item in self._items.items():
            place = places.get(streamed[output_index])
            final = None if place is None else output[place]
            if output and final is None and item.is_open and item.has_text:
                raise ProtocolViolation("the upstream's final output lacks an item that it streamed")
            same = final is not None and final.get("id") == item.start["id"]
            if final is not None and same:
                events += _compare_ended_texts(item, final)
            events += self._end_item(item, final if same else None, status)
            if final is not None and not same and len(output) == count:
                events += _compare_ended_texts(item, final)  # some upstreams change an item's id
        if len(output) > count:
            has_thought_in_text = any(item.has_thought_in_text for item in self._items.values())
            for place, final in enumerate(output):
                if place not in places.values() and not (has_thought_in_text and final.get("type") == "reasoning"):
                    events += self.add_item(final, place)
        return events

    def _output_index(self, chunk: Json) -> int:
        output_index = chunk.get("output_index")
        self._last_index = self._last_index if output_index is None else output_index
        return self._last_index

    def _start_item(self, output_index: int, item: Item) -> list[Event]:
        index = self._count
        self._count += 1
        if item["type"] in items.CALL_TYPES and not (
            isinstance(item["call_id"], str) and isinstance(item["name"], str) and item["name"]
        ):
            raise TypeError("a call has no call_id or no name")
        self.has_calls = self.has_calls or item["type"] in items.CALL_TYPES
        start = _without_nulls(item)
        if not start.get("id"):
            start["id"] = self._new_id(items.ID_PREFIXES.get(item["type"], "item"))
        text_field = TEXT_FIELDS.get((item["type"], None))
        if text_field is not None and start.setdefault(text_field.key, ""):
            start[text_field.key] = ""
        for list_key in ("content", "summary"):
            if start.get(list_key):
                start[list_key] = []
        self._items[output_index] = OutputItem(index, start, _TextState(index, None, text_field and text_field.key))
        return [ItemStarted(index, start)]

    def _ensure_text(self, place: TextPlace, chunk: Json) -> tuple[list[Event], _TextState]:
        """Returns the text that an event is about, and the events that start it if the upstream sent none."""
        part = _PART_FACTORIES[place.part_type]()
        return self._ensure_part(place.list_key, chunk.get(place.position_key, 0), part, chunk)

    def _ensure_part(
        self, list_key: str, position: int, part: Json, chunk: Json, *, is_announced: bool = False
    ) -> tuple[list[Event], _TextState]:
        events: list[Event] = []
        item = self._items.get(self._output_index(chunk)) or self._move_item(part)
        if item is None:
            item_type = "reasoning" if part.get("type") in ("reasoning_text", "summary_text") else "message"
            item_id = chunk.get("item_id") or self._new_id(items.ID_PREFIXES[item_type])
            events += self._start_item(self._last_index, _ITEM_FACTORIES[item_type](item_id))
            item = self._items[self._last_index]
        elif not item.is_open:
            return [], _TextState(item.index, None, None, is_open=False)
        text = item.texts.get((list_key, position))
        if text is None and not is_announced:
            text = _find_stray_part(item, list_key, part)
        if text is None:
            started, text = _start_part(item, list_key, position, part)
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
        if not item.is_open:
            return []
        item.is_open = False
        events: list[Event] = []
        for list_key in ("summary", "content"):
            events += _end_parts(item, list_key, (final or {}).get(list_key) or ())
        for text in item.texts.values():
            events += _end_part(text, None)
        events += _missing_text(item.own_text, final or {})
        if item.own_text.pieces and item.own_text.is_open:
            events.append(PartEnded(item.index, None))
        item.own_text.is_open = False
        if final is not None:
            status = "incomplete" if final.get("status") == "incomplete" else "completed"
        whole = None if final is None else _keep_streamed_texts(item, _without_nulls(final))
        events.append(ItemEnded(item.index, whole, status))
        return events


def _keep_streamed_texts(item: OutputItem, final: Item) -> Item:
    """Returns a final item with the texts that were streamed, where it has another form of them."""
    for list_key in ("summary", "content"):
        parts = final.get(list_key) or ()
        for text, part in zip(_pair_texts(item, list_key, parts) or (), parts, strict=False):
            if text is not None and text.has_other_form and text.text_key is not None:
                part[text.text_key] = "".join(text.pieces)
    return final


def _start_part(item: OutputItem, list_key: str, position: int, part: Json) -> tuple[list[Event], _TextState]:
    start = _without_nulls(part)
    text_field = TEXT_FIELDS.get((item.type, part.get("type")))
    emptied: dict[str, Any] = {key: [] for key in ("annotations", "logprobs") if start.get(key)}
    if text_field is not None:
        emptied[text_field.key] = ""
    text_key = text_field and text_field.key
    part_index = len(item.texts)
    text = item.texts[list_key, position] = _TextState(item.index, part_index, text_key, item.type == "reasoning")
    item.newest[list_key] = text
    return [PartStarted(item.index, part_index, {**start, **emptied})], text


def _delta_events(text: _TextState, piece: Any, logprobs: Any) -> list[Event]:
    if not piece or not text.is_open or not isinstance(piece, str):
        return []
    text.pieces.append(piece)
    return [Delta(text.index, text.part_index, piece, logprobs if logprobs and isinstance(logprobs, list) else None)]


def _missing_text(text: _TextState, whole: Mapping[str, Any]) -> list[Event]:
    """Returns the text of a whole object that had no delta, as a delta: all of it, or the rest.

    Raises ProtocolViolation if the deltas were another text: nobody could say which of the two is the model's.
    """
    if text.text_key is None:
        return []
    if not isinstance(full_text := whole.get(text.text_key), _OPTIONAL_TEXT):
        raise TypeError("a text is not a string")
    sent = "".join(text.pieces)
    if not full_text or full_text == sent:
        return []
    if full_text.startswith(sent) and text.is_open:
        return _delta_events(text, full_text[len(sent) :], None if sent else whole.get("logprobs"))
    if text.is_reasoning or full_text.strip() == sent.strip():
        return []  # white space is trimmed by some upstreams, and thinking is shown as it was streamed
    if text.text_key != "arguments":
        return _read_other_form(text, find_rest(sent, full_text))
    if is_same_json(full_text, sent):
        return []
    raise ProtocolViolation(_DIFFERS)


def _read_other_form(text: _TextState, rest: FinalRest | None) -> list[Event]:
    """Returns the events of a final text that is another form of the streamed one: that stands, and is reported once.

    Raises ProtocolViolation if it is none.
    """
    if rest is None or (rest.text and not text.is_open):
        raise ProtocolViolation(_DIFFERS)
    events = _delta_events(text, rest.text, None)
    text.has_thought = text.has_thought or rest.lacks_thought
    if (rest.is_normalized or rest.lacks_thought) and not text.has_other_form:
        text.has_other_form = True
        events.append(build_final_text_event())
    return events


def _find_stray_part(item: OutputItem, list_key: str, part: Json) -> _TextState | None:
    """Returns the text of the newest part, if an event with another number belongs to it.

    Some versions of vLLM give each delta a number of its own, after one event that adds the part.
    """
    newest = item.newest.get(list_key)
    text_field = TEXT_FIELDS.get((item.type, part.get("type")))
    if newest is None or text_field is None or newest.text_key != text_field.key or not newest.takes_strays:
        return None
    newest.stray_count += 1
    return newest


def _is_repeated(item: OutputItem, list_key: str, whole: Any) -> bool:
    """Returns whether a whole text, under a number that no part has, is what all parts of the list had together."""
    newest = item.newest.get(list_key)
    return newest is not None and not newest.takes_strays and whole == _join_pieces(item.list_texts(list_key)) != ""


def _join_pieces(texts: Sequence[_TextState]) -> str:
    return "".join(piece for text in texts for piece in text.pieces)


def _pair_texts(item: OutputItem, list_key: str, parts: Sequence[Json]) -> list[_TextState | None] | None:
    """Returns for each part of a whole item its text, None for a part that had no events.

    Some upstreams number the parts of a response and not those of an item: then they belong together in their order.
    Returns None instead of a list if there are more streamed texts than parts.
    """
    numbers = [number for key, number in item.texts if key == list_key]
    if all(0 <= number < len(parts) for number in numbers):
        return [item.texts.get((list_key, position)) for position in range(len(parts))]
    texts = [text for text in item.list_texts(list_key) if text.pieces]
    return None if len(texts) > len(parts) else [*texts, *[None] * (len(parts) - len(texts))]


def _end_parts(item: OutputItem, list_key: str, parts: Sequence[Json]) -> list[Event]:
    """Ends the parts in one list of a whole item. Raises ProtocolViolation if it lacks one that was streamed."""
    if not parts:
        return []
    if (texts := _pair_texts(item, list_key, parts)) is None:
        return _end_split_part(item, list_key, parts)
    events: list[Event] = []
    for position, (text, part) in enumerate(zip(texts, parts, strict=True)):
        if text is None:
            started, text = _start_part(item, list_key, _free_number(item, list_key, position), part)
            events += started
        events += _end_part(text, part)
    return events


def _free_number(item: OutputItem, list_key: str, position: int) -> int:
    """Returns the position of a part, or the next number that no other part has."""
    while (list_key, position) in item.texts:
        position += 1
    return position


def _end_split_part(item: OutputItem, list_key: str, parts: Sequence[Json]) -> list[Event]:
    """Ends more texts than a whole item has parts: all belong to its single part, which decides what they lack.

    Raises ProtocolViolation if they do not. Thinking is shown as it was streamed, and not compared.
    """
    if item.type == "reasoning":
        return []
    text_field = TEXT_FIELDS.get((item.type, parts[0].get("type")))
    whole = parts[0].get(text_field.key) if text_field and len(parts) == 1 else None
    texts = item.list_texts(list_key)
    streamed = _join_pieces(texts)
    rest = find_rest(streamed, whole) if isinstance(whole, str) else None
    if rest is None or (rest.text and not texts[-1].is_open):
        raise ProtocolViolation("the upstream's final item lacks a part that it streamed")
    return _read_other_form(texts[-1], rest)


def _compare_ended_texts(item: OutputItem, final: Item) -> list[Event]:
    """Compares the item's texts that have ended with those of the final item. Returns the events of another form.

    Raises ProtocolViolation if they are others.
    """
    events: list[Event] = []
    for list_key in ("summary", "content"):
        parts = final.get(list_key) or ()
        if not parts:
            continue
        if (texts := _pair_texts(item, list_key, parts)) is None:
            if not item.is_open:
                _end_split_part(item, list_key, parts)
            continue
        for text, part in zip(texts, parts, strict=True):
            if text is not None and not text.is_open:
                events += _missing_text(text, part)
    if not item.own_text.is_open:
        events += _missing_text(item.own_text, final)
    return events


def _end_part(text: _TextState, part: Json | None) -> list[Event]:
    """Ends a part, after the text and the citations that had no event. Returns no event if it has ended."""
    if not text.is_open or text.part_index is None:
        return []
    events = _missing_text(text, part or {})
    annotations = [annotation for annotation in (part or {}).get("annotations") or () if isinstance(annotation, dict)]
    events += [Annotated(text.index, text.part_index, annotation) for annotation in annotations[text.annotations :]]
    text.is_open = False
    whole = None if part is None else _without_nulls(part)
    if whole is not None and text.has_other_form and text.text_key is not None:
        whole[text.text_key] = "".join(text.pieces)
    return [*events, PartEnded(text.index, text.part_index, whole)]


def _position(chunk: Json) -> int:
    position: int = chunk["summary_index"] if "summary_index" in chunk else chunk.get("content_index", 0)
    return position


def _without_nulls(whole: Json) -> Json:
    trimmed = {key: value for key, value in whole.items() if value is not None or key not in _OMIT_IF_NULL}
    for key in ("annotations", "logprobs"):
        if not isinstance(trimmed.get(key), _OPTIONAL_LIST):
            raise TypeError("annotations or logprobs are not a list")
    if trimmed.get("content"):
        trimmed["content"] = [_without_nulls(part) for part in trimmed["content"]]
    return trimmed
