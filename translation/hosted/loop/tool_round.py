"""One round of the model in a response with hosted tools: its items, and the calls that it made."""

from collections.abc import Sequence
from typing import Final

from translation.hosted.calls import NO_ITEM, HostedCall
from translation.hosted.citations.cited_parts import CitedParts
from translation.hosted.loop.call_checks import CallChecks
from translation.hosted.loop.output_queue import OutputQueue
from translation.hosted.outcomes import build_skip
from translation.hosted.tools import ToolCatalogue
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.collector import TurnCollector
from translation.representation.delta_runs import TextKey, TextObserver
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    FinishReason,
    ItemEnded,
    ItemStarted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
    Usage,
)
from translation.representation.item_indexes import ItemIndexes
from translation.representation.items import CALL_TYPES, NewId
from translation.representation.json_types import Item, Json

_WHOLE_REASONS: Final = frozenset({"stop", "tool_calls", "other"})
"""Finish reasons of a round that was not cut, so that its calls are whole."""

_NOT_BESIDE_CLIENT_CALLS: Final = "Tool call skipped: it was made together with calls of the client"


class ToolRound:
    """Takes the events of one round, and puts the events of its items into `output`.

    `own_names` are the names of the client's own tools. `withdrawal` is the reason why the round has no hosted tools
    and is the last one; None if it has them. `cited_parts` replaces the markers in the answers.
    """

    def __init__(
        self,
        catalogue: ToolCatalogue,
        own_names: frozenset[str],
        checks: CallChecks,
        output: OutputQueue,
        new_id: NewId,
        withdrawal: str | None,
        cited_parts: CitedParts,
    ) -> None:
        self._catalogue = catalogue
        self._own_names = own_names
        self._checks = checks
        self._output = output
        self._new_id = new_id
        self._withdrawal = withdrawal
        self._cited_parts = cited_parts
        self._collector = TurnCollector()
        self._indexes = ItemIndexes()
        """The indexes of the items in the reply. Calls of hosted tools have none here."""
        self._open_calls: dict[int, HostedCall] = {}
        self._calls: dict[int, HostedCall] = {}
        self._client_calls: set[str] = set()
        """Ids of the calls and approvals that the client has to answer."""
        self._awaits_approval = False
        self._has_cut_call = False
        self.limit: str | None = None
        """The bound of the gateway that ended the reply with this round, as text; None if none did."""

    @property
    def usage(self) -> Usage | None:
        """The last token counts of the round."""
        return self._collector.usage

    @property
    def item_count(self) -> int:
        """The number of items of the round that are in the reply unchanged."""
        return len(self._indexes)

    @property
    def hosted_names(self) -> set[str]:
        """The names of the hosted tools that the model called."""
        return {call.model_name for call in self._calls.values()}

    def collect(self, batch: Sequence[Event]) -> None:
        """Collects a batch for the input of the next round, before its events are taken one by one."""
        self._collector.feed(batch)

    def start_item(self, event: ItemStarted) -> None:
        """Takes the start of an item, which may be a call of a hosted tool."""
        item = event.item
        if self._is_hosted_call(item):
            self._start_call(event.index, item)
            return
        self._track_client_call(item)
        index = self._indexes.add(event.index, self._output.take_index())
        self._output.put(ItemStarted(index, item))

    def continue_item(
        self,
        event: PartStarted | Delta | PartEnded | ItemEnded | Annotated | Progressed | Opaque,
    ) -> None:
        """Takes any other event of an item."""
        round_index = event.index or 0
        if (call := self._open_calls.get(round_index)) is not None:
            if isinstance(event, Delta):
                self._extend_arguments(call, event.text)
            elif isinstance(event, ItemEnded):
                del self._open_calls[round_index]
                self._end_call(call, event)
            return
        if round_index in self._calls:
            return  # An event of the upstream's own about a call that has ended.
        self._output.put(*self._cited_parts.feed(self._indexes.move(event)))

    def observe_text(self, text_key: TextKey) -> tuple[TextKey, TextObserver] | None:
        """Returns the key of a text in the reply, and what must be called with its deltas if they are not taken here.

        None if they have to be: they are arguments of a hosted tool, they wait for a call, or they may have markers.
        """
        index, part_index = text_key
        if index not in self._indexes or self._output.is_waiting:
            return None
        sent_key = (self._indexes[index], part_index)
        if self._cited_parts.has_text(sent_key):
            return None
        return sent_key, self._collector.text_appender(text_key)

    def join_warnings(self, facts: Json, warnings: list[Json]) -> Json:
        """Returns the facts of the round. Its `warnings` about calls are joined with the ones of earlier rounds.

        Problems of a call of a hosted tool are in its item instead.
        """
        joined = {**facts}
        if own := joined.pop(TOOL_WARNINGS, None):
            warnings += [warning for warning in own if warning.get("name") not in self.hosted_names]
            if warnings:
                joined[TOOL_WARNINGS] = [*warnings]
        return joined

    def finish(self, reason: FinishReason) -> FinishReason | None:
        """Ends the round. Returns the reason why the reply ends with it; None if the reply continues.

        If the round was cut, none of its calls is run.
        """
        if self._has_cut_call or reason not in _WHOLE_REASONS:
            self.abandon_calls()
        if reason not in _WHOLE_REASONS:
            return reason
        if self._has_cut_call:
            return "length"
        if self._client_calls:
            if not self._checks.runs_with_client_calls:
                self._skip_calls()
            return reason
        if self._awaits_approval:
            return "stop"
        if not self._calls:
            return reason
        if self._withdrawal is None:
            return None
        self.limit = self._withdrawal
        return "length"

    def _skip_calls(self) -> None:
        """Settles calls whose results the model could not read, because the next request does not have them."""
        for call in self._calls.values():
            if not call.is_settled:
                call.outcome = build_skip(_NOT_BESIDE_CLIENT_CALLS)
        self._output.release()

    def abandon_calls(self) -> None:
        """Ends all calls of a round that failed or was cut. None of them is run."""
        for call in self._calls.values():
            call.is_incomplete = not call.is_settled or call.is_incomplete
        self._output.release()
        for call in self._open_calls.values():
            if call.has_item:
                self._output.put_call(call)

    def entries(self) -> list[tuple[int, Item | HostedCall]]:
        """Returns the items and the calls of the round in their order, each with its index in the reply."""
        entries: list[tuple[int, Item | HostedCall]] = []
        for round_index, item in enumerate(self._collector.items):
            call = self._calls.get(round_index)
            entries.append((self._indexes[round_index], item) if call is None else (call.index, call))
        return entries

    def _is_hosted_call(self, item: Item) -> bool:
        """Whether an item is a call of a hosted tool, or of a tool that does not exist."""
        is_function = item["type"] == "function_call" and not item.get("namespace")
        return is_function and item.get("name") not in self._own_names

    def _track_client_call(self, item: Item) -> None:
        item_type, call_id = item["type"], item.get("call_id")
        if item_type == "mcp_approval_request":
            self._client_calls.add(item["id"])
        elif call_id and (item_type in CALL_TYPES or item_type.endswith("_call")):
            self._client_calls.add(call_id)
        elif call_id:  # The output of a call that the upstream ran itself.
            self._client_calls.discard(call_id)

    def _start_call(self, round_index: int, item: Item) -> None:
        name: str = item.get("name") or ""
        tool = self._catalogue.find(name)
        call = HostedCall(
            item_id=self._new_id("mcp" if tool is None else tool.form.id_prefix),
            call_id=item["call_id"],
            key=self._catalogue.guess_key(name) if tool is None else tool.key,
            model_name=name,
            tool=tool,
            index=NO_ITEM,
        )
        if not call.needs_approval:
            call.index = self._output.take_index()
        self._open_calls[round_index] = self._calls[round_index] = call
        if call.has_item:
            self._output.put(*call.build_start_events())
        self._extend_arguments(call, item.get("arguments"))

    def _extend_arguments(self, call: HostedCall, text: str | None) -> None:
        if text:
            call.append_arguments(text)
            if call.has_item:
                self._output.put(*call.build_delta_events(text))

    def _end_call(self, call: HostedCall, event: ItemEnded) -> None:
        """Ends the arguments of a call, and decides whether it is run."""
        item = event.item or {}
        is_cut = (item.get("status") or event.status) == "incomplete"
        whole = item.get("arguments")
        if not call.arguments:
            self._extend_arguments(call, whole or ("" if is_cut else "{}"))
        call.arguments = whole or call.arguments
        is_too_long = call.is_longer_than(self._checks.max_argument_bytes)
        if is_too_long and not is_cut:
            self.limit = f"Tool call skipped: its arguments have more than {self._checks.max_argument_bytes} bytes"
        call.is_incomplete = is_cut or is_too_long
        self._has_cut_call = self._has_cut_call or call.is_incomplete
        if not call.is_incomplete:
            self._checks.settle_unless_runnable(call, withdrawal=self._withdrawal)
        if call.has_item:
            self._output.put(*call.build_arguments_events())
        elif (
            call.is_settled or (tool := call.tool) is None
        ):  # It could not be run if it were approved: the model reads why.
            call.index = self._output.take_index()
            self._output.put(*call.build_whole_events())
        else:
            self._awaits_approval = True
            self._output.put_approval_request(call, tool, self._new_id("mcpr"))
            return
        self._output.put_call(call)
