"""Runs the calls of a round: several at once, each at most once, and each recorded in the journal before it is sent."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from time import perf_counter_ns
from typing import Any, Final

import orjson
import structlog

from dataplane.read_waiter import TIMER_STEP_S
from dataplane.sharing.work_pool import run_in_pool
from gateway.tools.executors.executor import CallExecutor, ToolFault
from gateway.tools.loop_io import LoopIO
from gateway.tools.redacted_results import ResultRedactor
from providers.base import Batch
from translation.hosted.bounds import LoopBounds
from translation.hosted.calls import HostedCall, build_call_figures, describe_unknown_tool
from translation.hosted.loop.tool_loop import ToolLoop
from translation.hosted.outcomes import ToolOutcome, build_execution_error, build_skip
from translation.hosted.result_reader import READ_RESULT, ResultReader
from translation.hosted.tool_report import CallFigures
from translation.representation.loss import Loss

_log = structlog.get_logger(__name__)


class LoopClock:
    """Measures the time of one response from `start`. `seconds` is None if it has no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = inf if seconds is None else seconds
        self._ends_at = inf

    def start(self) -> None:
        """Starts the clock."""
        self._ends_at = asyncio.get_running_loop().time() + self._seconds

    @property
    def seconds_left(self) -> float:
        """The time that is left; not positive if it is over."""
        if self._ends_at == inf:
            return inf
        left = self._ends_at - asyncio.get_running_loop().time()
        return left if left > TIMER_STEP_S else 0.0


class ReadResultRunner:
    """Runs calls of READ_RESULT. They have no side effects, so they may be repeated."""

    def __init__(self, reader: ResultReader) -> None:
        self._reader = reader

    async def run(self, call: HostedCall, deadline_s: float) -> ToolOutcome:
        """Returns the outcome of a call with checked arguments."""
        arguments = orjson.loads(call.arguments)
        try:
            async with asyncio.timeout(None if deadline_s == inf else deadline_s):
                return await run_in_pool(self._reader.read, arguments)  # a result may have megabytes
        except TimeoutError:
            return build_execution_error(f"timeout: no answer within {deadline_s:g} s")


class CallRunner:
    """Runs the calls of one response, at most `parallel_calls` at once. `executors` are keyed by their labels. Calls of
    READ_RESULT read in `reader`."""

    def __init__(
        self,
        loop_io: LoopIO,
        executors: Mapping[str, CallExecutor],
        reader: ResultReader,
        bounds: LoopBounds,
        clock: LoopClock,
        redactor: ResultRedactor,
        *,
        parallel_calls: int,
    ) -> None:
        self._loop_io = loop_io
        self._executors: Final = executors
        self._own: Final = ReadResultRunner(reader)
        self._reader = reader
        self._bounds = bounds
        self.clock: Final = clock
        """Measures the time of the response."""
        self._redactor = redactor
        self._parallel_calls = parallel_calls

    def has_work(self, loop: ToolLoop) -> bool:
        """Whether `run_calls` has work: calls to run, or the progress of a job to record."""
        journal = self._loop_io.journal
        return bool(loop.pending_calls) or (journal is not None and journal.is_job)

    async def run_calls(self, loop: ToolLoop, *, are_recorded: bool = False) -> AsyncGenerator[Batch, None]:
        """Runs the pending calls, several at once, and yields the events of each call that ends.

        With `are_recorded` the calls are in the journal already.
        """
        waiting = loop.pending_calls
        running: dict[asyncio.Task[ToolOutcome], HostedCall] = {}
        most = self._parallel_calls
        start = asyncio.get_running_loop().create_task
        started = () if are_recorded else await self._record_calls(loop, waiting, waiting[:most])
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    call = waiting.pop(0)
                    running[start(self._run_call(call, is_started=call in started))] = call
                done = await self._wait_for_calls(running)
                if (reports := self._loop_io.events) is not None and (batch := reports.take()):
                    yield batch
                for task in done:
                    if events := loop.settle_call(running.pop(task), task.result()):
                        yield events
        finally:
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)

    async def _wait_for_calls(self, running: Collection[asyncio.Task[ToolOutcome]]) -> Collection[asyncio.Task[Any]]:
        """Waits until a call has ended, or there is something to report. Returns the calls that have ended."""
        reports = self._loop_io.events
        if reports is None:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            return done
        waking = asyncio.get_running_loop().create_task(reports.wait())
        try:
            await asyncio.wait({*running, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waking.cancel()
        return [task for task in running if task.done()]

    async def _record_calls(
        self, loop: ToolLoop, calls: Sequence[HostedCall], started: Sequence[HostedCall]
    ) -> Sequence[HostedCall]:
        """Records the calls of a round, and the progress of a job. Returns the calls that are recorded as started.

        Calls that run at once are recorded as started, which saves a write for each of them.
        """
        journal = self._loop_io.journal
        if journal is None or not (calls or (journal.is_job and not loop.is_ending)):
            return ()
        await journal.record_calls(calls, started, loop.save_progress() if journal.is_job else None)
        return started

    async def _run_call(self, call: HostedCall, *, is_started: bool) -> ToolOutcome:
        """Runs a call once and returns its outcome. A call with an unknown outcome is not repeated.

        `is_started`: the call is recorded as started. Otherwise that is recorded first: no call is sent without it.
        """
        if (outcome := self._loop_io.find_outcome(call)) is not None:
            return outcome
        journal = self._loop_io.journal
        if journal is not None and not is_started:
            await journal.start_call(call)
        outcome = await self._send_call(call)
        if journal is not None:
            await journal.finish_call(call, outcome)
        return outcome

    async def _send_call(self, call: HostedCall) -> ToolOutcome:
        if call.tool is None:  # the process that was interrupted knew the tool, this one does not
            return build_skip(describe_unknown_tool(call.model_name))
        left_s = self.clock.seconds_left
        if left_s <= 0:
            return build_skip(f"Tool call skipped: limit of {self._bounds.seconds:g} s reached")
        try:
            self._loop_io.require_credentials(call.key.server)
        except ToolFault as fault:
            return fault.as_outcome()
        ids = {"server": call.key.server, "tool": call.key.name, "call": call.item_id, "call_id": call.call_id}
        _log.info("tool_started", **ids)
        reports = self._loop_io.events
        if reports is not None:
            reports.start_call(call)
        on_progress = (
            None if reports is None else partial(reports.report_progress, call, self._redactor.redact_beginning)
        )
        began_ns = perf_counter_ns()
        figures = CallFigures(has_failed=True)
        try:
            if call.tool is READ_RESULT:
                outcome = await self._own.run(call, left_s)
            else:
                outcome = await self._executors[call.key.server].run(call, left_s, on_progress)
            outcome = replace(outcome, elapsed_ms=_count_ms(began_ns))
            figures = build_call_figures(outcome, call.form, self._reader.is_too_long)
        except ToolFault as fault:
            outcome = await self._redactor.redact_outcome(fault.as_outcome())
            outcome = replace(outcome, elapsed_ms=_count_ms(began_ns))
        finally:
            if (observer := self._loop_io.observer) is not None:
                observer.end_call(call.key.name, began_ns, figures)
        if reports is not None:
            reports.end_call(call, outcome)
        _log.info("tool_ended", **ids, failed=outcome.failed)
        if outcome.has_declined_input:
            _log.warning("tool_input_declined", **ids)
            self._loop_io.report_loss_once(Loss("tools", f"input for {call.key.server}.{call.key.name} declined"))
        return outcome


def _count_ms(began_ns: int) -> int:
    return (perf_counter_ns() - began_ns) // 1_000_000
