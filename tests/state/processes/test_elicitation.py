"""Calls that request input on servers that are killed: another server continues them, and nothing is sent twice."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.agui_client import PATIENCE_S, AguiThread, user
from tests.agui_events import text_of
from tests.databases import ready_sqlite
from tests.mcp_script import LOOK_UP, list_result, scripted_mcp, text_result
from tests.mcp_script import answer as reply
from tests.polling import wait_until
from tests.state.processes.killed_servers import background, has_ended
from tests.state.replicas import Json, client, kill, replica, text
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_calls, chat_text
from tests.upstream.script import Script, silence

pytestmark = pytest.mark.timeout(180)  # servers take long to start where every core is busy

FORM: Json = {"type": "object", "properties": {"name": {"type": "string"}}}
ASKS: Json = {
    "resultType": "input_required",
    "requestState": "state-1",
    "inputRequests": {
        "who": {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": "Who?", "requestedSchema": FORM},
        }
    },
}
CALL = ("lookup_look_up", "{}")


def hosted(url: str) -> list[Json]:
    return [{"type": "mcp", "server_label": "lookup", "server_url": url, "require_approval": "never"}]


async def test_input_requested_by_one_server_is_accepted_by_another_and_used_once(
    store_url: str, tmp_path: Path
) -> None:
    settings: Any = {"background": background(store_url), "egress": {"allow": ["127.0.0.1"]}}
    calls: list[Script] = [reply(ASKS), silence]
    async with scripted_mcp(calls) as mcp, ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", chat_calls(CALL), chat_text("I do not know."))
        tools = hosted(mcp.url)
        with replica(tmp_path / "first", store_url, upstream.url, **settings) as first:
            async with client(first) as asking:
                asked = await asking.create(input="Look it up.", tools=tools, elicitation=True)
            kill(first)
        request = asked["output"][-1]
        answer = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
        answer["content"] = {"name": "Ann"}
        body: Json = {"input": [answer], "previous_response_id": asked["id"], "tools": tools, "elicitation": True}
        with replica(tmp_path / "second", store_url, upstream.url, **settings) as second:
            async with client(second) as asking:
                job = await asking.create(**body, background=True)

                async def is_running() -> bool:
                    return len(mcp.calls) == 2

                await wait_until(is_running)
            kill(second)
        given = mcp.calls[1].json["params"]
        assert given["requestState"] == "state-1"
        assert given["inputResponses"] == {"who": {"action": "accept", "content": {"name": "Ann"}}}
        with replica(tmp_path / "third", store_url, upstream.url, **settings) as third:
            async with client(third) as asking:
                await wait_until(has_ended, asking, job["id"])
                response = await asking.read(job["id"])
                assert (response["status"], text(response)) == ("completed", "I do not know.")
                call = response["output"][0]
                assert (call["status"], call["continues"]) == ("failed", request["continues"])
                assert "outcome unknown" in str(call["error"])
                again = await asking.post(**body)
                assert (again.status_code, again.json()["error"]["code"]) == (400, "approval_already_used")
        assert len(mcp.calls) == 2


async def test_a_server_killed_before_its_request_leaves_a_call_without_an_end(tmp_path: Path) -> None:
    store_url = ready_sqlite(tmp_path / "state.db")
    settings: Any = {"background": background(store_url), "egress": {"allow": ["127.0.0.1"]}}
    other = {**LOOK_UP, "name": "other"}
    calls: list[Script] = [reply(ASKS), silence]
    async with (
        scripted_mcp(calls, methods={"tools/list": reply(list_result(LOOK_UP, other))}) as mcp,
        ScriptedUpstream() as upstream,
    ):
        upstream.on("/chat/completions", chat_calls(CALL, ("lookup_other", "{}")), chat_text("I do not know."))
        with replica(tmp_path / "first", store_url, upstream.url, **settings) as first:
            async with client(first) as asking:
                body: Json = {"input": "Look it up.", "tools": hosted(mcp.url), "elicitation": True}
                job = await asking.create(**body, background=True, parallel_tool_calls=False)

                async def is_running() -> bool:
                    return len(mcp.calls) == 2

                await wait_until(is_running)
            kill(first)
        with replica(tmp_path / "second", store_url, upstream.url, **settings) as second:
            async with client(second) as asking:
                await wait_until(has_ended, asking, job["id"])
                response = await asking.read(job["id"])
                assert (response["status"], text(response)) == ("completed", "I do not know.")
                assert "mcp_approval_request" not in [item["type"] for item in response["output"]]
        outputs = [each["content"] for each in upstream.requests[-1].json["messages"] if each["role"] == "tool"]
        assert len(outputs) == 2
        assert outputs[0] == "This call was not finished. It has no result."
        assert "outcome unknown" in outputs[1]
        assert len(mcp.calls) == 2


async def test_a_thread_continues_after_a_server_with_its_input_was_killed(store_url: str, tmp_path: Path) -> None:
    settings: Any = {"background": background(store_url), "egress": {"allow": ["127.0.0.1"]}}
    async with (
        scripted_mcp([reply(ASKS), silence, reply(text_result("found"))]) as mcp,
        ScriptedUpstream() as upstream,
    ):
        upstream.on("/chat/completions", chat_calls(CALL), chat_text("I do not know."))
        props: Json = {"model": "m", "tools": hosted(mcp.url)}
        with replica(tmp_path / "first", store_url, upstream.url, **settings) as first:
            async with httpx.AsyncClient(base_url=first.url, timeout=PATIENCE_S) as http:
                thread = AguiThread(http, forwardedProps=props)
                asked = await thread.run(user("Look it up."))
                (interrupt,) = asked[-1]["outcome"]["interrupts"]
                resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"name": "Ann"}}]
                body = {"threadId": "t", "runId": "killed", "messages": thread.messages, "protocolVersion": "1.0"}
                more: Json = {"resume": resume, "forwardedProps": props}
                async with http.stream("POST", "/v1/agui", json={**body, **more}):

                    async def is_running() -> bool:
                        return len(mcp.calls) == 2

                    await wait_until(is_running)
                    kill(first)
        with replica(tmp_path / "second", store_url, upstream.url, **settings) as second:
            async with httpx.AsyncClient(base_url=second.url, timeout=PATIENCE_S) as http:
                thread.http = http

                async def is_free() -> bool:
                    return (await http.post("/v1/agui", json={**body, **more})).status_code != 409

                await wait_until(is_free)
                # The client has the interrupt still, and answers it again.
                resumed = await thread.run(resume=resume)
        assert (text_of(resumed), resumed[-1]["outcome"]) == ("I do not know.", {"type": "success"})
        (result,) = [event for event in resumed if event["type"] == "TOOL_CALL_RESULT"]
        assert result["toolCallId"] == interrupt["toolCallId"]
        assert len(mcp.calls) == 2, "what was given is not given again"
