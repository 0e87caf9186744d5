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
from translation.representation.text_fields import CHANNELS

_NEVER_NULL = ("content", "encrypted_content", "logprobs", "phase")
"""Keys that strict readers want absent rather than null. vLLM sends them null."""

_LIST_IF_ANY: Final = (list, NoneType)
_TEXT_IF_ANY: Final = (str, NoneType)
"""Made once: `list | None` where it is asked makes a type each time."""


class Place(NamedTuple):
    """Where a text event belongs: an item's list and the key of its position there, or with no list the item itself."""

    item_type: str
    part_type: str | None
    key: str
    within: str | None
    position_key: str


def _place(item_type: str, part_type: str | None, key: str) -> Place:
    if part_type is None:
        return Place(item_type, None, key, None, "")
    if part_type == "summary_text":
        return Place(item_type, part_type, key, "summary", "summary_index")
    return Place(item_type, part_type, key, "content", "content_index")


PLACES: dict[str, Place] = {channel.name: _place(*noun, channel.key) for noun, channel in CHANNELS.items()}
"""Event type without its verb -> place."""

_CALLS = frozenset({"function_call", "custom_tool_call"})

_NEW_ITEMS = {"message": items.message, "reasoning": items.reasoning}

_NEW_PARTS = {
    "output_text": items.output_text,
    "refusal": items.refusal,
    "reasoning_text": items.reasoning_text,
    "summary_text": items.summary_text,
}


@dataclass(slots=True)
class _Text:
    index: int
    part_index: int | None
    key: str | None
    said: bool = False
    annotations: int = 0
    open: bool = True


@dataclass(slots=True)
class OutputItem:
    """One item the upstream started. `index` is ours, whatever number the upstream gave it."""

    index: int
    start: Item
    own: _Text
    texts: dict[tuple[str, int], _Text] = field(default_factory=dict)
    open: bool = True

    @property
    def type(self) -> str:
        return str(self.start["type"])


class OutputReader:
    """Events of one output. Items are found by the upstream's `output_index` and numbered anew, without gaps.

    Upstreams leave out any of the events around a text, or all of them, and some change an item's id from event to
    event: what is missing is made up, what comes twice is dropped.
    """

    def __init__(self, new_id: NewId) -> None:
        self.called = False
        """Whether the model called a tool that the client runs."""
        self._new_id = new_id
        self._items: dict[int, OutputItem] = {}
        self._last = 0
        self._count = 0

    def find(self, chunk: Json) -> OutputItem | None:
        """The item an event is about, if it was started."""
        return self._items.get(self._at(chunk))

    def delta(self, place: Place, chunk: Json) -> list[Event]:
        """A piece of text."""
        item = self._items.get(self._at(chunk))
        if item is not None:
            text = (
                item.own if place.within is None else item.texts.get((place.within, chunk.get(place.position_key, 0)))
            )
            if text is not None:
                return _said(text, chunk.get("delta"), chunk.get("logprobs"))
        if place.part_type is None:
            return []  # a call nobody announced has no name yet: its final item will tell all
        events, text = self._missing(place, chunk)
        return events + _said(text, chunk.get("delta"), chunk.get("logprobs"))

    def end_text(self, place: Place, chunk: Json) -> list[Event]:
        """The whole text, once more."""
        item = self._items.get(self._at(chunk))
        if place.part_type is None:
            if item is None or not item.own.open:
                return []
            whole = {place.key: chunk.get(place.key)}
            events = _rest(item.own, whole)
            item.own.open = False
            return [*events, PartEnded(item.index, None, whole if isinstance(whole[place.key], str) else None)]
        if item is not None and item.open and place.within is not None:
            text = item.texts.get((place.within, chunk.get(place.position_key, 0)))
            if text is not None:
                return _rest(text, chunk)
        events, text = self._missing(place, chunk)
        return events + _rest(text, chunk)

    def start_item(self, chunk: Json) -> list[Event]:
        """An item was added."""
        at, item = self._at(chunk), chunk["item"]
        known = self._items.get(at)
        if known is None:
            return self._start(at, item)
        if known.open and (known.type, known.start.get("call_id")) == (item["type"], item.get("call_id")):
            return []
        if not known.open and known.start["id"] == item.get("id"):
            return []
        return self._close(known, None, "completed") + self._start(at, item)

    def end_item(self, chunk: Json) -> list[Event]:
        """An item is done; the event has it whole."""
        at, item = self._at(chunk), chunk["item"]
        known = self._items.get(at)
        if known is None or known.type != item["type"] or not (known.open or known.start["id"] == item.get("id")):
            return self.whole(item, at)
        return self._close(known, item, "completed")

    def whole(self, item: Item, at: int) -> list[Event]:
        """An item that is complete as it stands."""
        start = {**item, "status": "in_progress"} if "status" in item else item
        events = self.start_item({"output_index": at, "item": start})
        return events + self._close(self._items[at], item, "completed")

    def start_part(self, within: str, chunk: Json) -> list[Event]:
        """A part was added."""
        part = chunk["part"]
        return self._part(within, _position(chunk), part, chunk)[0]

    def end_part(self, within: str, chunk: Json) -> list[Event]:
        """A part is done; the event has it whole."""
        part = chunk["part"]
        events, text = self._part(within, _position(chunk), part, chunk)
        return events + _end(text, part)

    def annotate(self, chunk: Json) -> list[Event]:
        """A citation on a text."""
        events, text = self._missing(PLACES["response.output_text"], chunk)
        annotation = chunk.get("annotation")
        if not text.open or text.part_index is None or not isinstance(annotation, dict):
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
            events += self._close(item, final if same else None, status)
        if len(output) > self._count:
            for at, final in finals.items():
                if at not in self._items:
                    events += self.whole(final, at)
        return events

    def _at(self, chunk: Json) -> int:
        at = chunk.get("output_index")
        self._last = self._last if at is None else at
        return self._last

    def _start(self, at: int, item: Item) -> list[Event]:
        index = self._count
        self._count += 1
        if item["type"] in _CALLS and not (isinstance(item["call_id"], str) and isinstance(item["name"], str)):
            raise TypeError("a call without an id or a name is none")
        self.called = self.called or item["type"] in _CALLS
        start = _trimmed(item)
        if not start.get("id"):
            start["id"] = self._new_id(items.ID_PREFIXES.get(item["type"], "item"))
        channel = CHANNELS.get((item["type"], None))
        if channel is not None and start.setdefault(channel.key, ""):
            start[channel.key] = ""
        for within in ("content", "summary"):
            if start.get(within):
                start[within] = []
        self._items[at] = OutputItem(index, start, _Text(index, None, channel and channel.key))
        return [ItemStarted(index, start)]

    def _missing(self, place: Place, chunk: Json) -> tuple[list[Event], _Text]:
        """The text a part event is about, and the events that should have announced it."""
        assert place.within is not None
        assert place.part_type is not None
        part = _NEW_PARTS[place.part_type]()
        return self._part(place.within, chunk.get(place.position_key, 0), part, chunk)

    def _part(self, within: str, position: int, part: Json, chunk: Json) -> tuple[list[Event], _Text]:
        events: list[Event] = []
        item = self._items.get(self._at(chunk))
        if item is None:
            item_type = "reasoning" if part.get("type") in ("reasoning_text", "summary_text") else "message"
            given = chunk.get("item_id") or self._new_id(items.ID_PREFIXES[item_type])
            events += self._start(self._last, _NEW_ITEMS[item_type](given))
            item = self._items[self._last]
        elif not item.open:
            return [], _Text(item.index, None, None, open=False)
        text = item.texts.get((within, position))
        if text is None:
            started, text = _start_part(item, within, position, part)
            events += started
        return events, text

    def _close(self, item: OutputItem, final: Item | None, status: ItemStatus) -> list[Event]:
        """End an item with all its texts; nothing if it has ended."""
        if not item.open:
            return []
        item.open = False
        events: list[Event] = []
        for within in ("summary", "content"):
            for position, part in enumerate((final or {}).get(within) or ()):
                text = item.texts.get((within, position))
                if text is None:
                    started, text = _start_part(item, within, position, part)
                    events += started
                events += _end(text, part)
        for text in item.texts.values():
            events += _end(text, None)
        events += _rest(item.own, final or {})
        if item.own.said and item.own.open:
            events.append(PartEnded(item.index, None))
        item.own.open = False
        if final is not None:
            status = "incomplete" if final.get("status") == "incomplete" else "completed"
        events.append(ItemEnded(item.index, None if final is None else _trimmed(final), status))
        return events


