"""Items and parts of a Responses upstream's output: where each stands, and what was not said of it yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Final, NamedTuple

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
from translation.representation.items import NewId
from translation.representation.json_types import Item, Json
from translation.representation.text_fields import TEXT_FIELDS

_OMIT_IF_NULL = ("content", "encrypted_content", "logprobs", "phase")
"""Keys that strict readers want absent rather than null. vLLM sends them null."""

_OPTIONAL_LIST: Final = (list, NoneType)
_OPTIONAL_TEXT: Final = (str, NoneType)
"""Made once: `list | None` where it is asked makes a type each time."""


class TextPlace(NamedTuple):
    """Where a text event belongs: an item's list and the key of its position there, or with no list the item itself."""

    item_type: str
    part_type: str | None
    text_key: str
    list_key: str | None
    position_key: str


def _text_place(item_type: str, part_type: str | None, key: str) -> TextPlace:
    if part_type is None:
        return TextPlace(item_type, None, key, None, "")
    if part_type == "summary_text":
        return TextPlace(item_type, part_type, key, "summary", "summary_index")
    return TextPlace(item_type, part_type, key, "content", "content_index")


TEXT_PLACES: dict[str, TextPlace] = {
    channel.event_prefix: _text_place(*noun, channel.key) for noun, channel in TEXT_FIELDS.items()
}
"""Event type without its verb -> place."""

_CALL_TYPES = frozenset({"function_call", "custom_tool_call"})

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
    has_text: bool = False
    annotations: int = 0
    is_open: bool = True


@dataclass(slots=True)
class OutputItem:
    """One item the upstream started. `index` is ours, whatever number the upstream gave it."""

    index: int
    start: Item
    own_text: _TextState
    texts: dict[tuple[str, int], _TextState] = field(default_factory=dict)
    is_open: bool = True

    @property
    def type(self) -> str:
        return str(self.start["type"])


