"""OpenAI's SDK before a gateway with a store, whose one provider is a scripted upstream."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

from tests.databases import ready_sqlite
from tests.serving import serving


@asynccontextmanager
async def official_client(folder: Path, provider: dict[str, Any], **model: Any) -> AsyncIterator[AsyncOpenAI]:
    """Serves every model name by this provider. `model` has more keys of the models."""
    config = {
        "store": {"url": ready_sqlite(folder / "store.db")},
        "providers": {"up": provider},
        "models": {"*": {"provider": "up", **model}},
    }
    with serving(config) as gateway:
        async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
            yield client


async def respond(client: AsyncOpenAI, model: str, *, stream: bool, **params: Any) -> Any:
    """Returns the response, streamed or not."""
    if not stream:
        return await client.responses.create(model=model, **params)
    async with client.responses.stream(model=model, **params) as events:
        return await events.get_final_response()
