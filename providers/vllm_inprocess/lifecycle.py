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
from providers.egress import Egress
from providers.engines.base import Generation, Guide, Prompt
from providers.engines.generation_request import Parsers
from providers.engines.supervisor import Progress
from providers.engines.watchdog import Watch, died_or_hung, processor_s
from providers.errors import EngineUnavailable, UpstreamRejected
from providers.vllm_inprocess.arguments import engine_args
from providers.vllm_inprocess.check import INSTALL
from providers.vllm_inprocess.engine import VllmEngine
from providers.vllm_inprocess.reaper import reaper
from providers.vllm_inprocess.tool_parsers import PREFIX, VllmToolParser
from translation.chat.lowering.tools import lower_tools
from translation.parsers.tools import PARSERS
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_log = structlog.get_logger(__name__)

_START_S: Final = 7200.0
"""To load a model; hundreds of gigabytes may come from the hub."""

_SHUTDOWN_S: Final = 10.0
"""For the processes to end by themselves; then they are killed."""

_ONE_AT_A_TIME = threading.Lock()
"""vLLM measures the memory that is free when it starts, and what of it is its own is told by when it appeared."""


class Started:
    """An engine that is up."""

    def __init__(
        self,
        vllm: ModuleType,
        llm: Any,
        egress: Egress,
        models: Sequence[str],
        *,
        silence_s: float,
        watch: Watch | None = None,
    ) -> None:
        self.models = models
        self.llm = llm
        self._watch = watch
        self.engine = VllmEngine(vllm, llm, egress, silence_s=silence_s)
        self._special = partial(VllmEngine, vllm, llm, egress, silence_s=silence_s, whole_text=True)

    def serving(self, turn: Turn, profile: Profile) -> tuple[VllmEngine, Parsers]:
        """The engine as this turn needs it, and the parsers its calls may be read by.

        Raises UpstreamRejected for a parser of vLLM's that there is not, or that does not fit the model.
        """
        if not turn.tools or not profile.tool_parser.startswith(PREFIX):
            return self.engine, PARSERS
        tools = lower_tools(turn.tools, None, None, []).get("tools", [])
        parser = VllmToolParser(profile.tool_parser, self.llm.get_tokenizer(), tools)
        engine = self._with_special_tokens if parser.whole_text else self.engine
        # One turn has one answer, and so one parser.
        return engine, {**PARSERS, profile.tool_parser: lambda: parser}

    @cached_property
    def _with_special_tokens(self) -> VllmEngine:
        return self._special()

    @property
    def running(self) -> int:
        return int(self.llm.get_num_unfinished_requests())

    async def died(self) -> str:
        return await (self._ended() if self._watch is None else died_or_hung(self._ended(), self._watch))

    async def _ended(self) -> str:
        # This task of vLLM's hands out what the engine generates; it ends only when the engine is no more.
        await asyncio.wait([self.llm.output_handler])
        return "the engine's process ended"


@asynccontextmanager
async def started(
    name: str, config: ProviderConfig, egress: Egress, progress: Progress
) -> AsyncGenerator[Started, None]:
    """An engine, warm when the block begins; its processes are gone when it has ended.

    Raises EngineUnavailable where vLLM is missing, an argument is wrong, or the model cannot be loaded, or not within
    `_START_S`.
    """
    building = _Building(name, config, progress)
    try:
        try:
            async with asyncio.timeout(_START_S):
                vllm, llm = await building.done()
                models = [config.model or name]
                watch = building.watch(config.hang_s)
                engine = Started(vllm, llm, egress, models, silence_s=config.silence_s, watch=watch)
                progress("first token")
                await _warm_up(VllmEngine(vllm, llm, egress, silence_s=_START_S))
                await engine.engine.renders_tools()
        except TimeoutError:
            raise EngineUnavailable(f"it was not ready within {_START_S:g} s", provider=name) from None
        yield engine
    finally:
        await building.end()


async def _warm_up(engine: VllmEngine) -> None:
    """What the first request would wait for. It also begins the task that `died` watches."""
    only = Prompt(tokens=await engine.encode("."), tail=".")
    async for _ in engine.generate(only, Generation(max_tokens=1)):
        pass
    # The first guide makes vLLM import what makes grammars, which would hold up all others who are answered.
    with suppress(UpstreamRejected):
        async for _ in engine.generate(only, Generation(max_tokens=1, guide=Guide(json_object=True))):
            pass


