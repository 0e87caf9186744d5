"""Every kind of provider, built as a configuration would, before a scripted upstream where it has one."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import get_args

import pytest

from providers.base import Dialect, Provider, WireDialect
from providers.config import ProviderConfig, ProviderType
from providers.registry import build

Build = Callable[[str], Provider]
"""The upstream's base URL to a provider."""

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
}
"""Name -> type of provider, and the dialect its turns go out in."""


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def kind(request: pytest.FixtureRequest) -> tuple[ProviderType, WireDialect]:
    found: tuple[ProviderType, WireDialect] = request.param
    return found


@pytest.fixture
def dialect(kind: tuple[ProviderType, WireDialect]) -> WireDialect:
    return kind[1]


@pytest.fixture
async def provider_at(kind: tuple[ProviderType, WireDialect]) -> AsyncIterator[Build]:
    """Call it with the upstream's address; what it builds is closed when the test ends."""
    async with AsyncExitStack() as open_providers:

        def provider_at(url: str) -> Provider:
            config = ProviderConfig.model_validate(
                {
                    "type": kind[0],
                    "base_url": url,
                    "api_key": "upstream-secret",
                    "dialects": [kind[1]] if kind[1] in get_args(Dialect) else [],
                    "silence_s": 0.3,
                    "answer_s": 0.3,
                    "retries": 0,
                }
            )
            provider = build("up", config)
            open_providers.push_async_callback(provider.aclose)
            return provider

        yield provider_at
