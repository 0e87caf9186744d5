"""The start and the end of an embedded vLLM, with a stand-in that loads on command."""

import asyncio
import multiprocessing
import signal
import threading
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from providers.config import ProviderConfig
from providers.egress import EgressClient
from providers.errors import EngineUnavailable
from providers.vllm_inprocess import lifecycle
from providers.vllm_inprocess.lifecycle import run_engine
from providers.vllm_inprocess.provider import VllmProvider
from tests.unit.support.vllm_fakes import AsyncLLM, VLLMClientError, library
from translation.errors import Unrepresentable
from translation.representation.profile import DEFAULT_PROFILE
from translation.representation.turn import Turn

CONFIG = ProviderConfig.model_validate({"type": "vllm_inprocess", "model": "some/model"})
DEADLINE_S = 60.0


class Process:
    """A process of the engine. Killing it makes the load fail."""

    pid = None

    def __init__(self, on_kill: threading.Event) -> None:
        self.on_kill = on_kill

    def kill(self) -> None:
        self.on_kill.set()

    def join(self, timeout: float) -> None:
        assert self.on_kill.is_set()


class Loading:
    """A stand-in for vLLM that loads until a test ends that."""

    def __init__(self) -> None:
        self.llm = AsyncLLM()
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.is_loading = threading.Event()
        self.was_killed = threading.Event()
        self.failure: Exception | None = None
        self.processes: list[Process] = []
        self.deaf_to: set[signal.Signals] = set()

    def from_engine_args(self, arguments: Any) -> AsyncLLM:
        self.deaf_to = {signal.Signals(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, ())}
        self.processes.append(Process(self.was_killed))
        self.is_loading.set()
        while not self.may_go_on.wait(0.01):
            if self.was_killed.is_set():
                raise RuntimeError("Engine core initialization failed")
        if self.failure is not None:
            raise self.failure
        return self.llm


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> Loading:
    found = Loading()
    monkeypatch.setattr(lifecycle, "import_module", lambda _: library(AsyncLLM=found))
    monkeypatch.setattr(multiprocessing, "active_children", lambda: list(found.processes))
    return found


async def test_an_engine_is_warm_when_it_is_ready_and_ended_when_it_is_left(loading: Loading) -> None:
    doing: list[str] = []
    async with run_engine("local", CONFIG, EgressClient(), doing.append) as engine:
        assert [asked.params.max_tokens for asked in loading.llm.asked] == [1, 1]
        assert engine.running_requests == 0
        assert doing == ["importing vLLM", "loading some/model", "first token"]
    assert loading.llm.was_shut_down
    assert loading.was_killed.is_set(), "what is left of its processes is killed"


async def test_processes_of_the_engine_do_not_get_the_gateways_interrupts(loading: Loading) -> None:
    async with run_engine("local", CONFIG, EgressClient(), print):
        assert signal.SIGINT in loading.deaf_to
        masks = [asyncio.to_thread(signal.pthread_sigmask, signal.SIG_BLOCK, ()) for _ in range(4)]
        assert all(signal.SIGINT not in mask for mask in await asyncio.gather(*masks)), "its thread hears them again"


async def test_an_engine_that_cannot_be_guided_starts_all_the_same(loading: Loading) -> None:
    refusal = VLLMClientError("no structured outputs with this tokenizer")
    loading.llm = AsyncLLM(refuses_guides=refusal)
    async with run_engine("local", CONFIG, EgressClient(), print) as engine:
        assert engine.running_requests == 0


async def test_the_death_of_the_engine_is_reported_at_once(loading: Loading) -> None:
    async with run_engine("local", CONFIG, EgressClient(), print) as engine:
        dying = asyncio.ensure_future(engine.wait_until_dead())
        await asyncio.sleep(0)
        assert not dying.done()
        assert loading.llm.output_handler is not None
        loading.llm.output_handler.set_result(None)
        assert "process ended" in await asyncio.wait_for(dying, DEADLINE_S)


