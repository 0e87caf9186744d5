"""The loop of a model and hosted tools: joins any number of rounds into one reply.

It does no I/O. The caller feeds it the events of each round, runs the calls that it names, and gives it their outcomes.
Rounds are turns as any upstream can be sent: hosted tools are functions in them, and their results are outputs.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from translation.hosted.approvals import ApprovalRequest
from translation.hosted.bounds import LoopBounds
from translation.hosted.call_checks import CallChecks
from translation.hosted.calls import HostedCall, build_approved_call, build_model_items
from translation.hosted.elicitation.answers import UserInput
from translation.hosted.elicitation.forms import RequestedInput
from translation.hosted.interruptions.interruption import (
    Interruption,
    list_unsent_entries,
    restore_entries,
    restore_usage,
    save_entries,
    save_usage,
)
from translation.hosted.interruptions.saved_queue import restore_queue, save_queue
from translation.hosted.outcomes import ToolOutcome
from translation.hosted.output_queue import OutputQueue
from translation.hosted.past_hosted_calls import ApprovedCall
from translation.hosted.result_reader import ResultReader
from translation.hosted.tool_choice import RoundChoices
from translation.hosted.tool_round import ToolRound
from translation.hosted.tools import ToolCatalogue
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.delta_runs import TextKey, TextObserver
from translation.representation.events import (
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    Progressed,
    Started,
    Usage,
    add_usage,
)
from translation.representation.items import NewId
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn

_MIN_OUTPUT_TOKENS: Final = 16
"""The smallest `max_output_tokens` that the Responses API takes. With less left, the reply ends."""

_NO_USAGE: Final = Usage(input=0, output=0, cache_read=0, reasoning=0)
"""The usage of a reply for which no model was asked."""

_ROUND_KEYS: Final = frozenset({"output", "usage"})
"""Keys of an upstream's own response that are true of its round only."""


