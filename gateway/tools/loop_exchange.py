"""The exchange of a response with hosted tools: asks the model, runs the calls it makes, and asks it again."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import structlog

from dataplane.body_weight import run_for_items
from dataplane.source import Source
from dataplane.staged_source import StagedDeltaRun, StagedSource
from dataplane.stepped_source import SteppedSource
from gateway.logs import bind_fields
from gateway.tools.approvals import ResponseApprovals
from gateway.tools.call_runner import CallRunner
from gateway.tools.executors.executor import ToolExecutor
from gateway.tools.loop_builder import BuiltLoop, LoopBuilder
from gateway.tools.loop_io import ContextCompactor, LoopIO
from providers.base import Batch, Exchange, as_batch_source
from translation.errors import ProtocolViolation
from translation.hosted.approvals import NO_ANSWERS
from translation.hosted.compaction import split_hosted_context
from translation.hosted.loop.tool_loop import ToolLoop
from translation.representation.delta_runs import DeltaRun
from translation.representation.events import Event, ItemEnded
from translation.representation.loss import Loss
from translation.representation.turn import Turn

_log = structlog.get_logger(__name__)


class _FirstRound(NamedTuple):
    """The loop before its first round, and the round itself, which is not open yet."""

    built: BuiltLoop
    turn: Turn
    exchange: Exchange


class ToolLoopExchange(SteppedSource[Batch]):
    """One response with any number of rounds. Its events are in the client's terms.

    `make_round` makes the exchange of one round, whose tools are all functions. `executors` are closed at the end.
    """

    def __init__(
        self,
        builder: LoopBuilder,
        runner: CallRunner,
        executors: Collection[ToolExecutor],
        make_round: Callable[[Turn], Exchange],
        *,
        approvals: ResponseApprovals | None = None,
        compactor: ContextCompactor | None = None,
        loop_io: LoopIO,
    ) -> None:
        super().__init__(self._steps_of_reply(), ())
        self.losses: Final[Sequence[Loss]] = ()
        self._builder = builder
        self._runner = runner
        self._executors = executors
        self._make_round = make_round
        self._approvals = approvals
        self._compactor = compactor
        self._answers = NO_ANSWERS if approvals is None else approvals.answers
        self._loop_io = loop_io
        self._first_round: _FirstRound | None = None
        """The first round, if it was prepared before the exchange was opened."""

    def batches(self) -> AsyncGenerator[Batch, None]:
        return self.iterate()

    async def _steps_of_reply(self) -> AsyncGenerator[Batch | Source[Batch], None]:
        """Yields batches, and the sources of the rounds, which are read to their end before the next step."""
        self._runner.clock.start()
        try:
            built = await self._begin_loop()
            loop = built.loop
            if built.events:
                yield built.events
            if self._runner.has_work(loop):
                async with aclosing(self._runner.run_calls(loop, are_recorded=loop.is_resumed)) as batches:
                    async for batch in batches:
                        yield batch
                yield self._report_calls(loop)
                if events := await self._store_requests(loop):
                    yield events
            while (turn := self._next_turn(loop)) is not None:
                if loop.round_number > 1:  # the log line of the request itself is about the first one
                    _log.info("tool_request_started", round=loop.round_number)
                if (reports := self._loop_io.events) is not None:
                    yield [*loop.start(), reports.start_request(loop.round_number)]
                if self._compactor is not None:
                    turn, compacted = await self._compact_context(self._compactor, built, turn)
                    if compacted:
                        yield compacted
                exchange, observer = await self._take_exchange(turn), self._loop_io.observer
                if observer is not None:
                    observer.begin_round()
                yield make_round_source(loop, exchange)
                if not loop.has_ended_round:
                    raise ProtocolViolation("the upstream's reply ended without a terminal event")
                if observer is not None:
                    observer.end_round(loop.round_usage, loop.round_reason)
                if events := await self._store_requests(loop):
                    yield events
                if self._runner.has_work(loop):
                    async with aclosing(self._runner.run_calls(loop)) as batches:
                        async for batch in batches:
                            yield batch
                    yield self._report_calls(loop)
                    if events := await self._store_requests(loop):
                        yield events
            yield [*self._report_calls(loop), *loop.build_end_events()]
        finally:
            try:
                await self._close_executors()
            finally:
                if self._loop_io.journal is not None:
                    await self._loop_io.journal.close()

    def _report_calls(self, loop: ToolLoop) -> list[Event]:
        """Returns the event with the report on all calls so far, which the log line gets too."""
        if report := loop.report:
            bind_fields(tools=report.count_by_tool())
        return loop.build_report_events()

    async def find_first_turn(self) -> tuple[Turn | None, Sequence[str]]:
        """Returns the first turn of the model, and the labels of the servers that could not be listed. The turn is None
        if a call is run before it. Only lists of tools are read.

        It is called instead of opening the exchange, and raises what that raises.
        """
        try:
            loop, events, *_ = await self._builder.list_tools()
        finally:
            await self._close_executors()
        items = [event.item for event in events if isinstance(event, ItemEnded) and event.item is not None]
        missing = [item["server_label"] for item in items if item.get("error") and not item["tools"]]
        return None if self._builder.approved_labels else loop.build_next_turn(), missing

    def _next_turn(self, loop: ToolLoop) -> Turn | None:
        if (first := self._first_round) is not None and loop.round_number == 1 and not loop.has_ended_round:
            return first.turn
        if self._runner.clock.seconds_left <= 0:
            loop.end_time()
        return loop.build_next_turn()

    async def _take_exchange(self, turn: Turn) -> Exchange:
        """Returns the exchange of a round."""
        if (share_round := self._loop_io.share_round) is not None:
            return share_round(turn, self._make_own_round)
        return await self._make_own_round(turn)

    async def make_round_of(self, turn: Turn) -> Exchange:
        """Returns the exchange for the turn of another loop of the same request: what differs between the upstreams,
        such as defaults, is this loop's."""
        return await run_for_items(turn.items, self._make_round, self._builder.adopt_turn(turn))

    async def _make_own_round(self, turn: Turn) -> Exchange:
        """Returns the exchange of a round. The exchange of the first round may have been prepared before."""
        first, self._first_round = self._first_round, None
        if first is not None and first.turn is turn:
            return first.exchange
        return await run_for_items(turn.items, self._make_round, turn)

    async def _compact_context(
        self, compactor: ContextCompactor, built: BuiltLoop, turn: Turn
    ) -> tuple[Turn, list[Event]]:
        """Returns the turn of the next round, with a summary in place of older items if a compaction is due, and the
        events of the compaction."""
        loop = built.loop
        parts = await run_for_items(
            turn.items,
            split_hosted_context,
            turn.items,
            loop.sources,
            built.open_ids,
            built.lists.values(),
            awaits_answer=True,
        )
        summary = await compactor.compact(turn, parts, loop.round_usage)
        if summary is None:
            return turn, []
        events = loop.replace_context(summary.item, summary.items, summary.usage)
        return replace(turn, items=summary.items), events

    async def _begin_loop(self) -> BuiltLoop:
        """Returns the loop. Its events precede the first call: the lists of tools, and the calls that are approved.

        If it fails, none of the calls was sent, and their approvals can be used again, unless another process continues
        the response.
        """
        if self._loop_io.is_resumed:
            self._first_round = None
        first = self._first_round
        if self._approvals is None:
            return first.built if first is not None else await self._builder.list_tools()
        try:
            await self._approvals.confirm()
            built = first.built if first is not None else await self._builder.list_tools()
            built.events.extend(built.loop.start_approved_calls())
            built.events.extend(await self._store_requests(built.loop))
            await self._approvals.void(built.changed_ids)
        except BaseException as error:
            if not self._loop_io.may_continue_after(error):
                await self._approvals.reopen()
            raise
        return built

    async def _store_requests(self, loop: ToolLoop) -> list[Event]:
        """Stores the requests of the reply for approvals and for input. Returns the events that send them."""
        requests = loop.approval_requests
        if not requests or self._approvals is None:  # without approvals no tool needs one
            return []
        await self._approvals.store_requests(requests)
        return loop.send_approval_requests()

    async def _close_executors(self) -> None:
        # Not `gather`: cancellation would reach the connections before they have begun to close.
        start = asyncio.get_running_loop().create_task
        if closing := [start(executor.close()) for executor in self._executors]:
            await asyncio.wait(closing)

    def prepare_first_round(self, prepare: Callable[[Turn], tuple[Exchange, Sequence[Loss]]]) -> Sequence[Loss] | None:
        """Prepares the first round now, if the gateway knows the tools of all servers. Returns its losses.

        Otherwise it returns None, and the round is prepared when the exchange is opened. The same happens if the
        response turns out to have begun in another process. Raises InvalidRequest, and what `prepare` raises.
        """
        if self._answers is not NO_ANSWERS and (self._answers.approved or self._answers.inputs):
            return None
        built = self._builder.build_with_known_lists()
        if built is None or (turn := built.loop.build_next_turn()) is None:
            return None
        exchange, losses = prepare(turn)
        self._first_round = _FirstRound(built, turn, exchange)
        return losses


def make_round_source(loop: ToolLoop, exchange: Exchange) -> Source[Batch]:
    """Returns the next round of the model as a source whose events are numbered for the whole reply.

    Its deltas take the fast path unless the loop has to read or change them.
    """
    return StagedSource(as_batch_source(exchange), loop.feed, partial(_grant_delta_run, loop))


def _grant_delta_run(loop: ToolLoop, run: DeltaRun) -> DeltaRun | None:
    """Returns the run of a round with its text key in the reply; None if its deltas have to be fed to the loop."""
    if (observed := loop.observe_text(run.text_key)) is None:
        return None
    text_key, observer = observed
    return StagedDeltaRun(run, text_key, (observer,))
