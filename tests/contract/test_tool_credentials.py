"""The credentials of `mcp` tools reach the upstream, and are nowhere else: not in replies, logs or the database."""

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import databases
from tests.serving import command
from tests.upstream import Reply, ScriptedUpstream, chat_text
from tests.upstream.builders import either, json_reply, response_snapshot, responses_sse, text_events

TOKEN, HEADER = "token-of-the-mcp-server", "header-of-the-mcp-server"
MCP = {
    "type": "mcp",
    "server_label": "docs",
    "server_url": "https://mcp.example/sse",
    "authorization": TOKEN,
    "headers": {"x-api-key": HEADER},
}
Json = dict[str, Any]


def config(store_url: str, upstream_url: str, dialect: str) -> Json:
    kind = {"responses": "openai", "chat": "openai_compatible"}[dialect]
    provider = {"type": kind, "base_url": upstream_url, "api_key": "k", "retries": 0}
    return {
        "store": {"url": store_url, "poll_s": 0.05},
        "providers": {"upstream": provider},
        "models": {"m": {"provider": "upstream"}},
        "tools": {"mcp": {"request_servers": "off"}},
    }


def answer(tools: list[Json]) -> Callable[..., Any]:
    """An upstream that echoes the tools as it got them."""
    done = response_snapshot("completed", tools=tools)
    return either(
        responses_sse([*text_events("hi"), {"type": "response.completed", "response": done}]), json_reply(done)
    )


async def post(url: str, body: Json) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        return await client.post(f"{url}/v1/responses", json={"model": "m", "input": "hi", "tools": [MCP], **body})


def assert_absent(text: str) -> None:
    for secret in (TOKEN, HEADER):
        assert secret not in text
        assert base64.b64encode(secret.encode()).decode()[:-4] not in text


def assert_not_written(folder: Path) -> None:
    """Checks that no file of the server has the credentials: log, database and write-ahead log."""
    files = [file for file in folder.iterdir() if file.is_file() and file.name != "config.yaml"]
    assert any(file.name.startswith("state.db") for file in files)
    for file in files:
        assert_absent(file.read_bytes().decode("latin-1"))


REQUESTS: dict[str, Json] = {
    "whole": {},
    "streamed": {"stream": True},
    "in the background": {"background": True},
    "resumable": {"stream": True, "resumable": True},
    "not stored": {"store": False},
}


@pytest.mark.parametrize("body", REQUESTS.values(), ids=REQUESTS)
async def test_credentials_reach_only_the_upstream(body: Json, tmp_path: Path) -> None:
    store_url = databases.ready_sqlite(tmp_path / "state.db")
    async with ScriptedUpstream() as upstream:
        upstream.script(answer([MCP]))
        with command(config(store_url, upstream.url, "responses"), tmp_path, forked=True) as gateway:
            reply = await post(gateway.url, body)
            assert reply.status_code == 200
            assert_absent(reply.text)
            request = await upstream.received(1)
            assert request.json["tools"][0]["authorization"] == TOKEN
            if body.get("background"):
                async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60) as client:
                    async with asyncio.timeout(60):
                        stored: Json = {}
                        while stored.get("status") != "completed":
                            got = await client.get(f"/v1/responses/{reply.json()['id']}")
                            stored = got.json()
                assert_absent(got.text)
            assert_not_written(tmp_path)
        assert_not_written(tmp_path)


@pytest.mark.parametrize("body", [{"stream": True}, {"background": True}, {}], ids=["streamed", "job", "whole"])
async def test_credentials_of_a_tool_that_is_lost_are_nowhere(body: Json, tmp_path: Path) -> None:
    store_url = databases.ready_sqlite(tmp_path / "state.db")
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("hi"))
        with command(config(store_url, upstream.url, "chat"), tmp_path, forked=True) as gateway:
            reply = await post(gateway.url, body)
            request = await upstream.received(1)
        assert reply.status_code == 200
        assert "tools[0]" in reply.headers["x-gateway-loss"]
        assert_absent(reply.text + str(reply.headers) + str(request.json))
        assert_not_written(tmp_path)


@pytest.mark.parametrize("background", [True, False], ids=["in the background", "in the foreground"])
async def test_an_error_that_quotes_them_is_redacted(background: bool, tmp_path: Path) -> None:
    store_url = databases.ready_sqlite(tmp_path / "state.db")
    encoded = base64.b64encode(f"user:{TOKEN}".encode()).decode()
    error = {
        "message": f"the server refused {encoded} and {HEADER.upper()}",
        "param": f"tools[0].{TOKEN}",
        "code": TOKEN,
    }
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(status=400, body=[json.dumps({"error": error}).encode()]))
        with command(config(store_url, upstream.url, "responses"), tmp_path, forked=True) as gateway:
            reply = await post(gateway.url, {"background": background})
            text = reply.text
            if background:
                async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60) as client:
                    async with asyncio.timeout(60):
                        while '"failed"' not in text:
                            text = (await client.get(f"/v1/responses/{reply.json()['id']}")).text
        assert "the server refused" in text
        assert encoded not in text
        assert HEADER.upper() not in text
        assert_absent(text)
        assert_not_written(tmp_path)
