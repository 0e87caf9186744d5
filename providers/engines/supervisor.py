"""Keeps one embedded engine alive: starts it, reports its status, and restarts it when it dies."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import structlog

from providers.base import EngineStatus
from providers.errors import EngineUnavailable

_log = structlog.get_logger(__name__)

MIN_BACKOFF_S: Final = 0.5
MAX_BACKOFF_S: Final = 30.0
"""The wait between the end of an engine and its next start. It doubles from `MIN_BACKOFF_S` to `MAX_BACKOFF_S`, so that
an engine that fails at every start does not occupy the machine."""

HEALTHY_S: Final = 60.0
"""If an engine was up this long, the wait before its restart begins at `MIN_BACKOFF_S` again."""


class SupervisedEngine(Protocol):
    """An engine whose end can be awaited."""

    async def wait_until_dead(self) -> str:
        """Waits until the engine is dead. Returns the reason, for people."""
        ...


EngineT = TypeVar("EngineT", bound=SupervisedEngine)

ProgressReporter: TypeAlias = Callable[[str], None]
"""Called with the current step of a start, such as `loading qwen3.gguf`."""

EngineStarter: TypeAlias = Callable[[ProgressReporter], AbstractAsyncContextManager[EngineT]]
"""Starts one engine, which is ready when the block begins and has ended after it. Raises EngineUnavailable with the
reason. Any other exception is logged with its traceback."""


class Supervisor(Generic[EngineT]):
    """Runs one engine and restarts it. `start` must limit its own waiting time."""

    def __init__(
        self,
        name: str,
        start: EngineStarter[EngineT],
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._start = start
        self._sleep = sleep
        self._clock = clock
        self._engine: EngineT | None = None
        self._status = EngineStatus("starting", "not started yet")
        self._retry_s = MIN_BACKOFF_S
        self._settled = asyncio.Event()

    @property
    def engine(self) -> EngineT:
        """The engine that is up. Raises EngineUnavailable with the reason if none is."""
        if self._engine is None:
            state, detail = self._status.state, self._status.detail
            message = f"the engine is {state}" + (f": {detail}" if detail else "")
            raise EngineUnavailable(message, provider=self._name, retry_after_s=max(1, round(self._retry_s)))
        return self._engine

    @property
    def engine_status(self) -> EngineStatus:
        return self._status

    async def wait_until_settled(self) -> None:
        """Waits until the engine is ready or down for the first time."""
        await self._settled.wait()

    @asynccontextmanager
    async def run_engine(self) -> AsyncGenerator[None, None]:
        """Keeps the engine running until the block ends, and then stops it and waits for its end. Entering the block
        does not wait for the engine to start."""
        async with asyncio.TaskGroup() as tasks:
            supervision = tasks.create_task(self._supervise())
            try:
                yield
            finally:
                supervision.cancel()

    async def _supervise(self) -> None:
        self._retry_s = MIN_BACKOFF_S
        while True:
            lived_s, reason = await self._run_once()
            if lived_s >= HEALTHY_S:
                self._retry_s = MIN_BACKOFF_S
            _log.warning("engine_down", engine=self._name, reason=reason, retry_s=self._retry_s)
            await self._sleep(self._retry_s)
            self._retry_s = min(self._retry_s * 2, MAX_BACKOFF_S)

    async def _run_once(self) -> tuple[float, str]:
        """Runs one engine from its start to its end. Returns how many seconds it was up, and why it ended."""
        self._status = EngineStatus("starting")
        began = self._clock()
        ready = None
        reason = "it was stopped"
        try:
            async with self._start(self._report_progress) as engine:
                ready = self._clock()
                _log.info("engine_ready", engine=self._name, start_s=round(ready - began, 1))
                self._engine = engine
                self._status = EngineStatus("ready")
                self._settled.set()
                reason = await engine.wait_until_dead()
                self._mark_down(reason)
        except EngineUnavailable as error:
            reason = error.message
        except Exception as error:  # engines are third-party programs and may raise anything
            reason = f"{type(error).__name__}: {error}"
            _log.exception("engine_failed", engine=self._name)
        finally:
            self._mark_down(reason)
        return (self._clock() - ready if ready is not None else 0.0), reason

    def _report_progress(self, doing: str) -> None:
        _log.info("engine_starting", engine=self._name, doing=doing)
        self._status = EngineStatus("starting", doing)

    def _mark_down(self, reason: str) -> None:
        self._engine = None
        self._status = EngineStatus("down", reason)
        self._settled.set()
