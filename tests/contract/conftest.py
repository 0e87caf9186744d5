"""Fixtures with every kind of provider, built from a configuration, before a scripted upstream."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, Protocol, get_args

import pytest

from providers.base import EngineHost, Provider, RelayedDialect, WireDialect
from providers.config import EMBEDDED_TYPES, ProviderConfig, ProviderType
from providers.llamacpp.process import EngineProcess
from providers.registry import build_provider
from tests.unit.support.event_grammar import EventGrammar
from translation.representation.events import Delta, Event
from translation.representation.profile import DEFAULT_PROFILE
from translation.representation.turn import Turn


class Build(Protocol):
    """Builds a ready provider for an upstream's base URL."""

    def __call__(self, url: str, *, silence_s: float = ...) -> Awaitable[Provider]: ...


LONG_S = 90.0
SILENCE_S = 3.0
"""What a test of silence waits for. An upstream that does reply has done so by then, on a busy machine too."""

KEY = "upstream-secret"

KINDS: dict[str, tuple[ProviderType, WireDialect]] = {
    "openai_compatible": ("openai_compatible", "chat"),
    "openai_compatible, Responses": ("openai_compatible", "responses"),
    "openai": ("openai", "chat"),
    "openrouter": ("openrouter", "chat"),
    "anthropic": ("anthropic", "anthropic"),
    "gemini": ("gemini", "gemini"),
    "ollama": ("ollama", "ollama"),
    "vllm": ("vllm", "chat"),
    "llama_server": ("llama_server", "chat"),
    "harmony": ("harmony", "harmony"),
    "llamacpp": ("llamacpp", "chat"),
}
"""Name -> type of provider, and the dialect its turns go out in. Of an embedded engine only the process is scripted."""

ELSEWHERE: dict[ProviderType, str] = {
    "demo": "tests/unit/providers/demo, and as llamacpp here",
    "scripted": "tests/contract/test_embedded.py",
    "vllm_inprocess": "tests/contract/test_embedded.py and, with a real vLLM, tests/engine",
}
"""Types without a socket -> the tests of the contract for them."""

QUESTION: dict[str, Any] = {
    "model": "m",
    "items": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
}
STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


async def events_of(provider: Provider, *, stream: bool = True) -> list[Event]:
    """Returns the events of one turn, each checked by the grammar."""
    grammar = EventGrammar()
    events: list[Event] = []
    async with aclosing(provider.prepare(Turn(**QUESTION, stream=stream), DEFAULT_PROFILE).batches()) as batches:
        async for batch in batches:
            grammar.check(batch)
            events += batch
    grammar.finish()
    return events


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def kind(request: pytest.FixtureRequest) -> tuple[ProviderType, WireDialect]:
    found: tuple[ProviderType, WireDialect] = request.param
    return found


@pytest.fixture
def dialect(kind: tuple[ProviderType, WireDialect]) -> WireDialect:
    return kind[1]


@pytest.fixture
async def provider_at(kind: tuple[ProviderType, WireDialect], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Build]:
    """Returns a function that builds a provider for an upstream's address. It is closed when the test ends."""
    async with AsyncExitStack() as open_providers:

        async def provider_at(url: str, *, silence_s: float = LONG_S) -> Provider:
            provider = build_provider("up", config_of(kind, url, silence_s))
            open_providers.push_async_callback(provider.aclose)
            if isinstance(provider, EngineHost):
                monkeypatch.setattr("providers.llamacpp.provider.run_engine_process", lambda *_: _process_at(url))
                await open_providers.enter_async_context(provider.run_engine())
                await provider.wait_until_settled()
            return provider

        yield provider_at


def config_of(kind: tuple[ProviderType, WireDialect], url: str, silence_s: float) -> ProviderConfig:
    limits = {"connect_s": LONG_S, "silence_s": silence_s, "answer_s": silence_s, "retries": 0}
    known: dict[str, Any] = {"model": "m.gguf"}
    if kind[0] not in EMBEDDED_TYPES:
        dialects = [kind[1]] if kind[1] in get_args(RelayedDialect) else []
        known = {"base_url": url, "api_key": KEY, "dialects": dialects}
    return ProviderConfig.model_validate({"type": kind[0], **known, **limits})


@asynccontextmanager
async def _process_at(url: str) -> AsyncGenerator[EngineProcess, None]:
    """A process that serves there and lives as long as it is wanted."""
    never: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def end() -> str:
        return await never

    yield EngineProcess(url.removesuffix("/v1"), KEY, is_dead=lambda: False, end=end)