class ToolLoop:
    """Joins the rounds of one response.

    `turn` has the client's own tools; its items are in terms of function calls (see `resolve_history`), and the calls
    that the client approved are in `approved`: if there are any, `start_approved_calls` comes before the first round.
    `inputs` has the user's input for some of them, by the ids of their requests: these calls continue where they
    stopped. The tools of `changed_ids` have changed since: their calls are put to the client again, and the reply ends
    without asking the model. `new_id` makes ids. `reader` has the results of the history that were cut. `sources` comes
    from `ResolvedHistory`. Raises InvalidRequest for a tool choice that cannot be met.
    """

    def __init__(
        self,
        turn: Turn,
        catalogue: ToolCatalogue,
        approved: Sequence[ApprovedCall],
        bounds: LoopBounds,
        new_id: NewId,
        *,
        changed_ids: Container[str] = (),
        inputs: Mapping[str, UserInput] | None = None,
        reader: ResultReader | None = None,
        sources: Mapping[str, Sequence[Item]] | None = None,
    ) -> None:
        self.dropped_outcomes = 0
        """The number of outcomes that were not used, because their call was settled already."""
        self.is_resumed = False
        """Whether `resume` took over calls of a round that had ended."""
        self._turn = turn
        self._catalogue = catalogue
        self._bounds = bounds
        self._new_id = new_id
        self.reader: Final = reader or ResultReader(bounds.result_chars)
        """The results that were cut for the model, and the executor of its calls to read on in them."""
        self._choices = RoundChoices(turn, catalogue)
        self._checks = CallChecks(catalogue, bounds)
        self._output = OutputQueue()
        self._items: list[Item] = [*turn.items]
        self._own_names = frozenset(tool["name"] for tool in turn.tools if tool.get("name"))
        self._approvals = approved
        self._changed_ids = changed_ids
        self._inputs = inputs or {}
        self._approved: list[HostedCall] = []
        self._round: ToolRound | None = None
        self._round_count = 0
        self._finished: Finished | None = None
        """The end of the round; None before it."""
        self._usage: Usage | None = None
        self._round_usage: Usage | None = None
        self._summary_usage: Usage | None = None
        """The usage of the summaries that replaced parts of the context."""
        self.sources: Final[dict[str, Sequence[Item]]] = {**(sources or {})}
        """The items of the API for the calls that the model has read, by their `call_id`."""
        self._warnings: list[Json] = []
        self._interrupted: list[Item | HostedCall] = []
        """The part of the round before an interruption that the model has to read, besides the items of the turn."""
        self._is_started = False
        self._end: Finished | Failed | None = None

    def save_progress(self) -> Json:
        """Returns the progress of the loop as JSON. It is saved when a round has ended, before its calls are run."""
        unsettled = self._output.unsettled_calls
        entries = self._round.entries() if self._round is not None and unsettled else ()
        return {
            "round": self._round_count,
            "items": self._output.item_count,
            "usage": save_usage(self._usage),
            "summary_usage": save_usage(self._summary_usage),
            "warnings": self._warnings,
            "checks": self._checks.save(),
            "queue": save_queue(self._output.waiting),
            "entries": save_entries(entries, unsettled[0].index if unsettled else 0),
            "reason": None if self._finished is None else self._finished.reason,
            "end": self._end.reason if isinstance(self._end, Finished) else None,
        }

    def resume(self, interruption: Interruption) -> list[Event]:
        """Continues an interrupted loop, in place of `start`. Returns events that end the items which it left open.

        The items of the turn are then followed by the context items of the interruption. The calls that had not ended
        are pending. The round that was interrupted is sampled again.
        """
        progress, sent = interruption
        self._is_started = True
        if progress is None:
            self._output.restore(sent.item_count, ())
            return [*sent.build_end_events(spared=())]
        self.is_resumed = True
        self._round_count, self._warnings = progress["round"], [*progress["warnings"]]
        self._usage = restore_usage(progress["usage"])
        self._summary_usage = restore_usage(progress.get("summary_usage"))  # older servers save none
        self._finished = None if progress["reason"] is None else Finished(progress["reason"])
        self._end = None if progress["end"] is None else Finished(progress["end"])
        queue = restore_queue(list_unsent_entries(progress["queue"], sent), self._catalogue, self._inputs)
        calls = {entry.item_id: entry for entry in queue if isinstance(entry, HostedCall)}
        self._checks.restore(progress["checks"], [each for each in calls.values() if not each.is_settled])
        self._interrupted = restore_entries(progress["entries"], calls, sent)
        approved = {call.approval_request_id: call for call in calls.values() if call.approval_request_id is not None}
        self._approvals = [approval for approval in self._approvals if approval.approval_request_id in approved]
        self._approved = [approved[approval.approval_request_id] for approval in self._approvals]
        self._output.restore(max(progress["items"], sent.item_count), queue)
        warnings = [Noted(facts={TOOL_WARNINGS: [*self._warnings]})] if self._warnings else []
        return [*warnings, *sent.build_end_events(spared={call.index for call in calls.values()}), *self._output.take()]

    @property
    def round_number(self) -> int:
        """The number of the round whose turn was returned last, from 1."""
        return self._round_count

    @property
    def round_usage(self) -> Usage | None:
        """The token counts of the round that ended last; None without such a round, or if it reported none."""
        return self._round_usage

    @property
    def is_ending(self) -> bool:
        """Whether no further round follows the calls that are pending."""
        return self._end is not None

    def start(self) -> list[Event]:
        """Returns the event that begins the reply, once. Without this call it comes from the first round."""
        if self._is_started:
            return []
        self._is_started = True
        return [Started(self._turn.model)]

    def emit_item(self, item: Item, *, started: Item, phases: Sequence[str]) -> list[Event]:
        """Returns the events of an item that the gateway makes: `started` as it begins, its phases, and its end."""
        index = self._output.take_index()
        phase_events = [Progressed(index, phase) for phase in phases]
        return [ItemStarted(index, started), *phase_events, ItemEnded(index, item)]

    def start_approved_calls(self) -> list[Event]:
        """Returns the first events of the calls that the client approved. They are then the `pending_calls`."""
        if self.is_resumed:
            return []
        started = self.start() if self._approvals else []
        for approval in self._approvals:
            given = self._inputs.get(approval.approval_request_id)
            is_changed = approval.approval_request_id in self._changed_ids
            call = build_approved_call(approval, self._catalogue, self._new_id("mcp"), given, is_changed=is_changed)
            self._approved.append(call)
            if not call.is_settled:
                self._checks.settle_unless_runnable(call)
            if call.approval_request_id is None and not call.is_settled:
                self._output.put_approval_request(call, self._new_id("mcpr"))
                self._usage = _NO_USAGE
                self._end = Finished("stop")
                continue
            call.index = self._output.take_index()
            self._output.put(
                *(call.build_whole_events() if call.approval_request_id is None else call.build_approved_events())
            )
            self._output.put_call(call)
        return started + self._output.take()

    @property
    def approval_requests(self) -> list[ApprovalRequest]:
        """The requests of the reply for approvals and input. The caller stores them when a round has ended, when
        approved calls have started, and when calls have run."""
        return self._output.approval_requests

    def send_approval_requests(self) -> list[Event]:
        """Returns the events to send now that all approval requests are stored."""
        for request in self._output.approval_requests:
            request.is_stored = True
        self._output.release()
        return self._output.take()

    def end_time(self) -> None:
        """Removes the hosted tools from further rounds, because the time of the loop is over."""
        self._checks.is_late = True

    def build_next_turn(self) -> Turn | None:
        """Returns the turn of the next round; None if the reply is complete, so that `build_end_events` end it.

        All pending calls must be settled.
        """
        limit = self._turn.max_output_tokens
        tokens = self._count_remaining_tokens()
        is_spent = limit is not None and tokens is not None and tokens < min(limit, _MIN_OUTPUT_TOKENS)
        if is_spent and self._end is None and self._finished is not None:
            self._end = replace(self._finished, reason="length")
        if self._end is not None:
            return None
        self._append_items()
        self._round_count += 1
        withdrawal = self._checks.find_withdrawal(self._round_count)
        offers_hosted = withdrawal is None
        # A client that sends a forced choice with every request would otherwise be asked for approvals for ever.
        is_first = self._round_count == 1 and not self._approved
        self._finished = None
        self._round = ToolRound(self._catalogue, self._own_names, self._checks, self._output, self._new_id, withdrawal)
        turn = self._turn
        tools = [*turn.tools, *self._offered_functions()] if offers_hosted else turn.tools
        return replace(
            turn,
            items=[*self._items],
            tools=tools,
            tool_choice=self._choices.choose_for_round(is_first=is_first, offers_hosted=offers_hosted),
            parallel_tool_calls=turn.parallel_tool_calls if tools else None,
            max_output_tokens=tokens,
        )

    def replace_context(self, item: Item, items: Sequence[Item], usage: Usage | None) -> list[Event]:
        """Replaces the context by `items`, from the round on whose turn was just returned.

        Returns the events of the compaction `item` that represents the replaced context. `usage` counts the tokens of
        the summary.
        """
        self._items = [*items]
        self._summary_usage = add_usage(self._summary_usage, usage)
        return [*self.start(), *self.emit_item(item, started=item, phases=())]

    def feed(self, batch: Sequence[Event]) -> list[Event]:
        """Takes a batch of events of the round. Returns the events to send now, possibly none."""
        assert self._round is not None
        self._round.collect(batch)
        for event in batch:
            self._take(event, self._round)
        return self._output.take()

    def observe_text(self, text_key: TextKey) -> tuple[TextKey, TextObserver] | None:
        """Decides whether deltas of one text of the round may be sent without `feed`.

        Returns the text's key in the reply, and the function to call with each text; None if they have to be fed.
        """
        return None if self._round is None else self._round.observe_text(text_key)

    @property
    def has_ended_round(self) -> bool:
        """Whether the last round has ended, well or not."""
        return self._finished is not None or self._end is not None

    @property
    def pending_calls(self) -> list[HostedCall]:
        """The calls to run now, possibly at the same time. There are none before a round has ended."""
        if self._round is not None and self._finished is None:
            return []
        return self._output.unsettled_calls

    def settle_call(self, call: HostedCall, outcome: ToolOutcome) -> list[Event]:
        """Takes the outcome of a call that was run. Returns the events to send now, which end the items in their order.

        A second outcome of a call, or the outcome of a call that is not pending, is not used.
        """
        if call not in self.pending_calls:
            self.dropped_outcomes += 1
            return []
        call.outcome = self._checks.limit_outcome(outcome)
        if (requested := call.outcome.requested_input) is not None:
            self._ask_for_input(call, requested)
        else:
            self._checks.count_outcome(call, call.outcome)
        self._output.release()
        return self._output.take()

    def _ask_for_input(self, call: HostedCall, requested: RequestedInput) -> None:
        """Ends the reply with the item that asks the client for the input of a call."""
        self._output.put_input_request(call, self._new_id("mcpr"), requested)
        if self._end is None and self._finished is None:  # no model was asked
            self._usage = _NO_USAGE
        self._end = self._end or replace(self._finished or Finished("stop"), reason="stop")

    def build_end_events(self) -> list[Event]:
        """Returns the terminal event, once `build_next_turn` returned None."""
        assert self._end is not None
        usage = self._usage if self._summary_usage is None else add_usage(self._usage, self._summary_usage)
        return [self._end if usage is self._end.usage else replace(self._end, usage=usage)]

    def _take(self, event: Event, current: ToolRound) -> None:
        match event:
            case Started():
                if not self._is_started:
                    self._is_started = True
                    self._output.send_now(event if event.response is None else replace(event, response=None))
            case Noted():
                self._forward_facts(event, current)
            case ItemStarted():
                current.start_item(event)
            case Finished():
                self._finish_round(event, current)
            case Failed():
                self._usage = add_usage(self._usage, current.usage)
                current.abandon_calls()
                self._end = event
            case Opaque(index=None):
                self._output.send_now(event)
            case _:
                current.continue_item(event)

    def _forward_facts(self, event: Noted, current: ToolRound) -> None:
        """Forwards facts, but not the usage of the round. Warnings about calls are joined from all rounds."""
        if facts := current.join_warnings(event.facts or {}, self._warnings):
            self._output.send_now(Noted(facts=facts))

    def _finish_round(self, event: Finished, current: ToolRound) -> None:
        self._round_usage = current.usage
        self._usage = add_usage(self._usage, current.usage)
        response = event.response
        if response is not None and (self._round_count > 1 or self._output.item_count != current.item_count):
            response = {key: value for key, value in response.items() if key not in _ROUND_KEYS}
        self._finished = event if response is event.response else replace(event, response=response)
        if (reason := current.finish(event.reason)) is not None:
            self._end = self._finished if reason == event.reason else replace(self._finished, reason=reason)
            if current.limit is not None:
                # The API has no reason for this. So the nearest reason is sent, and the message says which limit was
                # reached.
                details = {"reason": "max_output_tokens", "message": current.limit}
                self._end = replace(self._end, response={**(response or {}), "incomplete_details": details})

    def _offered_functions(self) -> Sequence[Json]:
        functions = self._catalogue.functions
        return [*functions, *self._catalogue.own_functions] if self.reader.has_results else functions

    def _append_items(self) -> None:
        """Appends the items of the last round to the input; before the first round, the outputs of approved calls."""
        if self._round is not None:
            entries = [entry for _, entry in self._round.entries()]
            self._record_sources(entries)
            self._items += build_model_items(entries, self.reader)
            return
        self._record_sources([*self._approved, *self._interrupted])
        for call, approval in reversed([*zip(self._approved, self._approvals, strict=True)]):
            self._items.insert(approval.position, call.build_model_items(self.reader)[1])
        self._items += build_model_items(self._interrupted, self.reader)

    def _record_sources(self, entries: Iterable[Item | HostedCall]) -> None:
        for entry in entries:
            if isinstance(entry, HostedCall):
                self.sources[entry.call_id] = [entry.final_item]

    def _count_remaining_tokens(self) -> int | None:
        """Returns the number of tokens that the model may still write; None if there is no limit."""
        limit = self._turn.max_output_tokens
        if limit is None or self._usage is None or self._usage.output is None:
            return limit
        return limit - self._usage.output
