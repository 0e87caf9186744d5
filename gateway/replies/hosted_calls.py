"""Removes the calls that the gateway ran from replies of APIs that cannot show them, such as chat.

One reply may consist of several answers of the model, with calls between them. An API whose reply has a single text
gets the texts of all answers, joined as paragraphs.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from translation.chat.reply_objects import MCP_CALLS, PARAGRAPH_GAP
from translation.representation.delta_runs import TextKey
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
)
from translation.representation.item_indexes import ItemIndexes
from translation.representation.items import move_annotation
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss

_ItemEvent: TypeAlias = PartStarted | Delta | PartEnded | ItemEnded | Annotated | Progressed | Opaque

_LISTS: Final = "mcp_list_tools"
_MCP_CALL: Final = "mcp_call"
_TEXT_KINDS: Final = ("message", "reasoning")
_SUMMARY: Final = "summary_text"
_UPSTREAM_ONLY: Final = "details"


class HostedCallsStage:
    """A stage that removes the items of hosted tools from a reply.

    With `joins_texts`, for an API that has one text for all rounds, text and reasoning that follow calls are paragraphs
    of their own. `call_types` are the types of the items of calls that are removed; they are reported as a fact before
    the end, for clients that request this. A list of tools that failed is a loss: the model answers without these
    tools. Calls of `visible_servers`, which the request names, remain.
    """

    def __init__(
        self,
        report_loss: Callable[[Loss], None],
        *,
        call_types: Collection[str] = (_MCP_CALL,),
        joins_texts: bool = True,
        visible_servers: Collection[str] = (),
    ) -> None:
        self._report_loss = report_loss
        self._call_types = call_types
        self._visible_servers = visible_servers
        self._joins_texts = joins_texts
        self._hidden: set[int] = set()
        """The indexes of items that are left out."""
        self._indexes = ItemIndexes()
        """The indexes of all other items in the output."""
        self._calls: list[Item] = []
        self._kinds: dict[int, str] = {}
        """The types of items with text, by their indexes in the input."""
        self._kinds_with_text: set[str] = set()
        self._kinds_before_calls: set[str] = set()
        """The types of items with text before calls: the next item of such a type begins with a gap."""
        self._gapped: set[int] = set()
        """The indexes of items that begin with a gap."""
        self._gap_index: int | None = None
        """The index of the item whose leading gap is pending."""

    def delta_observers(self, _text_key: TextKey) -> None:
        """Returns None: every delta has to be fed."""
        return

    def feed(self, batch: Sequence[Event]) -> list[Event]:
        """Returns the events of a batch without the items of hosted tools."""
        events: list[Event] = []
        for event in batch:
            match event:
                case ItemStarted():
                    self._start_item(event, events)
                case Opaque(index=None):
                    events.append(event)
                case Delta() | PartStarted() | PartEnded() | ItemEnded() | Annotated() | Progressed() | Opaque():
                    self._continue_item(event, events)
                case Finished() | Failed():
                    if self._calls:
                        events.append(Noted(facts={MCP_CALLS: self._calls}))
                    events.append(event)
                case _:
                    events.append(event)
        return events

    def _start_item(self, event: ItemStarted, events: list[Event]) -> None:
        kind = event.item["type"]
        is_call = kind in self._call_types and not self._is_visible(event.item)
        if is_call or kind == _LISTS:
            self._hidden.add(event.index)
            if is_call:
                self._kinds_before_calls |= self._kinds_with_text
            return
        index = self._indexes.add(event.index)
        if kind in _TEXT_KINDS:
            self._kinds[event.index] = kind
        if self._joins_texts and kind in self._kinds_before_calls:
            self._kinds_before_calls.remove(kind)
            self._gap_index = event.index
            self._gapped.add(event.index)
        events.append(ItemStarted(index, event.item))

    def _continue_item(self, event: _ItemEvent, events: list[Event]) -> None:
        source_index = event.index or 0
        if source_index in self._hidden:
            if isinstance(event, ItemEnded) and event.item is not None:
                self._take_hidden(event.item)
            return
        moved = self._indexes.move(event)
        kind = self._kinds.get(source_index)
        if isinstance(moved, PartStarted) and moved.part.get("type") == _SUMMARY:
            self._gapped.discard(source_index)  # summaries are always paragraphs
        elif isinstance(moved, Delta) and kind is not None and moved.text:
            self._kinds_with_text.add(kind)
            if source_index in self._gapped and source_index == self._gap_index:
                self._gap_index = None
                moved = replace(moved, text=PARAGRAPH_GAP + moved.text)
        elif isinstance(moved, Annotated) and source_index in self._gapped and moved.part_index == 0:
            moved = replace(moved, annotation=move_annotation(moved.annotation, len(PARAGRAPH_GAP)))
        elif source_index in self._gapped and isinstance(moved, PartEnded) and moved.part is not None:
            if moved.part_index == 0:
                moved = replace(moved, part=_with_gap(moved.part))
        elif isinstance(moved, ItemEnded) and moved.item is not None and kind is not None:
            self._kinds_with_text.add(kind)
            if source_index in self._gapped and moved.item.get("content"):
                first, *others = moved.item["content"]
                moved = replace(moved, item={**moved.item, "content": [_with_gap(first), *others]})
        events.append(moved)

    def _is_visible(self, item: Item) -> bool:
        return item["type"] == _MCP_CALL and item["server_label"] in self._visible_servers

    def _take_hidden(self, item: Json) -> None:
        if item["type"] != _LISTS:
            self._calls.append({key: value for key, value in item.items() if key != _UPSTREAM_ONLY})
        elif item.get("error") and not item["tools"]:
            self._report_loss(build_server_loss(item["server_label"]))


def build_server_loss(label: str) -> Loss:
    """Returns the loss of a request whose model does not get the tools of an unreachable server."""
    return Loss("tools", f"MCP server {label} left out")


def _with_gap(part: Json) -> Json:
    """Returns an upstream's final part with the same leading gap as its first delta."""
    if not part.get("text"):
        return part
    moved = {**part, "text": PARAGRAPH_GAP + part["text"]}
    if part.get("annotations"):
        moved["annotations"] = [move_annotation(each, len(PARAGRAPH_GAP)) for each in part["annotations"]]
    return moved