class OutputReader:
    """Events of one output. Items are found by the upstream's `output_index` and numbered anew, without gaps.

    Upstreams leave out any of the events around a text, or all of them, and some change an item's id from event to
    event: what is missing is made up, what comes twice is dropped.
    """

    def __init__(self, new_id: NewId) -> None:
        self.has_calls = False
        """Whether the model called a tool that the client runs."""
        self._new_id = new_id
        self._items: dict[int, OutputItem] = {}
        self._last_index = 0
        self._count = 0

    def started_item(self, chunk: Json) -> OutputItem | None:
        """The item an event is about, if it was started."""
        return self._items.get(self._output_index(chunk))

    def read_delta(self, place: TextPlace, chunk: Json) -> list[Event]:
        """A piece of text."""
        item = self._items.get(self._output_index(chunk))
        if item is not None:
            text = (
                item.own_text
                if place.list_key is None
                else item.texts.get((place.list_key, chunk.get(place.position_key, 0)))
            )
            if text is not None:
                return _delta_events(text, chunk.get("delta"), chunk.get("logprobs"))
        if place.part_type is None:
            return []  # a call nobody announced has no name yet: its final item will tell all
        events, text = self._ensure_text(place, chunk)
        return events + _delta_events(text, chunk.get("delta"), chunk.get("logprobs"))

    def end_text(self, place: TextPlace, chunk: Json) -> list[Event]:
        """The whole text, once more."""
        item = self._items.get(self._output_index(chunk))
        if place.part_type is None:
            if item is None or not item.own_text.is_open:
                return []
            whole = {place.text_key: chunk.get(place.text_key)}
            events = _missing_text(item.own_text, whole)
            item.own_text.is_open = False
            return [*events, PartEnded(item.index, None, whole if isinstance(whole[place.text_key], str) else None)]
        if item is not None and item.is_open and place.list_key is not None:
            text = item.texts.get((place.list_key, chunk.get(place.position_key, 0)))
            if text is not None:
                return _missing_text(text, chunk)
        events, text = self._ensure_text(place, chunk)
        return events + _missing_text(text, chunk)

    def start_item(self, chunk: Json) -> list[Event]:
        """An item was added."""
        at, item = self._output_index(chunk), chunk["item"]
        known = self._items.get(at)
        if known is None:
            return self._start_item(at, item)
        if known.is_open and (known.type, known.start.get("call_id")) == (item["type"], item.get("call_id")):
            return []
        if not known.is_open and known.start["id"] == item.get("id"):
            return []
        return self._end_item(known, None, "completed") + self._start_item(at, item)

    def end_item(self, chunk: Json) -> list[Event]:
        """An item is done; the event has it whole."""
        at, item = self._output_index(chunk), chunk["item"]
        known = self._items.get(at)
        if known is None or known.type != item["type"] or not (known.is_open or known.start["id"] == item.get("id")):
            return self.add_item(item, at)
        return self._end_item(known, item, "completed")

    def add_item(self, item: Item, at: int) -> list[Event]:
        """An item that is complete as it stands."""
        start = {**item, "status": "in_progress"} if "status" in item else item
        events = self.start_item({"output_index": at, "item": start})
        return events + self._end_item(self._items[at], item, "completed")

    def start_part(self, within: str, chunk: Json) -> list[Event]:
        """A part was added."""
        part = chunk["part"]
        return self._ensure_part(within, _position(chunk), part, chunk)[0]

    def end_part(self, within: str, chunk: Json) -> list[Event]:
        """A part is done; the event has it whole."""
        part = chunk["part"]
        events, text = self._ensure_part(within, _position(chunk), part, chunk)
        return events + _end_part(text, part)

    def annotate(self, chunk: Json) -> list[Event]:
        """A citation on a text."""
        events, text = self._ensure_text(TEXT_PLACES["response.output_text"], chunk)
        annotation = chunk.get("annotation")
        if not text.is_open or text.part_index is None or not isinstance(annotation, dict):
            return events
        text.annotations += 1
        return [*events, Annotated(text.index, text.part_index, annotation)]

    def finish(self, output: Sequence[Item], status: ItemStatus) -> list[Event]:
        """The turn is over and this is what it gave: end what is open, add what was never announced."""
        events: list[Event] = []
        finals = dict(enumerate(output))
        for at, item in self._items.items():
            final = finals.get(at)
            same = final is not None and final.get("id") == item.start["id"]
            events += self._end_item(item, final if same else None, status)
        if len(output) > self._count:
            for at, final in finals.items():
                if at not in self._items:
                    events += self.add_item(final, at)
        return events

    def _output_index(self, chunk: Json) -> int:
        at = chunk.get("output_index")
        self._last_index = self._last_index if at is None else at
        return self._last_index

    def _start_item(self, at: int, item: Item) -> list[Event]:
        index = self._count
        self._count += 1
        if item["type"] in _CALL_TYPES and not (isinstance(item["call_id"], str) and isinstance(item["name"], str)):
            raise TypeError("a call without an id or a name is none")
        self.has_calls = self.has_calls or item["type"] in _CALL_TYPES
        start = _without_nulls(item)
        if not start.get("id"):
            start["id"] = self._new_id(items.ID_PREFIXES.get(item["type"], "item"))
        channel = TEXT_FIELDS.get((item["type"], None))
        if channel is not None and start.setdefault(channel.key, ""):
            start[channel.key] = ""
        for within in ("content", "summary"):
            if start.get(within):
                start[within] = []
        self._items[at] = OutputItem(index, start, _TextState(index, None, channel and channel.key))
        return [ItemStarted(index, start)]

    def _ensure_text(self, place: TextPlace, chunk: Json) -> tuple[list[Event], _TextState]:
        """The text a part event is about, and the events that should have announced it."""
        assert place.list_key is not None
        assert place.part_type is not None
        part = _PART_FACTORIES[place.part_type]()
        return self._ensure_part(place.list_key, chunk.get(place.position_key, 0), part, chunk)

    def _ensure_part(self, within: str, position: int, part: Json, chunk: Json) -> tuple[list[Event], _TextState]:
        events: list[Event] = []
        item = self._items.get(self._output_index(chunk))
        if item is None:
            item_type = "reasoning" if part.get("type") in ("reasoning_text", "summary_text") else "message"
            given = chunk.get("item_id") or self._new_id(items.ID_PREFIXES[item_type])
            events += self._start_item(self._last_index, _ITEM_FACTORIES[item_type](given))
            item = self._items[self._last_index]
        elif not item.is_open:
            return [], _TextState(item.index, None, None, is_open=False)
        text = item.texts.get((within, position))
        if text is None:
            started, text = _start_part(item, within, position, part)
            events += started
        return events, text

    def _end_item(self, item: OutputItem, final: Item | None, status: ItemStatus) -> list[Event]:
        """End an item with all its texts; nothing if it has ended."""
        if not item.is_open:
            return []
        item.is_open = False
        events: list[Event] = []
        for within in ("summary", "content"):
            for position, part in enumerate((final or {}).get(within) or ()):
                text = item.texts.get((within, position))
                if text is None:
                    started, text = _start_part(item, within, position, part)
                    events += started
                events += _end_part(text, part)
        for text in item.texts.values():
            events += _end_part(text, None)
        events += _missing_text(item.own_text, final or {})
        if item.own_text.has_text and item.own_text.is_open:
            events.append(PartEnded(item.index, None))
        item.own_text.is_open = False
        if final is not None:
            status = "incomplete" if final.get("status") == "incomplete" else "completed"
        events.append(ItemEnded(item.index, None if final is None else _without_nulls(final), status))
        return events


