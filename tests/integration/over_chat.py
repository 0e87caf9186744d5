"""A gateway before a chat upstream, for tests of the APIs that other vendors defined."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.serving import Gateway, serving
from tests.upstream import Script, ScriptedUpstream


@asynccontextmanager
async def gateway_over_chat(
    *scripts: Script, models: dict[str, Any] | None = None, **config: Any
) -> AsyncIterator[tuple[Gateway, ScriptedUpstream]]:
    """Serves the model `m`, or `models` of the provider `p`, before an upstream that plays these scripts."""
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", *scripts)
        provider = {"type": "vllm", "base_url": upstream.url, "unlisted_models": "forward"}
        with serving({"providers": {"p": provider}, "models": models or {"m": {"provider": "p"}}, **config}) as gateway:
            yield gateway, upstream
