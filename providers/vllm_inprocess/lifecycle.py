"""One vLLM engine from its start to its end. It is built in a thread, because that takes seconds to minutes; what runs
the model is a process of its own, which goes with it."""

import asyncio
import multiprocessing
import signal
import subprocess
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cached_property, partial
from importlib import import_module
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, Final

import structlog
from pydantic import ValidationError

from providers.config import ProviderConfig
from providers.egress import EgressClient
from providers.engines.base import GenerationRequest, OutputConstraint, TokenPrompt
from providers.engines.generation_request import ToolParsers
from providers.engines.supervisor import ReportProgress
from providers.engines.watchdog import Watchdog, cpu_time_of, wait_until_dead_or_hung
from providers.errors import EngineUnavailable, UpstreamRejected
from providers.vllm_inprocess.arguments import build_engine_args
from providers.vllm_inprocess.check import NOT_INSTALLED
from providers.vllm_inprocess.engine import VllmEngine
from providers.vllm_inprocess.reaper import start_reaper
from providers.vllm_inprocess.tool_parsers import VLLM_PARSER_PREFIX, VllmToolParser
from translation.chat.lowering.tools import lower_tools
from translation.parsers.tools import PARSER_FACTORIES
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_log = structlog.get_logger(__name__)

_START_TIMEOUT_S: Final = 7200.0
"""To load a model; hundreds of gigabytes may come from the hub."""

_SHUTDOWN_TIMEOUT_S: Final = 10.0
"""For the processes to end by themselves; then they are killed."""

_START_LOCK = threading.Lock()
"""vLLM measures the memory that is free when it starts, and what of it is its own is told by when it appeared."""


class RunningEngine:
    """An engine that is up."""

    def __init__(
        self,
        vllm: ModuleType,
        llm: Any,
        egress: EgressClient,
        models: Sequence[str],
        *,
        silence_s: float,
        watchdog: Watchdog | None = None,
    ) -> None:
        self.models = models
        self.llm = llm
        self._watchdog = watchdog
        self.engine = VllmEngine(vllm, llm, egress, silence_s=silence_s)
        self._new_special_engine = partial(VllmEngine, vllm, llm, egress, silence_s=silence_s, keep_special_tokens=True)

    def engine_for_turn(self, turn: Turn, profile: Profile) -> tuple[VllmEngine, ToolParsers]:
        """The engine as this turn needs it, and the parsers its calls may be read by.

        Raises UpstreamRejected for a parser of vLLM's that there is not, or that does not fit the model.
        """
        if not turn.tools or not profile.tool_parser.startswith(VLLM_PARSER_PREFIX):
            return self.engine, PARSER_FACTORIES
        tools = lower_tools(turn.tools, None, None, []).get("tools", [])
        parser = VllmToolParser(profile.tool_parser, self.llm.get_tokenizer(), tools)
        engine = self._with_special_tokens if parser.needs_special_tokens else self.engine
        # One turn has one answer, and so one parser.
        return engine, {**PARSER_FACTORIES, profile.tool_parser: lambda: parser}

    @cached_property
    def _with_special_tokens(self) -> VllmEngine:
        return self._new_special_engine()

    @property
    def running_requests(self) -> int:
        return int(self.llm.get_num_unfinished_requests())

    async def wait_until_dead(self) -> str:
        return await (
            self._wait_for_output_end()
            if self._watchdog is None
            else wait_until_dead_or_hung(self._wait_for_output_end(), self._watchdog)
        )

    async def _wait_for_output_end(self) -> str:
        # This task of vLLM's hands out what the engine generates; it ends only when the engine is no more.
        await asyncio.wait([self.llm.output_handler])
        return "the engine's process ended"


@asynccontextmanager
async def run_engine(
    name: str, config: ProviderConfig, egress: EgressClient, progress: ReportProgress
) -> AsyncGenerator[RunningEngine, None]:
    """An engine, warm when the block begins; its processes are gone when it has ended.

    Raises EngineUnavailable where vLLM is missing, an argument is wrong, or the model cannot be loaded, or not within
    `_START_S`.
    """
    start = _EngineStart(name, config, progress)
    try:
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                vllm, llm = await start.wait_until_built()
                models = [config.model or name]
                watchdog = start.build_watchdog(config.hang_s)
                engine = RunningEngine(vllm, llm, egress, models, silence_s=config.silence_s, watchdog=watchdog)
                progress("first token")
                await _warm_up(VllmEngine(vllm, llm, egress, silence_s=_START_TIMEOUT_S))
                await engine.engine.renders_tools()
        except TimeoutError:
            raise EngineUnavailable(f"it was not ready within {_START_TIMEOUT_S:g} s", provider=name) from None
        yield engine
    finally:
        await start.stop()


