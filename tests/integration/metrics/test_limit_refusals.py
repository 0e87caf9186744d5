"""Every refusal by a limit of the gateway is counted by the limit's key, and the log line has it too."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.integration.metrics.test_metrics import read_values, value_of
from tests.polling import wait_until
from tests.serving import Command, command
from tests.upstream import ScriptedUpstream
from tests.upstream.script import Hang, Reply
from tests.websocket_client import talking

Json = dict[str, Any]

KEY = "root-key-0123456789"
VERSION: Json = {"instructions": "Be brief."}


class Refused:
    """A gateway whose limits are one, and its client."""

    def __init__(self, server: Command, client: httpx.AsyncClient, upstream: ScriptedUpstream) -> None:
        self.server = server
        self.client = client
        self.upstream = upstream

    async def post(self, path: str, body: Json) -> httpx.Response:
        return await self.client.post(f"{self.server.v1}{path}", json=body)

    async def upload(self, size: int = 1) -> httpx.Response:
        files = {"file": ("a.txt", b"x" * size, "text/plain")}
        return await self.client.post(f"{self.server.v1}/files", files=files, data={"purpose": "user_data"})

    async def ask(self, **body: Any) -> httpx.Response:
        return await self.post("/responses", {"model": "m", "input": "Hello", **body})

    async def hold(self, **body: Any) -> asyncio.Task[httpx.Response]:
        """Begins a request that the upstream does not answer."""
        held = asyncio.create_task(self.ask(**body))
        await self.upstream.received(1)
        return held


async def exceed_files(refused: Refused) -> int:
    assert (await refused.upload()).status_code == 200
    return (await refused.upload()).status_code


async def exceed_files_mb(refused: Refused) -> int:
    return (await refused.upload(2_000)).status_code


async def exceed_prompts(refused: Refused) -> int:
    assert (await refused.post("/prompts", VERSION)).status_code == 200
    return (await refused.post("/prompts", VERSION)).status_code


async def exceed_prompt_versions(refused: Refused) -> int:
    prompt = (await refused.post("/prompts", VERSION)).json()
    return (await refused.post(f"/prompts/{prompt['id']}/versions", VERSION)).status_code


async def exceed_vector_stores(refused: Refused) -> int:
    assert (await refused.post("/vector_stores", {})).status_code == 200
    return (await refused.post("/vector_stores", {})).status_code


async def exceed_max_files(refused: Refused) -> int:
    store = (await refused.post("/vector_stores", {})).json()
    for _ in range(2):
        file = (await refused.upload()).json()
        reply = await refused.post(f"/vector_stores/{store['id']}/files", {"file_id": file["id"]})
    return reply.status_code


async def exceed_background_jobs(refused: Refused) -> int:
    assert (await refused.ask(background=True)).status_code == 200
    return (await refused.ask(background=True)).status_code


async def exceed_open_requests(refused: Refused) -> int:
    held = await refused.hold()
    status = (await refused.ask()).status_code
    held.cancel()
    return status


async def exceed_websockets(refused: Refused) -> int:
    headers = {"authorization": f"Bearer {KEY}"}
    async with talking(refused.server.v1, additional_headers=headers):
        try:
            async with talking(refused.server.v1, additional_headers=headers):
                return 200
        except InvalidStatus as refusal:
            return refusal.response.status_code


async def exceed_queue(refused: Refused) -> int:
    held = await refused.hold(model="full")
    status = (await refused.ask(model="full")).status_code
    held.cancel()
    return status


CASES: list[tuple[str, Json, Callable[[Refused], Awaitable[int]], int]] = [
    ("limits.files", {"limits": {"files": 1}}, exceed_files, 429),
    ("limits.files_mb", {"limits": {"files_mb": 0.001}}, exceed_files_mb, 429),
    ("limits.prompts", {"limits": {"prompts": 1}}, exceed_prompts, 429),
    ("limits.prompt_versions", {"limits": {"prompt_versions": 1}}, exceed_prompt_versions, 429),
    ("limits.vector_stores", {"limits": {"vector_stores": 1}}, exceed_vector_stores, 429),
    ("tools.file_search.max_files", {"tools": {"file_search": {"max_files": 1}}}, exceed_max_files, 429),
    ("limits.background_jobs", {"limits": {"background_jobs": 1}}, exceed_background_jobs, 429),
    ("limits.open_requests", {"limits": {"open_requests": 1}}, exceed_open_requests, 429),
    ("limits.websockets", {"limits": {"websockets": 1}}, exceed_websockets, 429),
    ("websocket.max_connections", {"websocket": {"max_connections": 1}}, exceed_websockets, 503),
    ("routing.queue_s", {"routing": {"queue_s": 0}}, exceed_queue, 503),
    ("routing.queue_length", {"routing": {"queue_length": 0}}, exceed_queue, 503),
]


@pytest.mark.parametrize(("key", "settings", "exceed", "status"), CASES, ids=[case[0] for case in CASES])
async def test_a_refusal_is_counted_by_the_key_of_its_limit(
    key: str, settings: Json, exceed: Callable[[Refused], Awaitable[int]], status: int, tmp_path: Path
) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", Reply(headers={"content-type": "application/json"}, body=[Hang()]))
        provider = {"type": "openai_compatible", "base_url": upstream.url, "retries": 0}
        config = {
            "server": {"drain_s": 0.2},
            "store": {"url": f"sqlite+aiosqlite:///{tmp_path}/store.sqlite"},
            "files": {"path": str(tmp_path / "files")},
            "auth": {"keys": [{"name": "root", "key": KEY, "admin": True}]},
            "providers": {"a": provider, "narrow": {**provider, "max_in_flight": 1}},
            "models": {"m": {"provider": "a"}, "full": {"upstreams": [{"provider": "narrow"}]}},
            **settings,
        }
        headers = {"authorization": f"Bearer {KEY}"}
        with command(config, tmp_path, forked=True) as server:
            async with httpx.AsyncClient(headers=headers, verify=False, trust_env=False, timeout=60) as client:
                assert await exceed(Refused(server, client, upstream)) == status

            async def is_counted() -> bool:
                values = await read_values(server.url, **headers)
                return value_of(values, "gateway_limit_refusals_total", limit=key) == 1

            await wait_until(is_counted)
            values = await read_values(server.url, **headers)
            assert value_of(values, "gateway_limit_refusals_total") == 1
        lines = server.read_log_lines()
        assert [line["limit"] for line in lines if "limit" in line and line["message"] == "request"] == [key]
