"""Joins the output of a terminal event with the items of the stream before it, on a relay of the Responses API."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson

from translation.errors import ProtocolViolation
from translation.representation.items import TEXT_FIELDS, text_of
from translation.representation.json_types import Item, Json
from translation.representation.streamed_text import find_rest
from translation.responses.item_places import StreamedItem, build_streamed_item, find_places
from translation.responses.relaying.whole_response import is_item
from translation.tools.arguments import is_same_json

STREAMED_TEXTS: Final = frozenset(
    f"{field.event_prefix}.{phase}" for field in TEXT_FIELDS.values() for phase in ("delta", "done")
) | {"response.content_part.added", "response.content_part.done"}
"""Types of events with text of an item that has not ended."""


class DoneItem(NamedTuple):
    """An item that ended in the stream: as the upstream sent it, and as the client got it."""

    upstream: Item
    client: Item


class DoneItems:
    """The items that ended in one stream, by their output indexes. Forwarded events are only parsed if needed."""

    def __init__(self) -> None:
        self._items: dict[int, DoneItem] = {}
        self._unread: list[bytes] = []
        """The payloads of `response.output_item.done` events that were forwarded without parsing."""

    def add_unread(self, payload: bytes) -> None:
        """Adds the item of an event that was forwarded as it came."""
        self._unread.append(payload)

    def add(self, event: Json, client_item: Any) -> None:
        """Adds the item of an event, if it has the form of one and a place in the output."""
        output_index, item = event.get("output_index"), event.get("item")
        if isinstance(output_index, int) and is_item(item) and is_item(client_item):
            self._items[output_index] = DoneItem(item, client_item)

    def read(self) -> dict[int, DoneItem]:
        """Returns all items so far."""
        payloads, self._unread = self._unread, []
        for payload in payloads:
            try:
                event = orjson.loads(payload)
            except orjson.JSONDecodeError:
                continue  # it was forwarded without parsing, so the client saw that it is damaged
            self.add(event, event.get("item"))
        return self._items

    def list_client_items(self) -> list[Item]:
        """Returns the items as the client got them, in their order."""
        return [item.client for _, item in sorted(self.read().items())]


class JoinedOutput(NamedTuple):
    """A whole output, and whether an item in it has another form of the text that it had in the stream."""

    items: list[Item]
    has_other_form: bool


def join_output(
    upstream_output: list[Item],
    client_output: list[Item],
    done_items: dict[int, DoneItem],
    open_items: Sequence[StreamedItem] = (),
) -> JoinedOutput:
    """Returns the whole output: the items of the terminal event, and those of the stream that it lacks.

    `client_output` has the items of the upstream's output as the client gets them, and `open_items` are those of the
    stream that did not end in it: their places are not those of others. An item without any text in the
    terminal event is that of the stream. Raises ProtocolViolation for an item with another text than in the stream:
    nobody could say which of the two is the model's.
    """
    joined = list(client_output)
    places = _find_places(upstream_output, done_items, open_items)
    has_other_form = False
    for index, done in sorted(done_items.items()):
        if index not in places:
            continue
        streamed_text, final_text = _read_text(done.upstream), _read_text(upstream_output[places[index]])
        if streamed_text and final_text:
            has_other_form |= _is_other_form(streamed_text, final_text, is_json=done.upstream["type"] != "message")
        elif streamed_text:
            joined[places[index]] = done.client
    for index, done in sorted(done_items.items()):
        if index not in places:
            joined.insert(index, done.client)
    return JoinedOutput(joined, has_other_form)


def _find_places(
    output: list[Item], done_items: dict[int, DoneItem], open_items: Sequence[StreamedItem]
) -> dict[int, int]:
    """Returns the place in `output` of each item of the stream that is there, by the item's output index."""
    streamed = [build_streamed_item(index, done["type"], done.get("id")) for index, (done, _) in done_items.items()]
    streamed += [item for item in open_items if item.output_index not in done_items]
    return {item.output_index: place for item, place in find_places(output, streamed).items()}


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