async def _warm_up(engine: VllmEngine) -> None:
    """What the first request would wait for. It also begins the task that `died` watches."""
    only = TokenPrompt(tokens=await engine.encode("."), tail=".")
    async for _ in engine.generate(only, GenerationRequest(max_tokens=1)):
        pass
    # The first guide makes vLLM import what makes grammars, which would hold up all others who are answered.
    with suppress(UpstreamRejected):
        async for _ in engine.generate(
            only, GenerationRequest(max_tokens=1, constraint=OutputConstraint(json_object=True))
        ):
            pass


class _EngineStart:
    """A start in a thread, which cannot be cancelled: what it has begun is ended instead."""

    def __init__(self, name: str, config: ProviderConfig, progress: ReportProgress) -> None:
        self._name = name
        self._config = config
        self._progress = progress
        self._loop = asyncio.get_running_loop()
        self._is_abandoned = False
        self._other_processes: set[BaseProcess] | None = None
        self._llm: Any = None
        self._reaper: subprocess.Popen[bytes] | None = None
        self._built = self._loop.run_in_executor(None, self._build)

    async def wait_until_built(self) -> tuple[ModuleType, Any]:
        # Shielded: the thread goes on, and `end` has to know when it is through.
        return await asyncio.shield(self._built)

    async def stop(self) -> None:
        """Stop the engine, or the start of one."""
        try:
            await self._stop_engine()
        finally:
            if self._reaper is not None:
                self._reaper.kill()
                self._reaper.communicate()

    async def _stop_engine(self) -> None:
        self._is_abandoned = True
        if not self._built.done():
            # Without its process the start fails at once.
            self._kill_and_join()
            await asyncio.wait([self._built], timeout=_SHUTDOWN_TIMEOUT_S)
        if self._built.done() and not self._built.cancelled():
            self._built.exception()
        if self._llm is not None:
            stopping = self._loop.run_in_executor(None, self._llm.shutdown)
            done, _ = await asyncio.wait([stopping], timeout=_SHUTDOWN_TIMEOUT_S)
            for stopped in done:
                if failure := stopped.exception():
                    _log.warning("engine_stop_failed", engine=self._name, reason=repr(failure))
        self._kill_and_join()

    def _build(self) -> tuple[ModuleType, Any]:
        with _START_LOCK:
            self._other_processes = set(multiprocessing.active_children())
            self._report_progress("importing vLLM")
            vllm = _import_library()
            arguments = build_engine_args(vllm, self._name, self._config)
            self._report_progress(f"loading {self._config.model}")
            try:
                with _block_interrupts():
                    self._llm = vllm.AsyncLLM.from_engine_args(arguments)
            except Exception as failure:
                # vLLM's own log, which has been printed, says more than any exception it raises.
                message = f"vLLM cannot load {self._config.model}: {_failure_reason(failure)}"
                raise EngineUnavailable(message, provider=self._name) from failure
            self._reaper = start_reaper(self._pids())
            return vllm, self._llm

    def _report_progress(self, doing: str) -> None:
        if self._is_abandoned:
            raise EngineUnavailable("the start was given up", provider=self._name)
        self._loop.call_soon_threadsafe(self._progress, doing)

    def build_watchdog(self, timeout_s: float) -> Watchdog:
        """Of the engine that was built. Its own `check_health` asks no process."""
        pids = self._pids()
        return Watchdog(
            ping=lambda: self._llm.is_sleeping(),  # any question that its process answers between two steps
            cpu_time_s=lambda: cpu_time_of(pids) if pids else None,
            kill=self._kill_processes,
            timeout_s=timeout_s,
        )

    def _pids(self) -> list[int]:
        return [process.pid for process in self._engine_processes() if process.pid is not None]

    def _kill_processes(self) -> None:
        for process in self._engine_processes():
            process.kill()

    def _kill_and_join(self) -> None:
        self._kill_processes()
        for process in self._engine_processes():
            process.join(_SHUTDOWN_TIMEOUT_S)

    def _engine_processes(self) -> set[BaseProcess]:
        return (
            set() if self._other_processes is None else set(multiprocessing.active_children()) - self._other_processes
        )


@contextmanager
def _block_interrupts() -> Iterator[None]:
    """Processes that this thread starts do not hear Ctrl-C on a terminal: it is for the gateway, which has answers to
    finish. They cannot be given a session of their own, as vLLM starts them."""
    # The first process of all starts this one as well, after which the thread would hear them again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _failure_reason(failure: Exception) -> str:
    """In one line."""
    if isinstance(failure, ValidationError):
        return failure.errors(include_url=False)[0]["msg"]
    return " ".join(str(failure).split()) or type(failure).__name__


def _import_library() -> ModuleType:
    try:
        return import_module("providers.vllm_inprocess.library")
    except ModuleNotFoundError as missing:
        raise EngineUnavailable(NOT_INSTALLED if missing.name == "vllm" else str(missing)) from missing
