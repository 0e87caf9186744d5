"""The loop of a model and hosted tools: joins any number of rounds into one reply.

It does no I/O. The caller feeds it the events of each round, runs the calls that it names, and gives it their outcomes.
Rounds are turns as any upstream can be sent: hosted tools are functions in them, and their results are outputs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from translation.errors import ProtocolViolation
from translation.hosted.approvals import ApprovalRequest
from translation.hosted.bounds import LoopBounds
from translation.hosted.calls import HostedCall, build_approved_call
from translation.hosted.citations.cited_parts import CitedParts
from translation.hosted.interruptions.interruption import (
    Interruption,
    list_unsent_entries,
    restore_entries,
    save_entries,
)
from translation.hosted.interruptions.saved_queue import restore_queue, save_queue
from translation.hosted.loop.call_checks import CallChecks
from translation.hosted.loop.loop_progress import LoopProgress
from translation.hosted.loop.model_context import ModelContext
from translation.hosted.loop.output_queue import OutputQueue
from translation.hosted.loop.tool_choice import RoundChoices, list_allowed_names
from translation.hosted.loop.tool_round import ToolRound
from translation.hosted.outcomes import ToolOutcome
from translation.hosted.past_hosted_calls import ApprovedCall, ApprovedCalls
from translation.hosted.result_reader import ResultReader
from translation.hosted.tool_report import TOOL_REPORT, ToolReport
from translation.hosted.tools import ToolCatalogue
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.delta_runs import TextKey, TextObserver
from translation.representation.events import (
    Event,
    Failed,
    Finished,
    FinishReason,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    Progressed,
    Started,
    Usage,
)
from translation.representation.items import NewId
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn

_ROUND_KEYS: Final = frozenset({"output", "usage"})
"""Keys of an upstream's own response that are true of its round only."""


