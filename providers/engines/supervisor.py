"""Keeps one embedded engine alive: starts it, tells how it is, and starts it again when it died."""

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
"""Between an end and the next start: doubled from the first to the last, for starting an engine that cannot live should
not be all that the machine does."""

HEALTHY_S: Final = 60.0
"""An engine that lived for so long was well; its end is the first again."""


class SupervisedEngine(Protocol):
    """An engine that can be waited for."""

    async def wait_until_dead(self) -> str:
        """Wait until it is dead; the reason, for people."""
        ...


EngineT = TypeVar("EngineT", bound=SupervisedEngine)

ReportProgress: TypeAlias = Callable[[str], None]
"""Told what a start is doing: `loading qwen3.gguf`."""

StartEngine: TypeAlias = Callable[[ReportProgress], AbstractAsyncContextManager[EngineT]]
"""Makes one engine, ready when the block begins and gone when it has ended. Raises EngineUnavailable with the reason;
whatever else comes is logged with its traceback."""


class Supervisor(Generic[EngineT]):
    """One engine's life, over and over. `start` bounds its own waiting."""

    def __init__(
        self,
        name: str,
        start: StartEngine[EngineT],
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
        """The engine that is up. Raises EngineUnavailable, which says why there is none."""
        if self._engine is None:
            state, detail = self._status.state, self._status.detail
            message = f"the engine is {state}" + (f": {detail}" if detail else "")
            raise EngineUnavailable(message, provider=self._name, retry_after_s=max(1, round(self._retry_s)))
        return self._engine

    @property
    def engine_status(self) -> EngineStatus:
        return self._status

    async def wait_until_settled(self) -> None:
        """Wait until the engine is ready or down for the first time."""
        await self._settled.wait()

    @asynccontextmanager
    async def run_engine(self) -> AsyncGenerator[None, None]:
        """Keep an engine until the block ends, and then wait for its end. Entering does not wait for its start."""
        async with asyncio.TaskGroup() as tasks:
            supervising = tasks.create_task(self._supervise())
            try:
                yield
            finally:
                supervising.cancel()

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
        """One engine from its start to its end: how long it was up, and why it is not any more."""
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
        except Exception as error:  # engines are other people's programs, and fail in all ways there are
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
