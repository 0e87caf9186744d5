"""providers/engines/supervisor.py: an engine that starts, dies, cannot start, and starts again."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from providers.base import EngineStatus
from providers.engines.supervisor import HEALTHY_S, MAX_BACKOFF_S, MIN_BACKOFF_S, Supervisor
from providers.errors import EngineUnavailable

pytestmark = pytest.mark.anyio


class FakeEngine:
    """An engine that dies when `killed` is set, with that reason."""

    def __init__(self) -> None:
        self.killed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def wait_until_dead(self) -> str:
        return await self.killed


@dataclass
class World:
    """A clock that only a test moves, and engines that start when a test lets them."""

    now: float = 0.0
    pauses: list[float] = field(default_factory=list)
    engines: list[FakeEngine] = field(default_factory=list)
    stopped: int = 0
    failures: list[Exception] = field(default_factory=list)
    may_start: asyncio.Event = field(default_factory=asyncio.Event)
    may_retry: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    def supervisor(self) -> Supervisor[FakeEngine]:
        return Supervisor("tiny", self.start, sleep=self.pause, clock=lambda: self.now)

    @asynccontextmanager
    async def start(self, progress: Callable[[str], None]) -> AsyncGenerator[FakeEngine, None]:
        progress("loading tiny.gguf")
        await self.may_start.wait()
        if self.failures:
            raise self.failures.pop(0)
        engine = FakeEngine()
        self.engines.append(engine)
        try:
            yield engine
        finally:
            self.stopped += 1

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self.may_retry.acquire()


async def until(condition: Callable[[], bool]) -> None:
    """Runs the loop until the condition is true."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # the conditions are of many kinds
            await asyncio.sleep(0)


def read_unavailability(supervisor: Supervisor[FakeEngine]) -> EngineUnavailable:
    with pytest.raises(EngineUnavailable) as raised:
        _ = supervisor.engine
    return raised.value


async def test_entering_does_not_wait_and_the_state_is_known() -> None:
    world = World()
    supervisor = world.supervisor()
    async with supervisor.run_engine():
        await until(lambda: supervisor.engine_status.detail == "loading tiny.gguf")
        assert supervisor.engine_status.state == "starting"
        assert str(read_unavailability(supervisor)) == "the engine is starting: loading tiny.gguf"
        assert read_unavailability(supervisor).headers == {"retry-after": "1"}


async def test_a_running_engine_is_available_and_ends_with_the_block() -> None:
    world = World()
    world.may_start.set()
    supervisor = world.supervisor()
    async with supervisor.run_engine():
        await supervisor.wait_until_settled()
        assert supervisor.engine_status == EngineStatus("ready")
        assert supervisor.engine is world.engines[0]
    assert world.stopped == 1
    assert supervisor.engine_status.state == "down"
    assert read_unavailability(supervisor).provider == "tiny"


async def test_a_dead_engine_is_down_with_its_reason_and_then_started_again() -> None:
    world = World()
    world.may_start.set()
    supervisor = world.supervisor()
    with capture_logs() as lines:
        async with supervisor.run_engine():
            await supervisor.wait_until_settled()
            world.engines[0].killed.set_result("killed by SIGKILL")
            await until(lambda: world.pauses == [MIN_BACKOFF_S])
            assert supervisor.engine_status == EngineStatus("down", "killed by SIGKILL")
            assert str(read_unavailability(supervisor)) == "the engine is down: killed by SIGKILL"
            assert world.stopped == 1, "what is left of it is cleared away before the next one starts"
            world.may_retry.release()
            await until(lambda: supervisor.engine_status.state == "ready")
            assert supervisor.engine is world.engines[1]
    down = [line for line in lines if line["event"] == "engine_down"]
    assert [(line["engine"], line["reason"]) for line in down] == [("tiny", "killed by SIGKILL")]


async def test_an_engine_that_cannot_start_has_settled_and_is_tried_ever_more_rarely() -> None:
    world = World(failures=[EngineUnavailable("no such file") for _ in range(9)])
    world.may_start.set()
    supervisor = world.supervisor()
    with capture_logs() as lines:
        async with supervisor.run_engine():
            await supervisor.wait_until_settled()
            assert supervisor.engine_status == EngineStatus("down", "no such file")
            for tries in range(1, 10):
                await until(lambda tries=tries: len(world.pauses) == tries)  # type: ignore[misc]
                world.may_retry.release()
            await until(lambda: supervisor.engine_status.state == "ready")
    assert world.pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert world.pauses[-1] == MAX_BACKOFF_S
    reasons = [line["reason"] for line in lines if line["event"] == "engine_down"]
    assert reasons == ["no such file"] * 9, "every failure is logged with its reason"


async def test_clients_get_the_time_until_the_next_start() -> None:
    world = World(failures=[EngineUnavailable("no") for _ in range(4)])
    world.may_start.set()
    supervisor = world.supervisor()
    async with supervisor.run_engine():
        for tries in range(1, 4):
            await until(lambda tries=tries: len(world.pauses) == tries)  # type: ignore[misc]
            world.may_retry.release()
        await until(lambda: len(world.pauses) == 4)
        assert read_unavailability(supervisor).headers == {"retry-after": "4"}


@pytest.mark.parametrize(("lived_s", "pause"), [(HEALTHY_S, MIN_BACKOFF_S), (HEALTHY_S - 1, 2 * MIN_BACKOFF_S)])
async def test_only_an_engine_that_lived_well_begins_the_count_again(lived_s: float, pause: float) -> None:
    world = World(failures=[EngineUnavailable("not yet")])
    world.may_start.set()
    supervisor = world.supervisor()
    async with supervisor.run_engine():
        world.may_retry.release()
        await until(lambda: bool(world.engines))
        world.now += lived_s
        world.engines[0].killed.set_result("old age")
        await until(lambda: len(world.pauses) == 2)
    assert world.pauses == [MIN_BACKOFF_S, pause]


async def test_an_unexpected_failure_is_logged_with_its_traceback_and_retried() -> None:
    world = World(failures=[ZeroDivisionError("oops")])
    world.may_start.set()
    supervisor = world.supervisor()
    with capture_logs() as lines:
        async with supervisor.run_engine():
            await until(lambda: bool(world.pauses))
            assert supervisor.engine_status == EngineStatus("down", "ZeroDivisionError: oops")
            world.may_retry.release()
            await until(lambda: supervisor.engine_status.state == "ready")
    assert [line["event"] for line in lines if line.get("exc_info")] == ["engine_failed"]


async def test_leaving_while_the_engine_starts_stops_the_start() -> None:
    world = World()
    supervisor = world.supervisor()
    async with asyncio.timeout(60), supervisor.run_engine():
        await until(lambda: supervisor.engine_status.detail == "loading tiny.gguf")
    assert world.engines == []
    assert supervisor.engine_status.state == "down"
