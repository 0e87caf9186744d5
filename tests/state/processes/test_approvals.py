"""Approvals on two servers with one database: each is used once, by whichever is first."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server import mcp_server
from tests.state.processes.killing import background, has_ended, until
from tests.state.replicas import Json, client, kill, replica, text
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_calls, chat_text

pytestmark = pytest.mark.timeout(180)  # servers take long to start where every core is busy


async def test_an_approval_that_two_servers_get_at_once_is_used_once(store_url: str, tmp_path: Path) -> None:
    settings: Any = {"background": background(store_url), "egress": {"allow": ["127.0.0.1"]}}
    with mcp_server() as calc:
        tools = [{"type": "mcp", "server_label": "calc", "server_url": calc.url}]
        async with ScriptedUpstream() as upstream:
            upstream.on("/chat/completions", chat_calls(("calc_add", '{"a": 2, "b": 3}')), chat_text("5"))
            with (
                replica(tmp_path / "first", store_url, upstream.url, **settings) as first,
                replica(tmp_path / "second", store_url, upstream.url, **settings) as second,
            ):
                async with client(first) as one, client(second) as two:
                    asked = await one.create(input="2 + 3?", tools=tools)
                    request = asked["output"][-1]
                    assert request["type"] == "mcp_approval_request"
                    answer = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
                    body: Json = {"input": [answer], "previous_response_id": asked["id"], "tools": tools}
                    posts = [side.post(**body, background=True) for _ in range(4) for side in (one, two)]
                    replies = await asyncio.gather(*posts)
                    won = [reply.json() for reply in replies if reply.status_code == 200]
                    errors = [reply.json()["error"] for reply in replies if reply.status_code == 400]
                    assert (len(won), len(errors)) == (1, 7), [reply.text for reply in replies]
                    assert {error["code"] for error in errors} == {"approval_already_used"}
                    assert all(won[0]["id"] in error["message"] for error in errors)
                    await until(has_ended, two, won[0]["id"])
                    response = await two.read(won[0]["id"])
                    assert (response["status"], text(response)) == ("completed", "5")
                    kill(first)
                    late = await two.post(**body)
                    assert (late.status_code, late.json()["error"]["code"]) == (400, "approval_already_used")
        assert calc.runs["add"] == 1
