"""Each limit of the section `limits` can be replaced for one key, and then holds for that key alone."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from gateway.config.auth_settings import LimitSettings
from tests import databases
from tests.faults.config import StartGateway, config
from tests.upstream import Hang, Reply, ScriptedUpstream, chat_text
from tests.upstream.builders import SSE
from tests.upstream.faults import CHAT as ANSWER

Json = dict[str, Any]
PROMPT: Final[Json] = {"instructions": "Be brief."}
ASKED: Final[Json] = {"model": "m", "input": "hi"}
UNENDING: Final = Reply(headers=SSE, body=[ANSWER.opening, Hang()])


class Client(NamedTuple):
    """A client with one key."""

    http: httpx.AsyncClient
    headers: Mapping[str, str]

    async def post(self, path: str, body: Json | None = None, **more: Any) -> int:
        """Returns the status of a request."""
        headers = {**self.headers, **more.pop("headers", {})}
        return (await self.http.post(path, json=body, headers=headers, **more)).status_code

    async def upload(self, size: int) -> int:
        return await self.post("/files", data={"purpose": "user_data"}, files={"file": ("a.txt", b"x" * size)})


Recipe = Callable[[Client], Awaitable[list[int]]]


async def open_requests(client: Client) -> list[int]:
    async with AsyncExitStack() as opened:
        streams = [
            client.http.stream("POST", "/responses", json={**ASKED, "stream": True}, headers=client.headers)
            for _ in range(2)
        ]
        return [(await opened.enter_async_context(stream)).status_code for stream in streams]


async def websockets(client: Client) -> list[int]:
    url = str(client.http.base_url).replace("http", "ws") + "responses"
    async with AsyncExitStack() as opened:
        await opened.enter_async_context(connect(url, additional_headers=client.headers))
        try:
            await opened.enter_async_context(connect(url, additional_headers=client.headers))
        except InvalidStatus as refused:
            return [200, refused.response.status_code]
        return [200, 200]


async def background_jobs(client: Client) -> list[int]:
    return [await client.post("/responses", {**ASKED, "background": True}) for _ in range(2)]


async def event_log_mb(client: Client) -> list[int]:
    return [await client.post("/responses", {**ASKED, "stream": True, "resumable": True}) for _ in range(2)]


async def prompts(client: Client) -> list[int]:
    return [await client.post("/prompts", PROMPT) for _ in range(2)]


async def prompt_versions(client: Client) -> list[int]:
    created = await client.http.post("/prompts", json=PROMPT, headers=client.headers)
    return [created.status_code, await client.post(f"/prompts/{created.json()['id']}/versions", PROMPT)]


async def idempotency_keys(client: Client) -> list[int]:
    return [await client.post("/responses", ASKED, headers={"idempotency-key": key}) for key in ("a", "b")]


async def files(client: Client) -> list[int]:
    return [await client.upload(1) for _ in range(2)]


async def files_mb(client: Client) -> list[int]:
    return [await client.upload(1), await client.upload(2000)]


async def vector_stores(client: Client) -> list[int]:
    return [await client.post("/vector_stores", {}) for _ in range(2)]


RECIPES: Final[Mapping[str, tuple[float, Recipe]]] = {
    "open_requests": (1, open_requests),
    "websockets": (1, websockets),
    "background_jobs": (1, background_jobs),
    "event_log_mb": (0.001, event_log_mb),
    "prompts": (1, prompts),
    "prompt_versions": (1, prompt_versions),
    "idempotency_keys": (1, idempotency_keys),
    "files": (1, files),
    "files_mb": (0.001, files_mb),
    "vector_stores": (1, vector_stores),
}
"""Limit -> its value, and what a client does: its first request fits, its second one does not."""


def test_each_limit_has_a_recipe() -> None:
    assert RECIPES.keys() == LimitSettings.model_fields.keys()


@pytest.mark.parametrize("limit", RECIPES)
async def test_a_limit_of_a_key_holds_for_this_key_alone(limit: str, gateway: StartGateway, tmp_path: Path) -> None:
    value, recipe = RECIPES[limit]
    keys: list[Json] = [
        {"name": "ada", "key": "key-of-ada-0123456", "limits": {limit: value}},
        {"name": "bob", "key": "key-of-bob-0123456"},
    ]
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", UNENDING if recipe in (open_requests, background_jobs) else chat_text("hi"))
        settings = {
            **config(upstream.url, "chat"),
            "auth": {"keys": keys},
            "store": {"url": databases.ready_sqlite(tmp_path / "state.db")},
            "files": {"path": str(tmp_path / "files")},
        }
        async with httpx.AsyncClient(base_url=gateway(settings).v1, trust_env=False, timeout=60) as http:
            statuses = {
                each["name"]: await recipe(Client(http, {"authorization": f"Bearer {each['key']}"})) for each in keys
            }
    assert statuses == {"ada": [200, 429], "bob": [200, 200]}
