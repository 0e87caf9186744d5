"""Two replicas of a gateway on one database, and clients of both."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import httpx

from tests.agui_client import PATIENCE_S
from tests.serving import Gateway, serving


@asynccontextmanager
async def two_replicas(
    store_url: str, upstream_url: str, model: dict[str, Any] | None = None, **sections: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """Serves the model `m`, with the fields of `model`, before one upstream. `sections` are of the configuration."""
    config = {
        "store": {"url": store_url, "poll_s": 0.05},
        "providers": {"up": {"type": "openai_compatible", "base_url": upstream_url, "retries": 0}},
        "models": {"m": {"provider": "up", **(model or {})}},
        **sections,
    }
    with ExitStack() as stack:
        replicas: list[Gateway] = [stack.enter_context(serving(config)) for _ in range(2)]
        async with (
            httpx.AsyncClient(base_url=replicas[0].url, timeout=PATIENCE_S) as first,
            httpx.AsyncClient(base_url=replicas[1].url, timeout=PATIENCE_S) as second,
        ):
            yield first, second