class _Building:
    """A start in a thread, which cannot be cancelled: what it has begun is ended instead."""

    def __init__(self, name: str, config: ProviderConfig, progress: Progress) -> None:
        self._name = name
        self._config = config
        self._progress = progress
        self._loop = asyncio.get_running_loop()
        self._given_up = False
        self._others: set[BaseProcess] | None = None
        self._llm: Any = None
        self._reaper: subprocess.Popen[bytes] | None = None
        self._built = self._loop.run_in_executor(None, self._build)

    async def done(self) -> tuple[ModuleType, Any]:
        # Shielded: the thread goes on, and `end` has to know when it is through.
        return await asyncio.shield(self._built)

    async def end(self) -> None:
        """Stop the engine, or the start of one."""
        try:
            await self._end()
        finally:
            if self._reaper is not None:
                self._reaper.kill()
                self._reaper.communicate()

    async def _end(self) -> None:
        self._given_up = True
        if not self._built.done():
            # Without its process the start fails at once.
            self._kill()
            await asyncio.wait([self._built], timeout=_SHUTDOWN_S)
        if self._built.done() and not self._built.cancelled():
            self._built.exception()
        if self._llm is not None:
            stopping = self._loop.run_in_executor(None, self._llm.shutdown)
            done, _ = await asyncio.wait([stopping], timeout=_SHUTDOWN_S)
            for stopped in done:
                if failure := stopped.exception():
                    _log.warning("engine_stop_failed", engine=self._name, reason=repr(failure))
        self._kill()

    def _build(self) -> tuple[ModuleType, Any]:
        with _ONE_AT_A_TIME:
            self._others = set(multiprocessing.active_children())
            self._say("importing vLLM")
            vllm = _library()
            arguments = engine_args(vllm, self._name, self._config)
            self._say(f"loading {self._config.model}")
            try:
                with _deaf_to_interrupts():
                    self._llm = vllm.AsyncLLM.from_engine_args(arguments)
            except Exception as failure:
                # vLLM's own log, which has been printed, says more than any exception it raises.
                said = f"vLLM cannot load {self._config.model}: {_reason(failure)}"
                raise EngineUnavailable(said, provider=self._name) from failure
            self._reaper = reaper(self._pids())
            return vllm, self._llm

    def _say(self, doing: str) -> None:
        if self._given_up:
            raise EngineUnavailable("the start was given up", provider=self._name)
        self._loop.call_soon_threadsafe(self._progress, doing)

    def watch(self, patience_s: float) -> Watch:
        """Of the engine that was built. Its own `check_health` asks no process."""
        pids = self._pids()
        return Watch(
            ping=lambda: self._llm.is_sleeping(),  # any question that its process answers between two steps
            used_s=lambda: processor_s(pids) if pids else None,
            kill=self._kill_only,
            patience_s=patience_s,
        )

    def _pids(self) -> list[int]:
        return [process.pid for process in self._ours() if process.pid is not None]

    def _kill_only(self) -> None:
        for process in self._ours():
            process.kill()

    def _kill(self) -> None:
        self._kill_only()
        for process in self._ours():
            process.join(_SHUTDOWN_S)

    def _ours(self) -> set[BaseProcess]:
        return set() if self._others is None else set(multiprocessing.active_children()) - self._others


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes that this thread starts do not hear Ctrl-C on a terminal: it is for the gateway, which has answers to
    finish. They cannot be given a session of their own, as vLLM starts them."""
    # The first process of all starts this one as well, after which the thread would hear them again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _reason(failure: Exception) -> str:
    """In one line."""
    if isinstance(failure, ValidationError):
        return failure.errors(include_url=False)[0]["msg"]
    return " ".join(str(failure).split()) or type(failure).__name__


def _library() -> ModuleType:
    try:
        return import_module("providers.vllm_inprocess.library")
    except ModuleNotFoundError as missing:
        raise EngineUnavailable(INSTALL if missing.name == "vllm" else str(missing)) from missing