def _start_part(item: OutputItem, within: str, position: int, part: Json) -> tuple[list[Event], _Text]:
    start = _trimmed(part)
    channel = CHANNELS.get((item.type, part.get("type")))
    emptied: dict[str, Any] = {key: [] for key in ("annotations", "logprobs") if start.get(key)}
    if channel is not None:
        emptied[channel.key] = ""
    text = item.texts[within, position] = _Text(item.index, len(item.texts), channel and channel.key)
    assert text.part_index is not None
    return [PartStarted(item.index, text.part_index, {**start, **emptied})], text


def _said(text: _Text, piece: Any, logprobs: Any) -> list[Event]:
    if not piece or not text.open or not isinstance(piece, str):
        return []
    text.said = True
    return [Delta(text.index, text.part_index, piece, logprobs if logprobs and isinstance(logprobs, list) else None)]


def _rest(text: _Text, whole: Mapping[str, Any]) -> list[Event]:
    """The text of a whole object, if no delta has said it."""
    if text.key is None:
        return []
    if not isinstance(said := whole.get(text.key), _TEXT_IF_ANY):
        raise TypeError("a text that is no string")
    return [] if text.said else _said(text, said, whole.get("logprobs"))


def _end(text: _Text, part: Json | None) -> list[Event]:
    """End a part, after what no event has said of it; nothing if it has ended."""
    if not text.open or text.part_index is None:
        return []
    events = _rest(text, part or {})
    annotations = [each for each in (part or {}).get("annotations") or () if isinstance(each, dict)]
    events += [Annotated(text.index, text.part_index, each) for each in annotations[text.annotations :]]
    text.open = False
    return [*events, PartEnded(text.index, text.part_index, None if part is None else _trimmed(part))]


def _position(chunk: Json) -> int:
    position: int = chunk["summary_index"] if "summary_index" in chunk else chunk.get("content_index", 0)
    return position


def _trimmed(whole: Json) -> Json:
    trimmed = {key: value for key, value in whole.items() if value is not None or key not in _NEVER_NULL}
    for key in ("annotations", "logprobs"):
        if not isinstance(trimmed.get(key), _LIST_IF_ANY):
            raise TypeError("a list that is none")
    if trimmed.get("content"):
        trimmed["content"] = [_trimmed(part) for part in trimmed["content"]]
    return trimmed
