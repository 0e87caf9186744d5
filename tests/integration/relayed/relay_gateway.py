"""The gateway in front of a scripted upstream, for the endpoints that are relayed as bytes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from openai import AsyncOpenAI

from tests.serving import serving
from tests.upstream import ScriptedUpstream

OWN_KEY = "key-of-the-gateway-0123456789"
CLIENT_KEY = "key-of-the-client-0123456789"


@asynccontextmanager
async def relaying(
    *, server: Any = None, limits: Any = None, **provider: Any
) -> AsyncIterator[tuple[AsyncOpenAI, ScriptedUpstream]]:
    """Yields a client of the gateway, whose key may use `mine` and `played`, and the upstream of `mine`."""
    async with ScriptedUpstream() as upstream:
        config = {
            "server": server or {},
            "limits": limits or {},
            "auth": {"keys": [{"name": "ann", "key": CLIENT_KEY, "models": ["mine", "played"]}]},
            "providers": {
                "p": {"type": "openai_compatible", "base_url": upstream.url, "api_key": OWN_KEY, **provider},
                "demo": {"type": "scripted"},
            },
            "models": {
                "mine": {"provider": "p", "model": "vendor/model-1"},
                "played": {"provider": "demo"},
                "secret": {"provider": "p", "model": "vendor/secret"},
            },
        }
        with serving(config) as served:
            async with AsyncOpenAI(base_url=served.v1, api_key=CLIENT_KEY, max_retries=0) as client:
                yield client, upstream
