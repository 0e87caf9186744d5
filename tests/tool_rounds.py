"""Drives the loop of hosted tools without I/O: rounds as events, outcomes, and a check of every event it returns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final, TypeAlias

import orjson

from tests.unit.support.event_grammar import EventGrammar
from translation.hosted.bounds import LoopBounds
from translation.hosted.calls import HostedCall
from translation.hosted.elicitation.answers import UserInput
from translation.hosted.interruptions.interruption import Interruption
from translation.hosted.interruptions.sent_output import SentOutput
from translation.hosted.loop.tool_loop import ToolLoop
from translation.hosted.outcomes import ToolOutcome
from translation.hosted.past_hosted_calls import ApprovedCalls, resolve_history
from translation.hosted.tools import HostedTool, ToolCatalogue, ToolKey
from translation.representation import items
from translation.representation.collector import TurnCollector
from translation.representation.events import (
    Delta,
    Event,
    Failed,
    Finished,
    FinishReason,
    ItemEnded,
    ItemStarted,
    PartEnded,
    PartStarted,
    Started,
    Usage,
)
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn

ItemEvents: TypeAlias = Callable[[int], list[Event]]
"""Returns the events of an item for its index in the round."""

ADD_SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a"],
}


def hosted_tool(
    name: str = "add", server: str = "calc", *, parameters: Json = ADD_SCHEMA, needs_approval: bool = False, **more: Any
) -> HostedTool:
    key = ToolKey(server, name)
    return HostedTool(key=key, parameters=parameters, needs_approval=needs_approval, **more)


def function_tool(name: str) -> Json:
    return {"type": "function", "name": name, "parameters": {"type": "object"}}


def text(*pieces: str) -> ItemEvents:
    """Returns the events of a message."""

    def events(index: int) -> list[Event]:
        deltas = [Delta(index, 0, piece) for piece in pieces]
        started = ItemStarted(index, items.new_message(f"msg_{index}"))
        part = PartStarted(index, 0, items.new_output_text())
        return [started, part, *deltas, PartEnded(index, 0), ItemEnded(index)]

    return events


def call(
    name: str = "calc_add", arguments: str = '{"a": 1}', call_id: str = "call_1", *, is_cut: bool = False
) -> ItemEvents:
    """Returns the events of a function call."""

    def events(index: int) -> list[Event]:
        started = ItemStarted(index, items.new_function_call(f"fc_{index}", call_id=call_id, name=name))
        deltas = [Delta(index, None, arguments)] if arguments else []
        end: list[Event] = [PartEnded(index, None), ItemEnded(index, None, "incomplete" if is_cut else "completed")]
        return [started, *deltas, *end]

    return events


def whole(item: Item) -> ItemEvents:
    """Returns the events of an item without deltas."""
    return lambda index: [ItemStarted(index, item), ItemEnded(index, item)]


def round_of(
    *parts: ItemEvents, reason: FinishReason = "stop", usage: Usage | None = None, response: Json | None = None
) -> list[Event]:
    """Returns the events of a round with these items, one after another."""
    events: list[Event] = [Started("m")]
    for index, part in enumerate(parts):
        events += part(index)
    return [*events, Finished(reason, usage=usage, response=response)]


def failed_round(*parts: ItemEvents) -> list[Event]:
    """Returns the events of a round that fails after these items."""
    return [*round_of(*parts)[:-1], Failed("server_error", "broken", usage=Usage(output=1))]


class LoopDriver:
    """Drives one loop. `events` are all events that it returned, checked by the grammar."""

    def __init__(
        self,
        *tools: HostedTool,
        own: Sequence[Json] = (),
        past: Sequence[Item] = (),
        approved_ids: Iterable[str] = (),
        changed_ids: Sequence[str] = (),
        inputs: Mapping[str, UserInput] | None = None,
        bounds: LoopBounds | None = None,
        own_tools: Sequence[HostedTool] = (),
        first_id: int = 1,
        **params: Any,
    ) -> None:
        catalogue = ToolCatalogue.build(tools, [tool["name"] for tool in own if "name" in tool], own_tools)
        history = resolve_history(
            past, catalogue.name_of, approved_ids=frozenset(approved_ids), continued_ids=inputs or ()
        )
        numbers = count(first_id)
        turn = Turn(model="m", items=history.items, tools=own, **params)
        self.loop = ToolLoop(
            turn,
            catalogue,
            ApprovedCalls(history.approved, changed_ids, inputs or {}),
            bounds or LoopBounds(),
            lambda prefix: f"{prefix}_new_{next(numbers)}",
        )
        self.events: list[Event] = []
        self._grammar = EventGrammar()

    def take(self, events: Sequence[Event]) -> list[Event]:
        """Checks events that the loop returned."""
        self._grammar.check(events)
        self.events += events
        return [*events]

    def interrupt(
        self, progress: Json | None, events: Sequence[Event], *tools: HostedTool, **more: Any
    ) -> "LoopDriver":
        """Returns the driver of a loop that goes on from this progress of the loop, and from the events that were sent.

        `tools` and `more` are those of the first driver.
        """
        saved = None if progress is None else orjson.loads(orjson.dumps(progress))
        interruption = Interruption(saved, SentOutput(events))
        past = [*more.pop("past", ()), *interruption.context_items]
        resumed = LoopDriver(*tools, past=past, first_id=1000 + len(events), **more)
        resumed.take(events)
        resumed.take(resumed.loop.resume(interruption))
        return resumed

    def ask(self) -> Turn:
        """Returns the turn of the next round, which there must be."""
        turn = self.loop.build_next_turn()
        assert turn is not None
        return turn

    def feed(self, events: Sequence[Event]) -> list[Event]:
        """Feeds events one at a time. Returns the events to send."""
        return [sent for event in events for sent in self.take(self.loop.feed([event]))]

    def settle(self, hosted_call: HostedCall, outcome: ToolOutcome | str = "3") -> list[Event]:
        """Settles a call, with a text or another outcome."""
        settled = outcome if isinstance(outcome, ToolOutcome) else ToolOutcome(output=outcome)
        return self.take(self.loop.settle_call(hosted_call, settled))

    def run_round(self, *parts: ItemEvents, outcome: ToolOutcome | str = "3", **more: Any) -> Turn:
        """Runs a whole round and all of its calls. Returns its turn."""
        turn = self.ask()
        self.run_events(*parts, **more)
        for hosted_call in self.loop.pending_calls:
            self.settle(hosted_call, outcome)
        return turn

    def run_events(self, *parts: ItemEvents, **more: Any) -> None:
        """Runs a whole round, whose turn was taken, up to its calls."""
        self.feed(round_of(*parts, **more))
        self.take(self.loop.send_approval_requests())

    def finish(self) -> Finished | Failed:
        """Ends the reply, which must be complete. Returns its terminal event."""
        assert self.loop.build_next_turn() is None
        assert self.loop.pending_calls == []
        (end,) = self.take(self.loop.build_end_events())
        self._grammar.finish()
        assert isinstance(end, Finished | Failed)
        return end

    @property
    def output(self) -> list[Item]:
        """The items of the reply as they are now."""
        collector = TurnCollector()
        collector.feed(self.events)
        return collector.items

    @property
    def types(self) -> list[str]:
        """The types of the items of the reply."""
        return [item["type"] for item in self.output]
