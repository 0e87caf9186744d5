"""Nothing of an owner whose data is erased appears afterwards, whatever of it runs at that moment."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx
import pytest

from tests import databases
from tests.mcp_script import answer, scripted_mcp, text_result
from tests.polling import wait_until
from tests.serving import serving
from tests.upstream import Pause, ScriptedUpstream
from tests.upstream.builders import DONE, Json, chat_chunk, data_frame, sse_reply, text_chunks
from tests.upstream.script import Script

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "store": True}
RUNNING: dict[str, tuple[str, Json]] = {
    "a short response": ("/v1/responses", {"model": "m", "input": "hi"}),
    "a streamed response": ("/v1/responses", {"model": "m", "input": "hi", "stream": True}),
    "a background response": ("/v1/responses", {"model": "m", "input": "hi", "background": True}),
    "a response of a conversation": ("/v1/responses", {"model": "m", "input": "hi", "conversation": "CONVERSATION"}),
    "a completion": ("/v1/chat/completions", CHAT),
    "a streamed completion": ("/v1/chat/completions", {**CHAT, "stream": True}),
    "a message": (
        "/v1/messages",
        {
            "model": "m",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "hi"}],
            "thread": {"type": "create"},
        },
    ),
    "a run": (
        "/v1/agui/m",
        {"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "hi"}]},
    ),
    "a request for an approval": ("/v1/responses", {"model": "m", "input": "hi", "store": False, "tools": "TOOLS"}),
}


@asynccontextmanager
async def served(folder: Path, script: Script) -> AsyncIterator[tuple[httpx.AsyncClient, ScriptedUpstream, Json]]:
    async with ScriptedUpstream() as upstream, scripted_mcp(answer(text_result("found"))) as lookup:
        upstream.on("/chat/completions", script)
        config = {
            "store": {"url": databases.ready_sqlite(folder / "state.db")},
            "auth": {"keys": [{"name": "ann", "key": "key-of-ann"}]},
            "egress": {"allow": ["127.0.0.1"]},
            "providers": {"up": {"type": "openai_compatible", "base_url": upstream.url}},
            "models": {"m": {"provider": "up"}},
        }
        running = serving(config)
        gateway = await asyncio.to_thread(running.__enter__)
        try:
            headers = {"authorization": "Bearer key-of-ann"}
            async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as http:
                yield http, upstream, {"type": "mcp", "server_label": "lookup", "server_url": lookup.url}
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)


def find_rows(file: Path) -> dict[str, int]:
    """Returns the number of rows of the owner in each table that has some."""
    with closing(sqlite3.connect(file)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in tables}
        owned = [name for name in tables if "owner" in columns[name]]
        counting = "SELECT count(*) FROM {} WHERE owner = 'ann'"
        counts = {name: connection.execute(counting.format(name)).fetchone()[0] for name in owned}
    assert len(owned) > 8
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize(("path", "body"), RUNNING.values(), ids=RUNNING)
async def test_what_runs_while_its_owner_is_erased_is_not_stored(path: str, body: Json, tmp_path: Path) -> None:
    gate = asyncio.Event()
    call = {"id": "c1", "index": 0, "type": "function", "function": {"name": "lookup_look_up", "arguments": "{}"}}
    chunks = (
        text_chunks("Hello", " there")
        if "tools" not in body
        else [
            chat_chunk({"role": "assistant", "tool_calls": [call]}),
            chat_chunk({}, "tool_calls"),
        ]
    )
    first, *rest = map(data_frame, chunks)
    async with served(tmp_path, sse_reply(first, Pause(gate), *rest, DONE)) as (http, upstream, tool):
        sent: Json = {name: [tool] if value == "TOOLS" else value for name, value in body.items()}
        if "conversation" in body:
            sent["conversation"] = (await http.post("/v1/conversations", json={})).json()["id"]
        request = asyncio.create_task(http.post(path, json=sent))
        await wait_until(lambda: len(upstream.requests) == 1)
        assert (await http.delete("/v1/gateway/owner-data")).status_code == 200
        gate.set()
        assert (await request).status_code == 200
        await wait_until(lambda: upstream.open_connections == 0 or request.done())
        assert await asyncio.to_thread(find_rows, tmp_path / "state.db") == {}
        if "tools" not in body:
            await http.post("/v1/responses", json={"model": "m", "input": "hi"})
            assert find_rows(tmp_path / "state.db"), "what begins afterwards is stored"
