"""Engines behind HTTP, closed at the end of each test."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from providers.config import ProviderConfig
from providers.engines.servers.llama_server import LlamaServerEngine
from providers.engines.servers.remote import ModelCache, RemoteEngine
from providers.engines.servers.vllm_server import VllmServerEngine
from providers.http.upstream import Upstream
from tests.unit.providers.engines.servers.remote_engines import Start
from tests.upstream import ScriptedUpstream


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        def start(kind: type[Any], server: ScriptedUpstream) -> RemoteEngine:
            config = ProviderConfig.model_validate({"type": "vllm", "base_url": server.url, "retries": 0})
            upstream = Upstream("up", config, server.url)
            stack.push_async_callback(upstream.aclose)
            if kind is VllmServerEngine:
                return VllmServerEngine(upstream, "m", ModelCache())
            return LlamaServerEngine.for_model(upstream, "m", ModelCache())

        yield start
