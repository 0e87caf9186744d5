"""Concurrent calls are sent at most once, in any order of their ends and for any cancellation."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import count
from typing import Any

import uvloop
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.call_runner import CallRunner, LoopClock
from gateway.tools.executors.executor import ToolFault
from gateway.tools.loop_io import LoopIO
from gateway.tools.redacted_results import ResultRedactor
from tests.tool_rounds import LoopDriver, call, hosted_tool, text
from tests.tool_rounds import round_of as events_of_round
from translation.hosted.bounds import LoopBounds
from translation.hosted.calls import HostedCall
from translation.hosted.outcomes import ToolOutcome
from translation.hosted.result_reader import ResultReader

_BOUNDS = LoopBounds(rounds=3, calls=8, identical_calls=3)


class GatedExecutor:
    """Runs calls until the test ends them. `sent` has the ids of all, `running` of those that have not ended."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.running: dict[str, asyncio.Event] = {}

    async def run(self, hosted_call: HostedCall, deadline_s: float, on_progress: Any = None) -> ToolOutcome:
        gate = self.running[hosted_call.item_id] = asyncio.Event()
        self.sent.append(hosted_call.item_id)
        try:
            await gate.wait()
        finally:
            del self.running[hosted_call.item_id]
        return ToolOutcome(output=hosted_call.item_id)


class RecordingJournal:
    """Records all writes, in their order."""

    is_job = False

    def __init__(self, executor: GatedExecutor) -> None:
        self.states: dict[str, str] = {}
        self._executor = executor

    async def record_calls(self, calls: Any, started: Any, progress: Any) -> None:
        await asyncio.sleep(0)
        for each in calls:
            assert each.item_id not in self.states
            self.states[each.item_id] = "started" if each in started else "intended"

    async def start_call(self, hosted_call: HostedCall) -> None:
        await asyncio.sleep(0)
        assert hosted_call.item_id not in self._executor.sent
        assert self.states[hosted_call.item_id] == "intended"
        self.states[hosted_call.item_id] = "started"

    async def finish_call(self, hosted_call: HostedCall, outcome: ToolOutcome) -> None:
        await asyncio.sleep(0)
        assert self.states[hosted_call.item_id] == "started"
        self.states[hosted_call.item_id] = "finished"

    async def close(self) -> None: ...


class FaultyExecutor:
    """Has a fault in every call."""

    async def run(self, hosted_call: HostedCall, deadline_s: float, on_progress: Any = None) -> ToolOutcome:
        raise ToolFault("it does not know a-secret-of-the-request")


async def test_a_fault_of_an_executor_is_the_outcome_of_its_call() -> None:
    driver = LoopDriver(hosted_tool(), bounds=_BOUNDS)
    reader, redactor = ResultReader(_BOUNDS.result_chars), ResultRedactor(["a-secret-of-the-request"], list)
    runner = CallRunner(
        LoopIO(None), {"calc": FaultyExecutor()}, reader, _BOUNDS, LoopClock(None), redactor, parallel_calls=1
    )
    assert driver.loop.build_next_turn() is not None
    driver.feed(events_of_round(call()))
    async for batch in runner.run_calls(driver.loop):
        driver.take(batch)
    (item,) = driver.output
    assert item["status"] == "failed"
    assert item["error"]["content"] == [{"type": "text", "text": "it does not know [hidden]"}]


@given(st.data())
def test_any_order_of_rounds_results_and_cancels_is_one_reply_and_sends_no_call_twice(data: st.DataObject) -> None:
    asyncio.run(_drive(data))


async def _drive(data: st.DataObject) -> None:
    driver, executor = LoopDriver(hosted_tool(), bounds=_BOUNDS), GatedExecutor()
    journal = RecordingJournal(executor)
    most = data.draw(st.integers(1, 3))
    reader, clock, redactor = ResultReader(_BOUNDS.result_chars), LoopClock(None), ResultRedactor([], list)
    runner = CallRunner(LoopIO(journal), {"calc": executor}, reader, _BOUNDS, clock, redactor, parallel_calls=most)
    numbers = count()
    is_cancelled = False
    while not is_cancelled and driver.loop.build_next_turn() is not None:
        arguments = data.draw(st.lists(st.integers(0, 2), max_size=4))
        calls = [call(arguments=f'{{"a": {each}}}', call_id=f"call_{next(numbers)}") for each in arguments]
        driver.feed(events_of_round(text("so"), *calls))
        is_cancelled = not await _run_calls(data, driver, runner, executor, most)
    assert len(executor.sent) == len({*executor.sent}), "no call is sent twice"
    assert {*executor.sent} <= {item_id for item_id, state in journal.states.items() if state != "intended"}
    assert not executor.running, "nothing runs on"
    done = {item["id"]: item for item in driver.output if item["type"] == "mcp_call" and item["status"] == "completed"}
    assert {*done} <= {item_id for item_id, state in journal.states.items() if state == "finished"}
    assert all(item["output"] == item_id for item_id, item in done.items())
    if not is_cancelled:
        driver.finish()


async def _run_calls(
    data: st.DataObject, driver: LoopDriver, runner: CallRunner, executor: GatedExecutor, most: int
) -> bool:
    """Runs the calls of a round, and ends them in any order. Returns whether that was not cancelled."""

    async def take_events() -> None:
        async with aclosing(runner.run_calls(driver.loop)) as batches:
            async for batch in _checked(batches):
                driver.take(batch)

    running = asyncio.create_task(take_events())
    while not running.done():
        for _ in range(data.draw(st.integers(0, 6))):
            await asyncio.sleep(0)
        assert len(executor.running) <= most
        if data.draw(st.integers(0, 9)) == 0:
            running.cancel()
            await asyncio.wait({running})
            return not running.cancelled()
        if executor.running:
            executor.running[data.draw(st.sampled_from(sorted(executor.running)))].set()
        await asyncio.sleep(0)
    running.result()
    return True


async def _checked(batches: Any) -> AsyncIterator[Any]:
    async for batch in batches:
        assert batch, "no batch is empty"
        yield batch


def test_the_time_is_over_once_a_timer_for_it_has_fired() -> None:
    async def wait_for_the_end(seconds: float) -> float:
        clock = LoopClock(seconds)
        clock.start()
        await asyncio.sleep(clock.seconds_left)
        return clock.seconds_left

    async def wait_often() -> list[float]:
        return await asyncio.gather(*(wait_for_the_end(0.02 + number / 10_000) for number in range(50)))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert max(runner.run(wait_often())) <= 0, "the loop's timers count whole milliseconds"
