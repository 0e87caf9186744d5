"""Joins the output of a terminal event with the items of the stream before it, on a relay of the Responses API."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson

from translation.errors import ProtocolViolation
from translation.representation.items import TEXT_FIELDS, text_of
from translation.representation.json_types import Item, Json
from translation.representation.streamed_text import find_rest
from translation.responses.item_places import StreamedItem, build_streamed_item, find_places
from translation.responses.relaying.beginnings import PART_ADDED, Beginnings
from translation.responses.relaying.calls import ITEM_DONE
from translation.responses.relaying.restored_events import PART_DONE, build_item_events
from translation.responses.relaying.whole_response import is_item
from translation.tools.arguments import is_same_json

STREAMED_TEXTS: Final = frozenset(
    f"{field.event_prefix}.{phase}" for field in TEXT_FIELDS.values() for phase in ("delta", "done")
) | {PART_ADDED, PART_DONE}
"""Types of events with text of an item that has not ended."""


class DoneItem(NamedTuple):
    """An item that ended in the stream: as the upstream sent it, and as the client got it."""

    upstream: Item
    client: Item


class DoneItems:
    """The items that ended in one stream, with their output indexes. Forwarded events are only parsed if needed."""

    def __init__(self) -> None:
        self._items: list[tuple[int, DoneItem]] = []
        self._newest: dict[tuple[int, str, str], int] = {}
        """The output index, the type and the id of the call -> the place of the newest such item in the list."""
        self._unread: list[bytes] = []
        """The payloads of `response.output_item.done` events that were forwarded without parsing."""

    def add_unread(self, payload: bytes) -> None:
        """Adds the item of an event that was forwarded as it came."""
        self._unread.append(payload)

    def add(self, event: Json, client_item: Any) -> None:
        """Adds the item of an event, if it has the form of one."""
        self._read()
        self._add(event, client_item)

    def read(self) -> list[tuple[int, DoneItem]]:
        """Returns all items so far with their output indexes, in the order of these. Some upstreams give several items
        one index: they come in the order in which they ended."""
        self._read()
        return sorted(self._items, key=lambda entry: entry[0])

    def list_client_items(self) -> list[Item]:
        """Returns the items as the client got them, in their order."""
        return [item.client for _, item in self.read()]

    def _read(self) -> None:
        payloads, self._unread = self._unread, []
        for payload in payloads:
            try:
                event = orjson.loads(payload)
            except orjson.JSONDecodeError:
                continue  # it was forwarded without parsing, so the client saw that it is damaged
            self._add(event, event.get("item"))

    def _add(self, event: Json, client_item: Any) -> None:
        output_index, item = event.get("output_index"), event.get("item")
        if not (is_item(item) and is_item(client_item)):
            return
        if not isinstance(output_index, int):  # some upstreams send none: then the order is that of the events
            output_index = len(self._items)
        added = output_index, DoneItem(item, client_item)
        key = output_index, item["type"], str(item.get("call_id"))
        place = self._newest.get(key)
        if place is not None and _is_same_item(self._items[place][1].upstream, item):
            self._items[place] = added
            return
        self._newest[key] = len(self._items)
        self._items.append(added)


def _is_same_item(item: Item, other: Item) -> bool:
    """Returns whether two items that ended at one place are one. Some upstreams end it twice, with a new id."""
    return item.get("id") == other.get("id") or _read_text(item) == _read_text(other)


class JoinedItem(NamedTuple):
    """An item of a whole output, as the client gets it."""

    item: Item
    has_ended: bool
    """Whether it ended in the stream."""
    open_item: StreamedItem | None = None
    """What the stream had of it, if its texts began there, but it did not end."""


class JoinedOutput(NamedTuple):
    """A whole output, and whether an item in it has another form of the text that it had in the stream."""

    items: list[JoinedItem]
    has_other_form: bool


def join_output(
    upstream_output: list[Item],
    client_output: list[Item],
    done_items: Sequence[tuple[int, DoneItem]],
    open_items: Sequence[StreamedItem] = (),
) -> JoinedOutput:
    """Returns the whole output: the items of the terminal event, and those of the stream that it lacks.

    `client_output` has the items of the upstream's output as the client gets them, `done_items` are those that ended in
    the stream, sorted by their output indexes, and `open_items` are those that did not end: their places are not those
    of others. An item without any text in the terminal event is that of the stream. Raises ProtocolViolation for an
    item with another text than in the stream: nobody could say which of the two is the model's.
    """
    streamed = _list_ended(done_items)
    places = find_places(upstream_output, [*streamed, *_select_open(open_items, upstream_output, streamed)])
    open_places = {place: item for item, place in places.items()}
    has_other_form = False
    joined = [JoinedItem(item, False, open_places.get(place)) for place, item in enumerate(client_output)]
    lacking: list[tuple[int, DoneItem]] = []
    for (index, done), streamed_item in zip(done_items, streamed, strict=True):
        if (place := places.get(streamed_item)) is None:
            lacking.append((index, done))
            continue
        joined[place] = JoinedItem(client_output[place], True)
        streamed_text, final_text = _read_text(done.upstream), _read_text(upstream_output[place])
        if streamed_text and final_text:
            has_other_form |= _is_other_form(streamed_text, final_text, is_json=done.upstream["type"] != "message")
        elif streamed_text:
            joined[place] = JoinedItem(done.client, True)
    next_place = 0
    for index, done in lacking:
        next_place = max(index, next_place)
        joined.insert(next_place, JoinedItem(done.client, True))
        next_place += 1
    return JoinedOutput(joined, has_other_form)


def _list_ended(done_items: Sequence[tuple[int, DoneItem]]) -> list[StreamedItem]:
    """Returns the items that ended with their places. If several have one index, all are numbered as they come."""
    indexes = [index for index, _ in done_items]
    numbers = indexes if len(set(indexes)) == len(indexes) else range(len(indexes))
    return [
        build_streamed_item(number, done.upstream["type"], done.upstream.get("id"))
        for number, (_, done) in zip(numbers, done_items, strict=True)
    ]


def _select_open(
    open_items: Sequence[StreamedItem], output: Sequence[Item], ended: Sequence[StreamedItem]
) -> list[StreamedItem]:
    """Returns the open items for which the output has more items of their type than ended.

    Others ended under another index than their texts had.
    """
    room = Counter(str(item["type"]) for item in output)
    room.subtract(item.type for item in ended)
    selected: list[StreamedItem] = []
    for item in open_items:
        if room[item.type] > 0:
            room[item.type] -= 1
            selected.append(item)
    return selected


def build_missing_ends(joined: Sequence[JoinedItem], indexes: set[int], beginnings: Beginnings) -> list[Json]:
    """Returns the events of the items that did not end in the stream, without their sequence numbers: clients read
    answers and calls from them. `indexes` are the output indexes of those that ended."""
    events: list[Json] = []
    used, next_free = set(indexes), max(indexes, default=-1) + 1
    for place, (item, has_ended, open_item) in enumerate(joined):
        if has_ended:
            continue
        if open_item is not None:
            index = place if open_item.output_index < 0 else open_item.output_index
            events.append({"type": ITEM_DONE, "output_index": index, "item": item})
        else:
            begun = beginnings.find_index(item, place)
            is_begun = begun is not None and begun not in used
            if begun is None or not is_begun:
                begun = place if place not in used else next_free
            index = begun
            events += build_item_events(item, index, beginnings, is_begun=is_begun)
        used.add(index)
        next_free = max(next_free, index + 1)
    return events


def _is_other_form(streamed_text: str, final_text: str, *, is_json: bool) -> bool:
    """Returns whether a final text is another form of the streamed one. Raises ProtocolViolation if they differ."""
    if final_text.strip() == streamed_text.strip() or (is_json and is_same_json(final_text, streamed_text)):
        return False
    rest = None if is_json else find_rest(streamed_text, final_text)
    if rest is None or rest.text:
        raise ProtocolViolation("the upstream's final text differs from the text that it streamed")
    return rest.is_normalized or rest.lacks_thought


def _read_text(item: Item) -> str:
    """Returns the answer or the arguments in an item. Thinking is shown as it was streamed, and not compared."""
    field = TEXT_FIELDS.get((item["type"], None))
    if field is not None:
        text = item.get(field.key)
        return text if isinstance(text, str) else ""
    parts: Any = item.get("content") if item["type"] == "message" else None
    if not isinstance(parts, list):
        return ""
    return "".join([_text_of_part(part) for part in parts if isinstance(part, dict)])


def _text_of_part(part: Json) -> str:
    text = text_of("message", part)
    return text if isinstance(text, str) else ""
