"""Approvals on two servers with one database: each is used once, by the first server."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_script import LOOK_UP, list_result, scripted_mcp, text_result
from tests.mcp_script import answer as reply
from tests.mcp_server import mcp_server
from tests.polling import wait_until
from tests.state.processes.killed_servers import background, has_ended
from tests.state.replicas import Json, client, kill, replica, text
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_calls, chat_text
from tests.upstream.script import Script, silence

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
                    await wait_until(has_ended, two, won[0]["id"])
                    response = await two.read(won[0]["id"])
                    assert (response["status"], text(response)) == ("completed", "5")
                    kill(first)
                    late = await two.post(**body)
                    assert (late.status_code, late.json()["error"]["code"]) == (400, "approval_already_used")
        assert calc.runs["add"] == 1


async def test_an_approval_can_be_repeated_if_its_server_ended_before_the_call(store_url: str, tmp_path: Path) -> None:
    settings: Any = {"background": background(store_url), "egress": {"allow": ["127.0.0.1"]}}
    lists: list[Script] = [reply(list_result(LOOK_UP)), silence, reply(list_result(LOOK_UP))]
    async with (
        scripted_mcp(reply(text_result("found")), methods={"tools/list": lists}) as mcp,
        ScriptedUpstream() as upstream,
    ):
        upstream.on("/chat/completions", chat_calls(("lookup_look_up", "{}")), chat_text("Done."))
        tools = [{"type": "mcp", "server_label": "lookup", "server_url": mcp.url, "authorization": "a-token"}]
        with replica(tmp_path / "first", store_url, upstream.url, **settings) as first:
            async with client(first) as asking:
                asked = await asking.create(input="Look it up.", tools=tools)
                request = asked["output"][-1]
                answer = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
                body: Json = {"input": [answer], "previous_response_id": asked["id"], "tools": tools}
                job = await asking.create(**body, background=True)

                async def is_listing() -> bool:
                    return len(mcp.received("tools/list")) == 2

                await wait_until(is_listing)
            kill(first)
        with replica(tmp_path / "second", store_url, upstream.url, **settings) as second:
            async with client(second) as asking:
                await wait_until(has_ended, asking, job["id"])
                failed = await asking.read(job["id"])
                assert "credentials of its tools were not stored" in failed["error"]["message"]
                response = await asking.create(**body)
                assert [item["type"] for item in response["output"]] == ["mcp_call", "message"]
        assert len(mcp.calls) == 1


async def test_an_approved_call_of_a_killed_server_is_not_run_again(store_url: str, tmp_path: Path) -> None:
    settings: Any = {"background": background(store_url), "egress": {"allow": ["127.0.0.1"]}}
    with mcp_server() as calc:
        tools = [{"type": "mcp", "server_label": "calc", "server_url": calc.url}]
        async with ScriptedUpstream() as upstream:
            upstream.on("/chat/completions", chat_calls(("calc_hang", "{}")), chat_text("I do not know."))
            with replica(tmp_path / "first", store_url, upstream.url, **settings) as first:
                async with client(first) as asking:
                    asked = await asking.create(input="Hang.", tools=tools)
                    request = asked["output"][-1]
                    answer = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
                    body: Json = {"input": [answer], "previous_response_id": asked["id"], "tools": tools}
                    job = await asking.create(**body, background=True)

                    async def is_running() -> bool:
                        return calc.runs["hang"] == 1

                    await wait_until(is_running)
                kill(first)
            with replica(tmp_path / "second", store_url, upstream.url, **settings) as second:
                async with client(second) as asking:
                    await wait_until(has_ended, asking, job["id"])
                    response = await asking.read(job["id"])
                    assert (response["status"], text(response)) == ("completed", "I do not know.")
                    assert response["output"][0]["approval_request_id"] == request["id"]
                    again = await asking.post(**body)
                    assert (again.status_code, again.json()["error"]["code"]) == (400, "approval_already_used")
        assert calc.runs["hang"] == 1
