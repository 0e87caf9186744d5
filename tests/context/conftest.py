"""A gateway with a store before an upstream that counts words as tokens and has a small context."""

from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.context.small_window_model import Reader
from tests.databases import ready_sqlite
from tests.serving import serving
from tests.upstream import ScriptedUpstream


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as up:
        yield up


@pytest.fixture
def reader(upstream: ScriptedUpstream) -> Reader:
    """The model behind the upstream's chat."""
    reader = Reader()
    upstream.on("/chat/completions", reader)
    return reader


@pytest.fixture
async def client(upstream: ScriptedUpstream, reader: Reader, tmp_path: Path) -> AsyncIterator[AsyncOpenAI]:
    chat: dict[str, Any] = {"type": "openai_compatible", "base_url": upstream.url}
    config = {
        "store": {"url": ready_sqlite(tmp_path / "state.db")},
        "providers": {
            "chat": chat,
            "both": {**chat, "dialects": ["chat", "responses"]},
            "responses": {**chat, "dialects": ["responses"]},
            "openai": {"type": "openai", "base_url": upstream.url},
            "vllm": {"type": "vllm", "base_url": upstream.url},
        },
        "models": {
            "both": {"provider": "both"},
            "responses": {"provider": "responses"},
            "openai": {"provider": "openai"},
            "vllm": {"provider": "vllm"},
            "llama": {"provider": "chat", "capabilities": {"counting": "chat"}},
            "old-llama": {"provider": "chat", "capabilities": {"counting": "template"}},
            "uncounted": {"provider": "chat", "capabilities": {"counting": "none"}},
            "small": {"provider": "chat", "capabilities": {"max_context_window": 80}},
            "*": {"provider": "chat"},
        },
    }
    with ExitStack() as running:
        gateway = running.enter_context(serving(config))
        async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
            yield client
