"""Builds the events around texts that an upstream of the Responses API sent without them.

Some upstreams, and OpenAI itself for short answers, send a text only in the event that ends it, in its item or in the
whole response. Clients that add up the deltas would show nothing.
"""

from collections.abc import Iterator
from typing import Any, Final

from translation.representation.json_types import Item, Json
from translation.responses.item_forms import is_blank
from translation.responses.relaying.beginnings import ITEM_ADDED, NO_INDEX, PART_ADDED, Beginnings
from translation.responses.relaying.calls import ITEM_DONE
from translation.responses.upstream.output import PART_FACTORIES, TEXT_PLACES, TextPlace

PART_DONE: Final = "response.content_part.done"

_RESTORED_TYPES: Final = ("message", "function_call", "custom_tool_call")
"""Types of the items whose texts clients add up. Thinking is shown as it was streamed."""

PLACES_BY_TYPE: Final = {
    kind: [(prefix, place) for prefix, place in TEXT_PLACES.items() if place.item_type == kind]
    for kind in _RESTORED_TYPES
}
"""Item type -> (prefix of the events of a text, place of the text) of its texts."""

_PLACE_KEYS: Final = ("item_id", "output_index", "content_index")
"""Keys of an event about a text that say which text it is."""


def copy_place(event: Json) -> Json:
    """Returns the fields of an event that say which text it is about."""
    return {key: event[key] for key in _PLACE_KEYS if key in event}


def build_address(output_index: int, item_id: Any = None) -> Json:
    """Returns the fields of an event that say which item it is about."""
    address: Json = {"item_id": item_id} if isinstance(item_id, str) else {}
    return address if output_index == NO_INDEX else {**address, "output_index": output_index}


def build_delta(prefix: str, at: Json, text: str) -> Json:
    """Returns the event of a piece of text. `at` has the fields that say which text it is."""
    more: Json = {"logprobs": []} if TEXT_PLACES[prefix].part_type == "output_text" else {}
    return {"type": f"{prefix}.delta", **at, "delta": text, **more}


def build_text_end(prefix: str, at: Json, part: Json) -> Json:
    """Returns the event that ends the text of a part, given the whole part."""
    place = TEXT_PLACES[prefix]
    more: Json = {"logprobs": part.get("logprobs") or []} if place.part_type == "output_text" else {}
    return {"type": f"{prefix}.done", **at, place.text_key: part[place.text_key], **more}


def build_part(place: TextPlace, text: str) -> Json:
    """Returns a part with a text."""
    return {**PART_FACTORIES[place.part_type](), place.text_key: text}


def build_part_beginning(place: TextPlace, at: Json) -> Json:
    """Returns the event that begins a part."""
    return {"type": PART_ADDED, **at, "part": build_part(place, "")}


def build_item_beginning(output_index: int, item: Item) -> Json:
    """Returns the event that begins an item, given the whole of it."""
    begun = {**item, "status": "in_progress"} if "status" in item else dict(item)
    begun |= {key: [] for key in ("content", "summary") if isinstance(item.get(key), list)}
    for _, place in PLACES_BY_TYPE.get(str(item["type"]), ()):
        if not place.list_key:
            begun[place.text_key] = ""
    return {"type": ITEM_ADDED, **build_address(output_index), "item": begun}


def list_whole_texts(item: Item, place: TextPlace) -> Iterator[tuple[int, Json]]:
    """Yields (position, part with the text) of the texts of an item that belong to a place. A text of the item itself
    has the position 0, and the item as its part."""
    if not place.list_key:
        yield 0, item
        return
    parts = item.get(place.list_key)
    for position, part in enumerate(parts if isinstance(parts, list) else ()):
        if isinstance(part, dict) and part.get("type") == place.part_type:
            yield position, part


def build_text_events(prefix: str, output_index: int, item: Item, position: int, *, has_part: bool) -> list[Json]:
    """Returns the events of a whole text that had none. `has_part` says that its part has begun."""
    place = TEXT_PLACES[prefix]
    at = build_address(output_index, item.get("id"))
    if not place.list_key:
        whole = {place.text_key: item[place.text_key]}
        name = {"name": item["name"]} if item["type"] == "function_call" and "name" in item else {}
        return [build_delta(prefix, at, item[place.text_key]), {"type": f"{prefix}.done", **at, **name, **whole}]
    at[place.position_key] = position
    part = item[place.list_key][position]
    return [
        *([] if has_part else [build_part_beginning(place, at)]),
        build_delta(prefix, at, part[place.text_key]),
        build_text_end(prefix, at, part),
        {"type": PART_DONE, **at, "part": part},
    ]


def build_item_events(item: Item, output_index: int, beginnings: Beginnings, *, is_begun: bool) -> list[Json]:
    """Returns the events of a whole item whose texts and end had none. `is_begun` says that it has begun."""
    events = [] if is_begun else [build_item_beginning(output_index, item)]
    for prefix, place in PLACES_BY_TYPE.get(str(item["type"]), ()):
        for position, holder in list_whole_texts(item, place):
            text = holder.get(place.text_key)
            is_sent = is_begun and (is_blank(text) or beginnings.has_text(output_index, place, position))
            if is_sent or not isinstance(text, str):
                continue
            has_part = beginnings.has_part(output_index, position)
            events += build_text_events(prefix, output_index, item, position, has_part=has_part)
    return [*events, {"type": ITEM_DONE, "output_index": output_index, "item": item}]