async def test_a_model_that_cannot_be_loaded_is_reported_in_one_line(loading: Loading) -> None:
    loading.failure = ValueError("no such\n  model")
    with pytest.raises(EngineUnavailable, match="vLLM cannot load some/model: no such model"):
        async with run_engine("local", CONFIG, EgressClient(), print):
            pass


async def cancel_while_loading(loading: Loading) -> None:
    """Starts an engine, and cancels that while its model is loaded."""

    async def start() -> None:
        async with run_engine("local", CONFIG, EgressClient(), print):
            pass

    task = asyncio.ensure_future(start())
    await asyncio.to_thread(loading.is_loading.wait, DEADLINE_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, DEADLINE_S)


async def test_leaving_in_the_middle_of_a_load_ends_it(loading: Loading) -> None:
    loading.may_go_on.clear()
    await cancel_while_loading(loading)
    assert loading.was_killed.is_set()


async def test_a_start_has_an_end(loading: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    loading.may_go_on.clear()
    monkeypatch.setattr(lifecycle, "_START_TIMEOUT_S", 0.05)
    with pytest.raises(EngineUnavailable, match=r"not ready within 0\.05 s"):
        async with run_engine("local", CONFIG, EgressClient(), print):
            pass
    assert loading.was_killed.is_set()


async def test_an_engine_that_became_ready_during_a_cancelled_start_is_ended_too(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kill came too late for the load to fail."""
    loading.may_go_on.clear()
    monkeypatch.setattr(Process, "kill", lambda process: loading.may_go_on.set())
    monkeypatch.setattr(Process, "join", lambda process, timeout: None)
    await cancel_while_loading(loading)
    assert loading.llm.was_shut_down


async def test_a_shutdown_that_fails_still_ends_the_processes(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("sockets")

    monkeypatch.setattr(loading.llm, "shutdown", fail)
    async with run_engine("local", CONFIG, EgressClient(), print):
        pass
    assert loading.was_killed.is_set()


async def test_without_vllm_the_start_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError("No module named 'vllm'", name="vllm")

    monkeypatch.setattr(lifecycle, "import_module", missing)
    with pytest.raises(EngineUnavailable, match=r"responses-gateway\[vllm\]"):
        async with run_engine("local", CONFIG, EgressClient(), print):
            pass


async def test_the_provider_reports_the_state_of_its_engine(loading: Loading) -> None:
    loading.may_go_on.clear()
    provider = VllmProvider("local", CONFIG, EgressClient())
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(provider.run_engine())
        await asyncio.to_thread(loading.is_loading.wait, DEADLINE_S)
        assert state_of(provider) == "starting"
        with pytest.raises(EngineUnavailable):
            await provider.list_models()
        loading.may_go_on.set()
        await asyncio.wait_for(provider.wait_until_settled(), DEADLINE_S)
        assert (state_of(provider), provider.engine_status.running) == ("ready", 0)
        loading.llm.unfinished = 3
        assert provider.engine_status.running == 3
        assert await provider.list_models() == ["some/model"]
    assert state_of(provider) == "down"


def state_of(provider: VllmProvider) -> str:
    return provider.engine_status.state


async def test_an_input_is_counted_as_the_engine_would_read_it(loading: Loading) -> None:
    provider = VllmProvider("local", CONFIG, EgressClient())
    turn = Turn(model="tiny", items=[{"type": "message", "role": "user", "content": [text("Hi")]}])
    async with provider.run_engine():
        await asyncio.wait_for(provider.wait_until_settled(), DEADLINE_S)
        assert await provider.count_tokens(turn, DEFAULT_PROFILE, "template") == len("\nHi\n")
        two = replace(DEFAULT_PROFILE, two_pass="on")
        assert await provider.count_tokens(turn, two, "template") > len("\nHi\n"), (
            "the tag that opens the thought is input"
        )
        with pytest.raises(Unrepresentable):
            await provider.count_tokens(turn, DEFAULT_PROFILE, "responses")


def text(content: str) -> dict[str, Any]:
    return {"type": "input_text", "text": content}
