"""providers/llamacpp/provider.py, with a scripted server in the place of llama.cpp's child process."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import pytest

from providers.base import Exchange
from providers.config import ProviderConfig
from providers.errors import EngineUnavailable, ProviderError, UpstreamBroken, UpstreamUnreachable
from providers.llamacpp.process import EngineProcess
from providers.llamacpp.provider import LlamacppProvider
from tests.upstream.builders import chat_chunk, data_frame
from tests.upstream.script import Close, Reply, Script, reset
from tests.upstream.server import ScriptedUpstream
from translation.representation.profile import DEFAULT_PROFILE
from translation.representation.turn import Turn

pytestmark = pytest.mark.anyio

TURN = Turn(
    model="m",
    items=[{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
    stream=True,
)
BREAKS_OFF = Reply(
    headers={"content-type": "text/event-stream"}, body=[data_frame(chat_chunk({"content": "Hel"})), Close()]
)


async def consume(exchange: Exchange) -> None:
    async with aclosing(exchange.batches()) as batches:
        async for _ in batches:
            pass


@pytest.mark.parametrize(
    ("script", "dead", "error", "message"),
    [
        (reset, True, EngineUnavailable, "the engine died"),
        (reset, False, UpstreamUnreachable, "the upstream cannot be reached"),
        (BREAKS_OFF, True, EngineUnavailable, "the engine died in the middle of its reply"),
        (BREAKS_OFF, False, UpstreamBroken, "the upstream broke off its reply"),
    ],
    ids=["dead", "alive", "dead in the middle", "alive in the middle"],
)
async def test_an_engine_death_is_reported_only_if_it_died(
    script: Script, dead: bool, error: type[ProviderError], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def process_at_server(*_: object) -> AsyncGenerator[EngineProcess, None]:
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        yield EngineProcess(server.url.removesuffix("/v1"), "key", is_dead=lambda: dead, end=lambda: never)

    monkeypatch.setattr("providers.llamacpp.provider.run_engine_process", process_at_server)
    provider = LlamacppProvider("tiny", ProviderConfig(type="llamacpp", model="m.gguf", dialects=("chat",), retries=0))
    async with ScriptedUpstream() as server, asyncio.timeout(60), provider.run_engine():
        await provider.wait_until_settled()
        server.script(script)
        with pytest.raises(error) as raised:
            await consume(provider.prepare(TURN, DEFAULT_PROFILE))
    assert type(raised.value) is error
    assert raised.value.message == message
