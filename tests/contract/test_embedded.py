"""The contract of provider types without sockets, and that every type has contract tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing

import pytest

from providers import errors
from providers.base import EngineHost, Provider
from providers.config import ProviderConfig, ProviderType
from providers.registry import BUILDERS, build_provider
from providers.vllm_inprocess import lifecycle
from tests.contract.conftest import ELSEWHERE, KINDS, QUESTION, STREAMED, events_of, text_of
from tests.unit.support.vllm_fakes import AsyncLLM, EngineDeadError, GracefulHTTPError, library, text_output
from translation.representation.events import Finished
from translation.representation.profile import DEFAULT_PROFILE
from translation.representation.turn import Turn

READY_S = 60.0
FAILURES: dict[str, tuple[Exception, type[errors.ProviderError]]] = {
    "too many requests": (GracefulHTTPError("slow down", 429), errors.UpstreamRateLimited),
    "an overload": (GracefulHTTPError("busy", 503), errors.UpstreamOverloaded),
    "an end of the engine": (EngineDeadError(), errors.EngineUnavailable),
    "anything else": (RuntimeError("out of memory"), errors.UpstreamBroken),
}


class Loading:
    """A stand-in for a vLLM that is loading."""

    def __init__(self) -> None:
        self.llm = AsyncLLM(text_output("Hi"), text_output(" you"), text_output("", "stop"))

    def from_engine_args(self, arguments: object) -> AsyncLLM:
        return self.llm


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> AsyncLLM:
    loading = Loading()
    monkeypatch.setattr(lifecycle, "import_module", lambda _: library(AsyncLLM=loading))
    return loading.llm


@pytest.fixture(params=sorted(ELSEWHERE.keys() - {"demo"}))
async def provider(request: pytest.FixtureRequest, vllm: AsyncLLM) -> AsyncIterator[Provider]:
    """A provider of each of these types, ready for turns."""
    async with AsyncExitStack() as open_providers:
        yield await open_provider(request.param, open_providers)


async def open_provider(kind: ProviderType, until: AsyncExitStack) -> Provider:
    known = {"type": kind} if kind == "scripted" else {"type": kind, "model": "m", "silence_s": 0.3}
    provider = build_provider("up", ProviderConfig.model_validate(known))
    until.push_async_callback(provider.aclose)
    if isinstance(provider, EngineHost):
        await until.enter_async_context(provider.run_engine())
        async with asyncio.timeout(READY_S):
            await provider.wait_until_settled()
    return provider


def test_every_provider_type_is_covered_by_contract_tests() -> None:
    here = {kind for kind, _ in KINDS.values()}
    assert here | ELSEWHERE.keys() == BUILDERS.keys()
    assert not here & ELSEWHERE.keys()


@STREAMED
async def test_a_turn_is_answered_without_a_socket(provider: Provider, stream: bool) -> None:
    events = await events_of(provider, stream=stream)
    assert text_of(events)
    assert isinstance(events[-1], Finished)
    assert events[-1].usage is not None
    assert len(await provider.list_models()) == 1
    with pytest.raises(ValueError, match="dialect"):
        provider.prepare_relay("chat", {})
    assert provider.redact("as it is") == "as it is"


@pytest.mark.parametrize(("failure", "name"), FAILURES.values(), ids=FAILURES)
async def test_each_failure_of_an_engine_has_its_code(
    failure: Exception, name: type[errors.ProviderError], vllm: AsyncLLM
) -> None:
    async with AsyncExitStack() as open_providers:
        provider = await open_provider("vllm_inprocess", open_providers)
        sound, vllm.script = vllm.script, [failure]
        with pytest.raises(errors.ProviderError) as raised:
            await events_of(provider)
        assert type(raised.value) is name
        vllm.script = sound
        assert text_of(await events_of(provider)) == "Hi you", "the next turn is unaffected"


@pytest.mark.parametrize(
    "left", [[text_output("Hi")], [text_output("Hi"), text_output("", "abort")]], ids=["says no end", "gives up"]
)
async def test_an_answer_of_an_engine_that_stops_too_early_fails(left: list, vllm: AsyncLLM) -> None:
    async with AsyncExitStack() as open_providers:
        provider = await open_provider("vllm_inprocess", open_providers)
        vllm.script = left
        with pytest.raises(errors.UpstreamBroken):
            await events_of(provider)


async def test_a_silent_engine_times_out(vllm: AsyncLLM) -> None:
    async with AsyncExitStack() as open_providers:
        provider = await open_provider("vllm_inprocess", open_providers)
        vllm.script, vllm.hangs = [text_output("Hi")], True
        with pytest.raises(errors.UpstreamTimeout):
            await events_of(provider)


async def test_closing_early_ends_the_work_of_the_engine(vllm: AsyncLLM) -> None:
    async with AsyncExitStack() as open_providers:
        provider = await open_provider("vllm_inprocess", open_providers)
        vllm.script, vllm.hangs = [text_output("Hi")], True
        async with aclosing(provider.prepare(Turn(**QUESTION), DEFAULT_PROFILE).batches()) as batches:
            await anext(batches)
            await anext(batches)
            assert vllm.unfinished == 1
        assert vllm.unfinished == 0
