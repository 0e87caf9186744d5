"""Opens and closes items for upstreams whose wire format has no items: only text, reasoning and calls."""

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
from translation.representation.token_logprobs import TokenLogprobs

_BLOCK_KINDS = {
    "text": ("message", items.new_message, items.new_output_text),
    "refusal": ("message", items.new_message, items.new_refusal),
    "reasoning": ("reasoning", items.new_reasoning, items.new_reasoning_text),
    "summary": ("reasoning", items.new_reasoning, items.new_summary_text),
}
"""Kind of block -> (item type, item constructor, part constructor)."""

_REPORTED_KINDS: Final = frozenset({"text", "refusal"})
"""The kinds of block whose log probabilities APIs report."""

_CALL_CONSTRUCTORS = {"function_call": items.new_function_call, "custom_tool_call": items.new_custom_tool_call}
"""Item type of a call -> item constructor."""

_USUAL_REASONS: Final = ("stop", "tool_calls")
"""The reasons of replies that were not cut off."""


class ItemWriter:
    """Builds the item and part events of one turn.

    Items are numbered from 0 in order of appearance. One block (message or reasoning) is open at a time; calls may
    interleave. Every method but `terminal_event` returns the events it caused, in order.
    """

    def __init__(self, new_id: NewId) -> None:
        self.item_count = 0
        """The number of items started so far."""
        self._new_id = new_id
        self._block_kind: str | None = None
        self._block_item_type = ""
        self._block_start: Item = {}
        self._block_index = -1
        self._part_index = -1
        self._calls: dict[Hashable, int] = {}
        self._logprobs: TokenLogprobs | None = None

    @property
    def current_block(self) -> Item | None:
        """The open message or reasoning item as it was started; None if no block is open."""
        return None if self._block_kind is None else self._block_start

    @property
    def is_in_text(self) -> bool:
        """Whether a text part is open, to which citations can be added."""
        return self._block_kind == "text"

    def add_logprobs(self, logprobs: list[Json] | None) -> None:
        """Adds the log probabilities of tokens whose text will be written, in the full Responses form.

        They are sent with their text: `TokenLogprobs` says how they are found. Those of reasoning and of calls, which
        no API reports, are dropped.
        """
        if logprobs:
            if self._logprobs is None:
                self._logprobs = TokenLogprobs()
            self._logprobs.add(logprobs)

    def write_block(self, kind: str, text: str) -> list[Event]:
        """Writes text of one kind (`text`, `refusal`, `reasoning`, `summary`); opens and closes blocks as needed.

        A refusal after text, or text after a refusal, becomes a further part of the same message.
        """
        logprobs = None
        if self._logprobs is not None:
            text_logprobs = self._logprobs.take(text)
            logprobs = text_logprobs if kind in _REPORTED_KINDS else None
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
        """Adds a citation to the open text part. Returns no event if no text part is open."""
        return [Annotated(self._block_index, self._part_index, annotation)] if self.is_in_text else []

    def open_call(
        self, key: Hashable, *, name: str, call_id: str, arguments: str = "", kind: str = "function_call"
    ) -> list[Event]:
        """Opens a call under `key`, and closes an open block. `key` is any hashable by which the decoder knows the
        call.

        `kind` is the item type: `function_call` or `custom_tool_call`, whose input is written like arguments.
        """
        if self._logprobs is not None:
            self._logprobs.clear()
        events = self.close_block()
        item_id = self._new_id(items.ID_PREFIXES[kind])
        self._calls[key] = self._start_item(_CALL_CONSTRUCTORS[kind](item_id, call_id=call_id, name=name), events)
        if arguments:
            events.append(Delta(self._calls[key], None, arguments))
        return events

    def write_arguments(self, key: Hashable, text: str) -> list[Event]:
        """Appends to the arguments of an open call. Returns no event for empty text."""
        return [Delta(self._calls[key], None, text)] if text else []

    def write_item(self, whole: Item) -> list[Event]:
        """Starts and ends an item that is already complete, and closes an open block."""
        events = self.close_block()
        index = self._start_item(whole, events)
        events.append(ItemEnded(index, whole))
        return events

    def open_item(self, start: Item) -> list[Event]:
        """Opens an item that the caller ends, and closes an open block. The index of the item is `item_count - 1`."""
        events = self.close_block()
        self._start_item(start, events)
        return events

    def close_block(self, status: ItemStatus = "completed", final: Item | None = None) -> list[Event]:
        """Ends the open message or reasoning item, if any.

        `final` is the complete item, for an item that holds more than its deltas add up to.
        """
        if self._block_kind is None:
            return []
        self._block_kind, self._block_item_type = None, ""
        return [PartEnded(self._block_index, self._part_index), ItemEnded(self._block_index, final, status)]

    def close_call(self, key: Hashable, status: ItemStatus = "completed") -> list[Event]:
        """Ends one open call."""
        index = self._calls.pop(key)
        return [PartEnded(index, None), ItemEnded(index, status=status)]

    def close(self, status: ItemStatus = "completed") -> list[Event]:
        """Ends all open items. The last of them gets `status`; the others end as `completed`."""
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

    def terminal_event(
        self, reason: FinishReason, raw_reason: str | None, usage: Usage | None, explanation: str | None = None
    ) -> Finished | Failed:
        """Returns the terminal event of the turn, to be sent once all items are closed.

        An unknown finish reason (`other`) without any item is a failure: the client could not tell it from an
        intended empty answer. `explanation`: the upstream's words on the end, which are kept if it cut the answer off.
        Gemini also has some for each reply with calls, which say nothing more.
        """
        if reason != "other" or self.item_count:
            is_usual = reason in _USUAL_REASONS
            return Finished(reason, raw_reason, usage, explanation=None if is_usual else explanation)
        unknown = Finished(reason, str(raw_reason)).unknown_reason
        message = f"the upstream sent no output and ended with an unknown finish reason: {unknown}"
        return Failed("upstream_error", message, usage=usage)

    def _start_item(self, item: Item, events: list[Event]) -> int:
        index = self.item_count
        self.item_count += 1
        events.append(ItemStarted(index, item))
        return index
