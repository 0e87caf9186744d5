"""Starts and stops a vLLM engine. The engine is built in a thread, because that takes seconds to minutes. The model
runs in a separate process, which is stopped together with the engine."""

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
from providers.engines.supervisor import ProgressReporter
from providers.engines.watchdog import Watchdog, read_cpu_time, wait_until_dead_or_hung
from providers.errors import EngineUnavailable, UpstreamRejected
from providers.vllm_inprocess.arguments import build_engine_args
from providers.vllm_inprocess.check import NOT_INSTALLED
from providers.vllm_inprocess.engine import VllmEngine
from providers.vllm_inprocess.reaper import start_reaper
from providers.vllm_inprocess.tool_parsers import VLLM_PARSER_PREFIX, VllmToolParser
from translation.chat.upstream.lower_tools import lower_tools
from translation.parsers.tools import PARSER_FACTORIES
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_log = structlog.get_logger(__name__)

_START_TIMEOUT_S: Final = 7200.0
"""The limit for loading a model. It is long because hundreds of gigabytes may be downloaded from the hub."""

_SHUTDOWN_TIMEOUT_S: Final = 10.0
"""The seconds in which the processes may end by themselves. Then they are killed."""

_START_LOCK = threading.Lock()
"""Engines start one after the other. vLLM measures the free memory when it starts, and the processes of an engine are
recognized by the time at which they appear."""


class RunningEngine:
    """An engine that is up. `models` are the names of its models."""

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

    def select_engine(self, turn: Turn, profile: Profile) -> tuple[VllmEngine, ToolParsers]:
        """Returns the engine for this turn, and the tool parsers that the turn may use.

        Raises UpstreamRejected if the turn needs a parser that vLLM does not have, or that does not fit the model.
        """
        if not turn.tools or not profile.tool_parser.startswith(VLLM_PARSER_PREFIX):
            return self.engine, PARSER_FACTORIES
        tools = lower_tools(turn.tools, None, None, []).get("tools", [])
        parser = VllmToolParser(profile.tool_parser, self.llm.get_tokenizer(), tools)
        engine = self._with_special_tokens if parser.needs_special_tokens else self.engine
        # A turn has only one answer, so one parser object is enough.
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
        # This task of vLLM distributes the engine's outputs. It ends only when the engine is dead.
        await asyncio.wait([self.llm.output_handler])
        return "the engine's process ended"


@asynccontextmanager
async def run_engine(
    name: str, config: ProviderConfig, egress: EgressClient, progress: ProgressReporter
) -> AsyncGenerator[RunningEngine, None]:
    """Runs an engine, which is warmed up when the block begins. Its processes have ended after the block.

    Raises EngineUnavailable if vLLM is not installed, an argument is invalid, or the model cannot be loaded within
    `_START_TIMEOUT_S`.
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
    """Generates a token with and one without a constraint, so that the first request does not wait for what they
    initialize. This also starts the task that `RunningEngine.wait_until_dead` waits for."""
    prompt = TokenPrompt(tokens=await engine.encode("."), tail=".")
    async for _ in engine.generate(prompt, GenerationRequest(max_tokens=1)):
        pass
    # With the first constraint vLLM imports its grammar library, which would block the replies to other requests.
    with suppress(UpstreamRejected):
        async for _ in engine.generate(
            prompt, GenerationRequest(max_tokens=1, constraint=OutputConstraint(json_object=True))
        ):
            pass


class _EngineStart:
    """Starts an engine in a thread. The thread cannot be cancelled; instead `stop` ends the processes that it
    started."""

    def __init__(self, name: str, config: ProviderConfig, progress: ProgressReporter) -> None:
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
        # Shielded, because the thread goes on after a cancellation, and `stop` has to know when it has finished.
        return await asyncio.shield(self._built)

    async def stop(self) -> None:
        """Stops the engine, or its start."""
        try:
            await self._stop_engine()
        finally:
            if self._reaper is not None:
                self._reaper.kill()
                self._reaper.communicate()

    async def _stop_engine(self) -> None:
        self._is_abandoned = True
        if not self._built.done():
            # The start fails at once if its process is killed.
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
                # The exception says little. The details are in vLLM's own log, which has already been printed.
                message = f"vLLM cannot load {self._config.model}: {_failure_reason(failure)}"
                raise EngineUnavailable(message, provider=self._name) from failure
            self._reaper = start_reaper(self._pids())
            return vllm, self._llm

    def _report_progress(self, doing: str) -> None:
        if self._is_abandoned:
            raise EngineUnavailable("the start was cancelled", provider=self._name)
        self._loop.call_soon_threadsafe(self._progress, doing)

    def build_watchdog(self, timeout_s: float) -> Watchdog:
        """Returns a watchdog for the engine that was built. It does not use vLLM's `check_health`, which sends nothing
        to the engine's process."""
        pids = self._pids()
        return Watchdog(
            ping=lambda: self._llm.is_sleeping(),  # a request that the process responds to between two steps
            cpu_time_s=lambda: read_cpu_time(pids) if pids else None,
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
    """Blocks SIGINT in processes that this thread starts, so that Ctrl-C on a terminal only reaches the gateway, which
    first finishes its replies. A separate session is not possible, because vLLM starts the processes."""
    # The first process that is started also starts the resource tracker, which would unblock the signal in this thread.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _failure_reason(failure: Exception) -> str:
    if isinstance(failure, ValidationError):
        return failure.errors(include_url=False)[0]["msg"]
    return " ".join(str(failure).split()) or type(failure).__name__


def _import_library() -> ModuleType:
    try:
        return import_module("providers.vllm_inprocess.library")
    except ModuleNotFoundError as missing:
        raise EngineUnavailable(NOT_INSTALLED if missing.name == "vllm" else str(missing)) from missing