def _start_part(item: OutputItem, within: str, position: int, part: Json) -> tuple[list[Event], _TextState]:
    start = _without_nulls(part)
    channel = TEXT_FIELDS.get((item.type, part.get("type")))
    emptied: dict[str, Any] = {key: [] for key in ("annotations", "logprobs") if start.get(key)}
    if channel is not None:
        emptied[channel.key] = ""
    text = item.texts[within, position] = _TextState(item.index, len(item.texts), channel and channel.key)
    assert text.part_index is not None
    return [PartStarted(item.index, text.part_index, {**start, **emptied})], text


def _delta_events(text: _TextState, piece: Any, logprobs: Any) -> list[Event]:
    if not piece or not text.is_open or not isinstance(piece, str):
        return []
    text.has_text = True
    return [Delta(text.index, text.part_index, piece, logprobs if logprobs and isinstance(logprobs, list) else None)]


def _missing_text(text: _TextState, whole: Mapping[str, Any]) -> list[Event]:
    """The text of a whole object, if no delta has said it."""
    if text.text_key is None:
        return []
    if not isinstance(said := whole.get(text.text_key), _OPTIONAL_TEXT):
        raise TypeError("a text that is no string")
    return [] if text.has_text else _delta_events(text, said, whole.get("logprobs"))


def _end_part(text: _TextState, part: Json | None) -> list[Event]:
    """End a part, after what no event has said of it; nothing if it has ended."""
    if not text.is_open or text.part_index is None:
        return []
    events = _missing_text(text, part or {})
    annotations = [each for each in (part or {}).get("annotations") or () if isinstance(each, dict)]
    events += [Annotated(text.index, text.part_index, each) for each in annotations[text.annotations :]]
    text.is_open = False
    return [*events, PartEnded(text.index, text.part_index, None if part is None else _without_nulls(part))]


def _position(chunk: Json) -> int:
    position: int = chunk["summary_index"] if "summary_index" in chunk else chunk.get("content_index", 0)
    return position


def _without_nulls(whole: Json) -> Json:
    trimmed = {key: value for key, value in whole.items() if value is not None or key not in _OMIT_IF_NULL}
    for key in ("annotations", "logprobs"):
        if not isinstance(trimmed.get(key), _OPTIONAL_LIST):
            raise TypeError("a list that is none")
    if trimmed.get("content"):
        trimmed["content"] = [_without_nulls(part) for part in trimmed["content"]]
    return trimmed
