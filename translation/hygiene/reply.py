"""Normalizes the calls of a translated reply: unique ids, a limited number of calls, warnings about invalid ones."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from translation.hygiene.call_tracker import CallRules, ReplyCallTracker, TrackedCall
from translation.hygiene.past_calls import with_call_ids_in_details
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation import items
from translation.representation.delta_runs import EventStage, TextKey, TextObserver
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
from translation.representation.item_indexes import ItemIndexes, with_index
from translation.representation.items import CALL_TYPES, NewId
from translation.representation.json_types import Item
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.tools.arguments import strip_code_fence

_ItemEvent: TypeAlias = Delta | PartStarted | PartEnded | ItemEnded | Annotated | Progressed
_ITEM_EVENTS: Final = (Delta, PartStarted, PartEnded, ItemEnded, Annotated, Progressed)

_NO_ANSWER_TEXT: Final = "The model ended its turn without an answer."
_INVALID_CALL_TEXT: Final = "The model made a tool call that cannot be run."


class ReplyNormalizer:
    """A stage of the reply that normalizes its calls. Text passes unchanged. `next_stage` gets every batch afterwards.

    A call gets a new id if a call of the history or of this reply has the same one. The id is also changed in the
    details that the upstream signed for the call. Code fences around arguments are removed. Arguments that cannot be
    read stay unchanged. Calls over the profile's limit are left out. Warnings about both are in a `Noted` event
    (`TOOL_WARNINGS`) before the end. If the profile has `fix_empty_final`, a reply without an answer gets one: its
    reasoning, or else a fixed sentence. No other text is ever added to a reply.
    """

    def __init__(
        self,
        turn: Turn,
        profile: Profile,
        new_id: NewId,
        next_stage: EventStage | None = None,
    ) -> None:
        rules = CallRules(used_ids=turn.call_pairs.call_ids, max_args_bytes=profile.max_tool_args_bytes)
        self._tracker = ReplyCallTracker(rules)
        self._max_calls = profile.max_tool_calls_per_turn
        # Calls in text are checked by the decoder of that text.
        self._checks_arguments = profile.tool_parser == "openai" and profile.text_tool_calls == "none"
        self._awaits_answer = bool(profile.fix_empty_final)
        """Whether there was no answer yet, and a reply without one has to be fixed."""
        self._new_id = new_id
        self._next_stage = next_stage
        self._open_calls: dict[int, TrackedCall] = {}
        self._started_ids: dict[str, str] = {}
        """Ids of the calls that have started, by the upstream's id."""
        self._reserved_ids: dict[str, str] = {}
        """New ids of calls that were named in details and have not started yet, by the upstream's id."""
        self._indexes = ItemIndexes()
        """The indexes in the output. Calls that are left out have none."""
        self._call_count = 0
        self._has_dropped_calls = False
        self._changed = False
        self._reasoning_indexes: set[int] = set()
        self._reasoning_texts: list[str] = []

    def feed(self, batch: Sequence[Event]) -> Sequence[Event]:
        """Returns the batch with its calls normalized, after the next stage."""
        normalized = batch
        # Nine batches in ten are only text. This is a loop, because `all` would cost twice as much.
        for event in batch:
            if type(event) is not Delta or event.part_index is None or self._inspects_text:
                normalized = self._normalize(batch)
                break
        return normalized if self._next_stage is None else self._next_stage.feed(normalized)

    def delta_observers(self, text_key: TextKey) -> Sequence[TextObserver] | None:
        """Returns the observers of further deltas of the text if they pass unchanged; None if they must be fed."""
        index, part_index = text_key
        own_observers: Sequence[TextObserver] = ()
        if part_index is not None:
            if self._inspects_text:
                return None
        else:
            call = self._open_calls.get(index)
            if call is None or self._indexes[index] != index:
                return None
            if call.is_json:
                if call.is_held is not False:
                    return None
                own_observers = (call.texts.append,)
        next_observers = () if self._next_stage is None else self._next_stage.delta_observers(text_key)
        return None if next_observers is None else (*own_observers, *next_observers)

    @property
    def _explanation(self) -> str:
        """The sentence for a reply without an answer and without reasoning."""
        return _INVALID_CALL_TEXT if self._tracker.warnings else _NO_ANSWER_TEXT

    @property
    def _inspects_text(self) -> bool:
        return self._has_dropped_calls or self._awaits_answer

    def _normalize(self, batch: Sequence[Event]) -> list[Event]:
        events: list[Event] = []
        for event in batch:
            if isinstance(event, _ITEM_EVENTS):
                index = event.index
                if index in self._open_calls:
                    self._continue_call(self._open_calls[index], event, events)
                elif (new_index := self._indexes.get(index)) is not None:
                    if new_index != index or self._awaits_answer or isinstance(event, ItemEnded):
                        self._forward_event(event, events)
                    else:
                        events.append(event)  # most events: a text of an item that keeps its place
                continue
            match event:
                case ItemStarted():
                    self._start(event, events)
                case Noted():
                    self._collect_warnings(event, events)
                case Finished():
                    self._finish(event, events)
                case Failed():
                    for index, call in self._open_calls.items():
                        self._release(call, self._indexes[index], events)
                    self._report_warnings(events)
                    events.append(event)
                case Opaque(index=int(index)):
                    if index in self._indexes:
                        events.append(self._indexes.move(event))
                case _:
                    events.append(event)
        return events

    def _start(self, event: ItemStarted, out: list[Event]) -> None:
        item = event.item
        is_call = item["type"] in CALL_TYPES
        if is_call and self._call_count == self._max_calls:
            self._has_dropped_calls = self._changed = True
            why = f"the call exceeds the limit of calls per turn ({self._max_calls})"
            self._tracker.warnings.append({"name": item["name"], "why": why})
            return
        index = self._indexes.add(event.index)
        if is_call:
            self._call_count += 1
            upstream_id = item["call_id"]
            item = self._with_unique_id(item)
            is_json = self._checks_arguments and item["type"] == "function_call"
            call = self._open_calls[event.index] = TrackedCall(upstream_id, item["call_id"], item["name"], is_json)
            if arguments := item.get("arguments"):
                call.texts.append(arguments)
                call.is_held = False
        elif item["type"] == "reasoning":
            self._reasoning_indexes.add(event.index)
        if item["type"] not in ("reasoning", "message"):
            self._awaits_answer = False
        out.append(ItemStarted(index, item))

    def _with_unique_id(self, item: Item) -> Item:
        upstream_id = item["call_id"]
        new_id = self._reserved_ids.pop(upstream_id, None) or self._tracker.claim_id(upstream_id)
        self._started_ids[upstream_id] = new_id
        if new_id == upstream_id:
            return item
        self._changed = True
        return {**item, "call_id": new_id}

    def _continue_call(self, call: TrackedCall, event: _ItemEvent, out: list[Event]) -> None:
        """Normalizes an event of a call that has started."""
        index = self._indexes[event.index]
        if isinstance(event, Delta) and call.is_json:
            text = call.add_text(event.text, holds_blanks=True)
            if call.is_held is not False:
                return
            if text is not event.text:
                event = replace(event, text=text)
        elif isinstance(event, PartEnded):
            self._release(call, index, out)
            if event.part is not None and call.is_json and isinstance(whole := event.part.get("arguments"), str):
                event = replace(event, part={**event.part, "arguments": strip_code_fence(whole)})
        elif isinstance(event, ItemEnded):
            self._release(call, index, out)
            del self._open_calls[event.index]
            if event.item is not None:
                event = replace(event, item=self._final_item(event.item, call))
            self._check_arguments(call, event)
        out.append(with_index(event, index))

    def _release(self, call: TrackedCall, index: int, out: list[Event]) -> None:
        """Writes the arguments that were held back, without their code fence."""
        if call.held_texts:
            out.append(Delta(index, None, call.release()))

    def _final_item(self, item: Item, call: TrackedCall) -> Item:
        ended = {**item, "call_id": call.id}
        if call.is_json and isinstance(arguments := item.get("arguments"), str):
            ended["arguments"] = strip_code_fence(arguments)
            call.texts[:] = [ended["arguments"]]
        return ended

    def _check_arguments(self, call: TrackedCall, event: ItemEnded) -> None:
        """Collects a warning about arguments that cannot be read.

        A call that was cut gets no warning, because its status shows it.
        """
        status = event.status if event.item is None else event.item.get("status")
        if call.is_json and status != "incomplete":
            self._tracker.check_arguments(call.name, "".join(call.texts))

    def _forward_event(self, event: _ItemEvent, out: list[Event]) -> None:
        """Forwards an event of an item that is not a call, and tracks whether there is an answer."""
        if isinstance(event, ItemEnded) and event.item is not None and isinstance(event.item.get("details"), list):
            for detail in event.item["details"]:
                self._reserve_id(detail)
            event = replace(event, item=with_call_ids_in_details(event.item, self._started_ids | self._reserved_ids))
        elif self._awaits_answer and isinstance(event, Delta):
            if event.index in self._reasoning_indexes:
                self._reasoning_texts.append(event.text)
            elif event.text.strip():
                self._awaits_answer = False
        elif isinstance(event, ItemEnded) and event.item is not None and event.item["type"] == "message":
            self._awaits_answer = self._awaits_answer and not event.item["content"]
        out.append(self._indexes.move(event))

    def _reserve_id(self, detail: object) -> None:
        match detail:
            case {"call_id": str(call_id)} if call_id not in self._started_ids:
                self._reserved_ids[call_id] = self._tracker.claim_id(call_id)

    def _collect_warnings(self, event: Noted, out: list[Event]) -> None:
        """Removes the warnings from an event. All warnings are reported at once, at the end."""
        facts = event.facts or {}
        if TOOL_WARNINGS in facts:
            self._tracker.warnings += facts[TOOL_WARNINGS]
            event = replace(event, facts={key: fact for key, fact in facts.items() if key != TOOL_WARNINGS} or None)
        if event.usage is not None or event.facts:
            out.append(event)

    def _report_warnings(self, out: list[Event]) -> None:
        if self._tracker.warnings:
            out.append(Noted(facts={TOOL_WARNINGS: self._tracker.warnings}))

    def _finish(self, event: Finished, out: list[Event]) -> None:
        if self._awaits_answer and event.reason == "stop":
            self._changed = True
            index = len(self._indexes)
            text = "".join(self._reasoning_texts).strip() or self._explanation
            out += [
                ItemStarted(index, items.new_message(self._new_id(items.ID_PREFIXES["message"]))),
                PartStarted(index, 0, items.new_output_text()),
                Delta(index, 0, text),
                PartEnded(index, 0),
                ItemEnded(index),
            ]
        self._report_warnings(out)
        if self._changed and event.response is not None:
            # The upstream's own output lacks the changes.
            response = {key: value for key, value in event.response.items() if key != "output"}
            event = replace(event, response=response)
        out.append(event)