class ToolLoop:
    """Joins the rounds of one response.

    `turn` is the client's request: its tools are those that the client runs, and `resolve_history` has rewritten the
    hosted calls among its items as function calls. `catalogue` has the hosted tools. `approved` has the calls of an
    earlier response that the client has now approved. If there are any, call `start_approved_calls` before the first
    round; if the definition of a tool has changed since the client was asked, the client is asked again, and the reply
    ends without a round. `new_id` makes ids of items. `context` has the items of the turn as the model reads them;
    without it they are those of the turn. Raises InvalidRequest for a tool choice that cannot be met.
    """

    def __init__(
        self,
        turn: Turn,
        catalogue: ToolCatalogue,
        approved: ApprovedCalls,
        bounds: LoopBounds,
        new_id: NewId,
        context: ModelContext | None = None,
    ) -> None:
        self.dropped_outcomes = 0
        """The number of outcomes that were not used, because their call was settled already."""
        self.is_resumed = False
        """Whether `resume` took over calls of a round that had ended."""
        self._turn = turn
        self._catalogue = catalogue
        self._new_id = new_id
        self._choices = RoundChoices(turn, catalogue)
        self._checks = CallChecks(catalogue, bounds)
        self._context = context or ModelContext(turn.items, ResultReader(bounds.result_chars))
        self._output = OutputQueue(self._context.reader.is_too_long)
        self._context.deferred.load(self._choices.names)
        self._progress = LoopProgress()
        self._approvals = approved
        self._approved: list[tuple[HostedCall, ApprovedCall]] = []
        """The approved calls, once they have started."""
        self._round: ToolRound | None = None
        self._round_usage: Usage | None = None
        self._interrupted: list[Item | HostedCall] = []
        """The part of the round before an interruption that the model has to read, besides the items of the turn."""
        self._is_started = False

    @property
    def sources(self) -> Mapping[str, Sequence[Item]]:
        """The items of the API for the calls that the model has read, by their `call_id`."""
        return self._context.sources

    def save_progress(self) -> Json:
        """Returns the progress of the loop as JSON. It is saved when a round has ended, before its calls are run."""
        unsettled = self._output.unsettled_calls
        entries = self._round.entries() if self._round is not None and unsettled else ()
        return {
            **self._progress.to_json(),
            "items": self._output.item_count,
            "checks": self._checks.save(),
            "queue": save_queue(self._output.waiting),
            "entries": save_entries(entries, unsettled[0].index if unsettled else 0),
            "report": self._output.report.to_json(),
        }

    def resume(self, interruption: Interruption) -> list[Event]:
        """Continues an interrupted loop, in place of `start`. Returns events that end the items which it left open.

        The items of the turn are then followed by the context items of the interruption. The calls that had not ended
        are pending. The round that was interrupted is sampled again.
        """
        saved, sent = interruption
        self._is_started = True
        if saved is None:
            self._output.restore(sent.item_count, ())
            return [*sent.build_end_events(spared=())]
        self.is_resumed = True
        self._progress = LoopProgress.from_json(saved)
        self._output.report.restore(saved.get("report"))
        queue = restore_queue(list_unsent_entries(saved["queue"], sent), self._catalogue, self._approvals.inputs)
        calls = {entry.item_id: entry for entry in queue if isinstance(entry, HostedCall)}
        self._checks.restore(saved["checks"], [each for each in calls.values() if not each.is_settled])
        self._interrupted = restore_entries(saved["entries"], calls, sent)
        approved = {call.approval_request_id: call for call in calls.values() if call.approval_request_id is not None}
        self._approved = [
            (approved[approval.approval_request_id], approval)
            for approval in self._approvals.calls
            if approval.approval_request_id in approved
        ]
        self._output.restore(max(saved["items"], sent.item_count), queue)
        warnings = self._progress.warnings
        noted = [Noted(facts={TOOL_WARNINGS: [*warnings]})] if warnings else []
        return [*noted, *sent.build_end_events(spared={call.index for call in calls.values()}), *self._output.take()]

    @property
    def round_number(self) -> int:
        """The number of the round whose turn was returned last, from 1."""
        return self._progress.round

    @property
    def round_usage(self) -> Usage | None:
        """The token counts of the round that ended last; None without such a round, or if it reported none."""
        return self._round_usage

    @property
    def round_reason(self) -> FinishReason | None:
        """Why the model stopped in the round that ended last; None without such a round."""
        return None if self._progress.finished is None else self._progress.finished.reason

    @property
    def is_ending(self) -> bool:
        """Whether no further round follows the calls that are pending."""
        return self._progress.end is not None

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
        approvals = self._approvals
        started = self.start() if approvals.calls else []
        for approval in approvals.calls:
            given = approvals.inputs.get(approval.approval_request_id)
            is_changed = approval.approval_request_id in approvals.changed_ids
            call = build_approved_call(approval, self._catalogue, self._new_id, given, is_changed=is_changed)
            self._approved.append((call, approval))
            if not call.is_settled:
                self._checks.settle_unless_runnable(call)
            if (tool := call.tool) is not None and call.approval_request_id is None and not call.is_settled:
                self._output.put_approval_request(call, tool, self._new_id("mcpr"))
                self._progress.end_unasked()
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
        progress = self._progress
        progress.end_if_spent(self._turn.max_output_tokens)
        if progress.end is not None:
            return None
        self._append_items()
        progress.round += 1
        withdrawal = self._checks.find_withdrawal(progress.round)
        offers_hosted = withdrawal is None
        # A client that sends a forced choice with every request would otherwise be asked for approvals for ever.
        is_first = progress.round == 1 and not self._approved
        choice = self._choices.choose_for_round(is_first=is_first, offers_hosted=offers_hosted)
        self._checks.allowed_names = list_allowed_names(choice)
        progress.finished = None
        deferred = self._context.deferred
        own_names = frozenset(tool["name"] for tool in self._turn.tools if tool.get("name")) | deferred.own_names
        self._round = ToolRound(
            self._catalogue,
            own_names,
            self._checks,
            self._output,
            self._new_id,
            withdrawal,
            CitedParts(self._context.citations),
        )
        turn = self._turn
        tools = [*turn.tools, *self._offered_functions()] if offers_hosted else turn.tools
        if deferred:  # what is loaded follows all that was offered before, so that the prompt cache holds
            tools = [*tools, *deferred.list_loaded(with_hosted=offers_hosted)]
        return replace(
            turn,
            items=[*self._context.items],
            tools=tools,
            tool_choice=choice,
            parallel_tool_calls=turn.parallel_tool_calls if tools else None,
            max_output_tokens=progress.count_remaining_tokens(turn.max_output_tokens),
        )

    def replace_context(self, item: Item, items: Sequence[Item], usage: Usage | None) -> list[Event]:
        """Replaces the context by `items`, from the round on whose turn was just returned.

        Returns the events of the compaction `item` that represents the replaced context. `usage` counts the tokens of
        the summary.
        """
        self._context.items = [*items]
        self._progress.add_summary_usage(usage)
        return [*self.start(), *self.emit_item(item, started=item, phases=())]

    def feed(self, batch: Sequence[Event]) -> list[Event]:
        """Takes a batch of events of the round. Returns the events to send now, possibly none."""
        if (current := self._round) is None:
            raise ProtocolViolation("events of a round that was not begun")
        current.collect(batch)
        for event in batch:
            self._take(event, current)
        return self._output.take()

    def observe_text(self, text_key: TextKey) -> tuple[TextKey, TextObserver] | None:
        """Decides whether deltas of one text of the round may be sent without `feed`.

        Returns the text's key in the reply, and the function to call with each text; None if they have to be fed.
        """
        return None if self._round is None else self._round.observe_text(text_key)

    @property
    def has_ended_round(self) -> bool:
        """Whether the last round has ended, well or not."""
        return self._progress.finished is not None or self._progress.end is not None

    @property
    def pending_calls(self) -> list[HostedCall]:
        """The calls to run now, possibly at the same time. There are none before a round has ended."""
        if self._round is not None and self._progress.finished is None:
            return []
        return self._output.unsettled_calls

    def settle_call(self, call: HostedCall, outcome: ToolOutcome) -> list[Event]:
        """Takes the outcome of a call that was run. Returns the events to send now, which end the items in their order.

        A second outcome of a call, or the outcome of a call that is not pending, is not used.
        """
        if call not in self.pending_calls:
            self.dropped_outcomes += 1
            return []
        call.outcome = self._checks.limit_outcome(self._context.adopt_outcome(outcome))
        if (requested := call.outcome.requested_input) is not None and call.tool is not None:
            self._output.put_input_request(call, call.tool, self._new_id("mcpr"), requested)
            self._progress.end_for_input()
        else:
            self._checks.count_outcome(call, call.outcome)
            if call.form.output_type is not None:
                self._put_output_item(call, call.outcome)
        self._output.release()
        return self._output.take()

    @property
    def report(self) -> ToolReport:
        """What the calls have done that have ended."""
        return self._output.report

    def build_report_events(self) -> list[Event]:
        """Returns the event with the report on the calls so far; none if there were no calls."""
        return [Noted(facts={TOOL_REPORT: self.report.to_json()})] if self.report else []

    def build_end_events(self) -> list[Event]:
        """Returns the terminal event, once `build_next_turn` returned None."""
        return [*self._progress.build_end_events()]

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
                self._progress.add_usage(current.usage)
                current.abandon_calls()
                self._progress.end = event
            case Opaque(index=None):
                self._output.send_now(event)
            case _:
                current.continue_item(event)

    def _forward_facts(self, event: Noted, current: ToolRound) -> None:
        """Forwards facts, but not the usage of the round. Warnings about calls are joined from all rounds."""
        if facts := current.join_warnings(event.facts or {}, self._progress.warnings):
            self._output.send_now(Noted(facts=facts))

    def _finish_round(self, event: Finished, current: ToolRound) -> None:
        progress = self._progress
        self._round_usage = current.usage
        progress.add_usage(current.usage)
        response = event.response
        if response is not None and (progress.round > 1 or self._output.item_count != current.item_count):
            response = {key: value for key, value in response.items() if key not in _ROUND_KEYS}
        finished = event if response is event.response else replace(event, response=response)
        progress.finished = finished
        if (reason := current.finish(event.reason)) is not None:
            progress.end = finished if reason == event.reason else replace(finished, reason=reason)
            if current.limit is not None:
                # The API has no reason for this. So the nearest reason is sent, and the message says which limit was
                # reached.
                details = {"reason": "max_output_tokens", "message": current.limit}
                progress.end = replace(progress.end, response={**(response or {}), "incomplete_details": details})

    def _put_output_item(self, call: HostedCall, outcome: ToolOutcome) -> None:
        item = call.form.build_output_item(call.item_id, outcome, self._context.deferred.load)
        if item is not None:
            index = self._output.take_index()
            self._output.put(ItemStarted(index, item), ItemEnded(index, item))

    def _offered_functions(self) -> Sequence[Json]:
        functions = self._catalogue.functions
        return [*functions, *self._catalogue.own_functions] if self._context.reader.has_results else functions

    def _append_items(self) -> None:
        """Appends the items of the last round to the input; before the first round, the outputs of approved calls."""
        if self._round is not None:
            self._context.append_entries([entry for _, entry in self._round.entries()])
            return
        self._context.insert_approved(self._approved)
        self._context.append_entries(self._interrupted)
