"""A request with an `Idempotency-Key` on a killed server has one outcome, and no call runs twice."""

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.mcp_server import CountingServer
from tests.state.replicas import PATIENCE_S, Json, kill, replica, text
from tests.upstream import Pause, ScriptedUpstream, Step
from tests.upstream.builders import chat_calls, chat_chunk, chat_text, data_frame, sse_reply

pytestmark = pytest.mark.timeout(180)

KEYS = ("plain", "tools")


async def read_until(http: httpx.AsyncClient, key: str, body: Json, mark: str) -> None:
    """Sends a request with this key, and reads its stream until the mark is in it."""
    stream = {"model": "m", "stream": True, **body}
    async with http.stream("POST", "/responses", json=stream, headers={"idempotency-key": key}) as reply:
        async for line in reply.aiter_lines():
            if mark in line:
                return


async def test_the_key_of_a_request_on_a_killed_server_has_one_outcome(
    store_url: str, tmp_path: Path, calc: CountingServer
) -> None:
    """In the middle of a text, which is begun anew, and of a call, whose outcome the model reads as not known."""
    settings: Json = {"background": {"lease_s": 3.0}, "egress": {"allow": ["127.0.0.1"]}}
    hanging: list[Step] = [data_frame(chat_chunk({"content": "One"})), Pause(asyncio.Event())]
    tool = {"type": "mcp", "server_label": "calc", "server_url": calc.url, "require_approval": "never"}
    bodies: dict[str, Json] = {"plain": {"input": "One?"}, "tools": {"input": "Hang.", "tools": [tool]}}
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", sse_reply(*hanging), chat_calls(("calc_hang", "{}")), chat_text("Two"))
        with (
            replica(tmp_path / "first", store_url, upstream.url, **settings) as server,
            replica(tmp_path / "second", store_url, upstream.url, **settings) as other,
        ):
            async with (
                httpx.AsyncClient(base_url=server.v1, timeout=PATIENCE_S) as http,
                httpx.AsyncClient(base_url=other.v1, timeout=PATIENCE_S) as second,
            ):
                await read_until(http, "plain", bodies["plain"], "output_text.delta")
                await read_until(http, "tools", bodies["tools"], "mcp_call.in_progress")
                async with asyncio.timeout(PATIENCE_S):
                    while not calc.runs["hang"]:
                        await http.get("/models")
                # Both follow when the server dies: as a stream, and as JSON.
                headers, stream = {"idempotency-key": "tools"}, {"model": "m", "stream": True, **bodies["tools"]}
                async with second.stream("POST", "/responses", json=stream, headers=headers) as joined:
                    lines = joined.aiter_lines()
                    assert await anext(lines) == "event: response.created"
                    waiting = {key: asyncio.ensure_future(retry(second, key, bodies[key])) for key in KEYS}
                    kill(server)
                    rest = [line async for line in lines]
                replies = {key: await waiting[key] for key in KEYS}
                assert rest[-2:] == ["data: [DONE]", ""]
                assert "event: response.completed" in rest
                assert [text(replies[key]) for key in KEYS] == ["Two", "Two"]
                (call,) = [item for item in replies["tools"]["output"] if item["type"] == "mcp_call"]
                assert call["status"] == "failed"
                for key in KEYS:
                    assert await retry(second, key, bodies[key]) == replies[key]
        assert calc.runs["hang"] == 1


async def retry(http: httpx.AsyncClient, key: str, body: Json) -> Json:
    """Retries a request, as clients do, until it succeeds. Each failure must have a reason."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            reply = await http.post("/responses", json={"model": "m", **body}, headers={"idempotency-key": key})
            if reply.status_code == 200:
                response: Json = reply.json()
                return response
            assert (reply.status_code, reply.json()["error"]["code"]) == (503, "interrupted"), reply.text
