"""Opens and closes items for upstreams whose wire has no structure of its own: text, reasoning, calls."""

from collections.abc import Hashable
from typing import Final

from translation.representation import items
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    FinishReason,
    ItemEnded,
    ItemStarted,
    ItemStatus,
    PartEnded,
    PartStarted,
    Usage,
)
from translation.representation.items import NewId
from translation.representation.json_types import Item, Json

_BLOCK_KINDS = {
    "text": ("message", items.new_message, items.new_output_text),
    "refusal": ("message", items.new_message, items.new_refusal),
    "reasoning": ("reasoning", items.new_reasoning, items.new_reasoning_text),
    "summary": ("reasoning", items.new_reasoning, items.new_summary_text),
}
"""Noun -> (item type, item constructor, part constructor)."""

_CALL_CONSTRUCTORS = {"function_call": items.new_function_call, "custom_tool_call": items.new_custom_tool_call}
"""Kind of call -> item constructor."""

_MAX_REASON_CHARS: Final = 100
"""Characters of an upstream's own word for its end that are told on."""


class ItemWriter:
    """Numbers items from 0 as they appear. One block (message or reasoning) is open at a time; calls interleave.

    Every method returns the events it caused, in order.
    """

    def __init__(self, new_id: NewId) -> None:
        self.item_count = 0
        """How many items were started so far."""
        self._new_id = new_id
        self._block_kind: str | None = None
        self._block_item_type = ""
        self._block_start: Item = {}
        self._block_index = -1
        self._part_index = -1
        self._calls: dict[Hashable, int] = {}

    @property
    def current_block(self) -> Item | None:
        """The open message or reasoning item, as it was started."""
        return None if self._block_kind is None else self._block_start

    def write_block(self, kind: str, text: str, logprobs: list[Json] | None = None) -> list[Event]:
        """Text of a noun (`text`, `refusal`, `reasoning`, `summary`), opening and closing blocks as needed.

        A refusal after text (or the other way round) is a further part of the same message.
        """
        if kind == self._block_kind:
            return [Delta(self._block_index, self._part_index, text, logprobs)]
        item_type, new_item, new_part = _BLOCK_KINDS[kind]
        events: list[Event] = []
        if self._block_kind is not None and item_type == self._block_item_type:
            events.append(PartEnded(self._block_index, self._part_index))
            self._part_index += 1
        else:
            if self._block_kind is not None:
                events += self.close_block()
            self._block_start = new_item(self._new_id(items.ID_PREFIXES[item_type]))
            self._block_index = self._start_item(self._block_start, events)
            self._part_index = 0
        self._block_kind, self._block_item_type = kind, item_type
        events.append(PartStarted(self._block_index, self._part_index, new_part()))
        events.append(Delta(self._block_index, self._part_index, text, logprobs))
        return events

    def annotate(self, annotation: Json) -> list[Event]:
        """A citation on the open text; nothing where no text is open."""
        return [Annotated(self._block_index, self._part_index, annotation)] if self._block_kind == "text" else []

    def open_call(
        self, key: Hashable, *, name: str, call_id: str, arguments: str = "", kind: str = "function_call"
    ) -> list[Event]:
        """Open a call under `key` (any hashable the decoder tells calls apart by), closing an open block.

        `kind` is the item type: `function_call` or `custom_tool_call`, whose input is written like arguments.
        """
        events = self.close_block()
        item_id = self._new_id(items.ID_PREFIXES[kind])
        self._calls[key] = self._start_item(_CALL_CONSTRUCTORS[kind](item_id, call_id=call_id, name=name), events)
        if arguments:
            events.append(Delta(self._calls[key], None, arguments))
        return events

    def write_arguments(self, key: Hashable, text: str) -> list[Event]:
        """More arguments for an open call; nothing for empty text."""
        return [Delta(self._calls[key], None, text)] if text else []

    def write_item(self, whole: Item) -> list[Event]:
        """One item that is complete as it stands."""
        events = self.close_block()
        index = self._start_item(whole, events)
        events.append(ItemEnded(index, whole))
        return events

    def open_item(self, start: Item) -> list[Event]:
        """Open an item that its caller ends, closing an open block. Its index is `started`, less one."""
        events = self.close_block()
        self._start_item(start, events)
        return events

    def close_block(self, status: ItemStatus = "completed", final: Item | None = None) -> list[Event]:
        """End the open message or reasoning item, if any. `final` is its last form, if the deltas do not say it all."""
        if self._block_kind is None:
            return []
        self._block_kind, self._block_item_type = None, ""
        return [PartEnded(self._block_index, self._part_index), ItemEnded(self._block_index, final, status)]

    def close_call(self, key: Hashable, status: ItemStatus = "completed") -> list[Event]:
        """End one open call."""
        index = self._calls.pop(key)
        return [PartEnded(index, None), ItemEnded(index, status=status)]

    def close(self, status: ItemStatus = "completed") -> list[Event]:
        """End everything that is open. `status` is the last open item's; the ones before it are complete."""
        events: list[Event] = []
        if self._block_kind is None:
            keys = list(self._calls)
            for key in keys[:-1]:
                events += self.close_call(key)
            for key in keys[-1:]:
                events += self.close_call(key, status)
            return events
        for key in list(self._calls):
            events += self.close_call(key)
        return events + self.close_block(status)

    def terminal_event(self, reason: FinishReason, raw_reason: str | None, usage: Usage | None) -> Finished | Failed:
        """What a turn ends in once all is closed. An end nobody here knows, with nothing said before it, is a failure:
        as an answer it would be an empty one that looks meant."""
        if reason != "other" or self.item_count:
            return Finished(reason, raw_reason, usage)
        word = str(raw_reason)[:_MAX_REASON_CHARS]
        told = f"the upstream ended without an answer, for a reason of its own: {word}"
        return Failed("upstream_error", told, usage=usage)

    def _start_item(self, item: Item, events: list[Event]) -> int:
        index = self.item_count
        self.item_count += 1
        events.append(ItemStarted(index, item))
        return index
