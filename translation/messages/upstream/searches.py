"""Decodes the upstream's own web searches: the block of the call and the block of the results become one item."""

from typing import Any

import orjson

from translation.messages.upstream.details import detail_of
from translation.representation.events import Event, ItemEnded, Progressed
from translation.representation.item_writer import ItemWriter
from translation.representation.items import NewId
from translation.representation.json_types import Item, Json
from translation.tools.searches import add_results, read_action


class SearchDecoder:
    """Turns search blocks into events, through an ItemWriter. The item's `details` hold both blocks for later turns."""

    def __init__(self, new_id: NewId, writer: ItemWriter) -> None:
        self._new_id = new_id
        self._writer = writer
        self._open_searches: dict[Any, tuple[int, Item, Json]] = {}

    def begin_search(self, block: Json, arguments: str) -> list[Event]:
        """Starts the item of a search. `arguments` is the input from the block's deltas, empty if the block has it."""
        call_block = {**block, "input": _parse_input(arguments) or block.get("input") or {}}
        item: Item = {
            "id": self._new_id("ws"),
            "type": "web_search_call",
            "status": "in_progress",
            "action": read_action(call_block["input"]),
        }
        events = self._writer.open_item(item)
        index = self._writer.item_count - 1
        self._open_searches[str(block["id"])] = index, item, detail_of(call_block)
        return [*events, Progressed(index, "in_progress"), Progressed(index, "searching")]

    def end_search(self, block: Json) -> list[Event]:
        """Ends the item of a search with its results. Returns no event for results without a call."""
        if (search := self._open_searches.pop(str(block["tool_use_id"]), None)) is None:
            return []
        index, item, detail = search
        final = {**add_results(item, block["content"]), "details": [detail, detail_of(block)]}
        return [Progressed(index, "completed"), ItemEnded(index, final)]

    def close(self, *, is_paused: bool) -> list[Event]:
        """Ends the items of searches without results: as failed, or as incomplete if the API pauses the reply.

        After a pause the API runs such a search when it gets the call back.
        """
        events: list[Event] = []
        for index, item, detail in self._open_searches.values():
            final = {**item, "status": "incomplete", "details": [detail]} if is_paused else {**item, "status": "failed"}
            events.append(ItemEnded(index, final))
        self._open_searches.clear()
        return events


def _parse_input(arguments: str) -> Json | None:
    try:
        parsed = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return None
    return parsed if isinstance(parsed, dict) else None
