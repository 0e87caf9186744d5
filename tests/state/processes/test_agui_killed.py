"""A thread whose replica was killed in the middle of an AG-UI run can be continued."""

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.agui_client import PATIENCE_S, AguiThread, run_input, user
from tests.agui_events import Json, read_run, text_of
from tests.mcp_server import CountingServer
from tests.state.processes.killed_servers import background
from tests.state.replicas import kill, replica
from tests.upstream import Pause, ScriptedUpstream, Step
from tests.upstream.builders import chat_calls, chat_chunk, chat_text, data_frame, sse_reply

pytestmark = pytest.mark.timeout(180)

MODEL: Json = {"model": "m"}


async def until_ended(http: httpx.AsyncClient, body: Json) -> list[Json]:
    """Returns the events of a run of another replica, once that replica counts as dead."""
    async with asyncio.timeout(PATIENCE_S):
        while (reply := await http.post("/v1/agui", json=body)).status_code == 409:
            pass
    return read_run(reply.content)


async def test_a_thread_whose_replica_was_killed_continues(
    store_url: str, tmp_path: Path, calc: CountingServer
) -> None:
    """In the middle of an answer, and after an approved call, which is neither run again nor lost."""
    settings = {"background": background(store_url), "egress": {"allow": ["127.0.0.1"]}}
    hanging: list[Step] = [data_frame(chat_chunk({"content": "One"})), Pause(asyncio.Event())]
    props = {**MODEL, "tools": [{"type": "mcp", "server_label": "calc", "server_url": calc.url}]}
    plain = run_input(user("One?"), thread="plain", forwardedProps=MODEL)
    async with ScriptedUpstream() as upstream:
        add = chat_calls(("calc_add", '{"a": 2, "b": 3}'))
        upstream.on("/chat/completions", add, sse_reply(*hanging), sse_reply(*hanging), chat_text("Two"))
        with replica(tmp_path / "first", store_url, upstream.url, **settings) as server:
            async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S) as http:
                thread = AguiThread(http, forwardedProps=props)
                asked = await thread.run(user("2 + 3?"))
                (interrupt,) = asked[-1]["outcome"]["interrupts"]
                resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
                approved = run_input(*thread.messages, run="t-r2", resume=resume, forwardedProps=props)
                async with (
                    http.stream("POST", "/v1/agui", json=approved) as first,
                    http.stream("POST", "/v1/agui", json=plain) as second,
                ):
                    async for piece in first.aiter_bytes():
                        if b"TEXT_MESSAGE_CONTENT" in piece:
                            break
                    await anext(second.aiter_bytes())
                    kill(server)
        with replica(tmp_path / "second", store_url, upstream.url, **settings) as server:
            async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S) as http:
                for body in (plain, approved):
                    assert (await until_ended(http, body))[-1]["code"] == "interrupted"
                after = run_input(user("One?"), user("Two?", "u2"), thread="plain", run="r2", forwardedProps=MODEL)
                assert text_of(read_run((await http.post("/v1/agui", json=after)).content)) == "Two"
                again = {**approved, "runId": "t-r3"}
                assert text_of(read_run((await http.post("/v1/agui", json=again)).content)) == "Two"
                assert upstream.requests[-1].json["messages"][-1]["content"] == "5"
                assert calc.runs["add"] == 1
