"""Runs of AG-UI clients on a real socket, without a store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.agui_client import PATIENCE_S, AguiThread, run_input, user
from tests.agui_events import Json, kinds_of, read_run, text_of
from tests.integration.mcp.tool_gateway import calc_tool
from tests.mcp_server import CountingServer
from tests.serving import serving
from tests.upstream import Pause, ScriptedUpstream, Step
from tests.upstream.builders import chat_calls, chat_chunk, chat_text, data_frame, error_reply, sse_reply

TOOL = {"name": "get_weather", "description": "Weather.", "parameters": {"type": "object"}}
ADD = ("calc_add", '{"a": 2, "b": 3}')


@asynccontextmanager
async def gateway(*scripts: Any, **config: Any) -> AsyncIterator[tuple[httpx.AsyncClient, ScriptedUpstream]]:
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", *scripts)
        whole = {
            "egress": {"allow": ["127.0.0.1"]},
            "providers": {"up": {"type": "openai_compatible", "base_url": upstream.url, "retries": 0}},
            "models": {"m": {"provider": "up"}, "vendor/other": {"provider": "up"}},
            **config,
        }
        with serving(whole) as server:
            async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S) as http:
                yield http, upstream


async def test_the_model_is_that_of_the_path_the_forwarded_one_or_the_first() -> None:
    async with gateway(chat_text("Hi")) as (http, upstream):
        thread = AguiThread(http)
        for model, props, chosen in (
            ("", {}, "m"),
            ("vendor/other", {}, "vendor/other"),
            ("", {"model": "vendor/other"}, "vendor/other"),
            ("m", {"model": "m"}, "m"),
        ):
            await thread.run(user("Hello"), model=model, forwardedProps=props)
            assert upstream.requests[-1].json["model"] == chosen
        own = {**run_input(user("Hello"), run="own"), "model": "vendor/other"}
        assert (await http.post("/v1/agui", json=own)).status_code == 200
        assert upstream.requests[-1].json["model"] == "vendor/other"


@pytest.mark.parametrize(
    ("path", "change", "status", "param"),
    [
        ("", {"messages": None}, 400, "messages"),
        ("", {"threadId": 3}, 400, "threadId"),
        (
            "",
            {"messages": [{"id": "1", "role": "user", "content": [{"type": "text"}]}]},
            400,
            "messages[0].content[0].text",
        ),
        ("", {"forwardedProps": {"temperature": 9}}, 400, "forwardedProps.temperature"),
        ("", {"forwardedProps": {"model": 1}}, 400, "forwardedProps.model"),
        ("/m", {"forwardedProps": {"model": "vendor/other"}}, 400, "forwardedProps.model"),
        ("", {"forwardedProps": {"tools": [{"type": "mcp"}]}}, 400, "forwardedProps.tools[0].server_label"),
        ("", {"tools": [{"name": 5}]}, 400, None),
        ("", {"model": 1}, 400, "model"),
        ("/m", {"model": "vendor/other"}, 400, "model"),
        ("", {"model": "m", "forwardedProps": {"model": "vendor/other"}}, 400, "model"),
        ("/nothing", {}, 404, "model"),
    ],
)
async def test_invalid_input_is_an_http_error_before_the_run_starts(
    path: str, change: Json, status: int, param: str | None
) -> None:
    async with gateway(chat_text("Hi")) as (http, upstream):
        body = {**run_input(user("Hello")), **change}
        refused = await http.post(f"/v1/agui{path}", json=body)
        assert refused.status_code == status, refused.text
        assert param is None or refused.json()["error"]["param"] == param
        assert not upstream.requests
        # What was refused did not begin: the thread is free.
        assert (await http.post("/v1/agui", json=run_input(user("Hello")))).status_code == 200


async def test_a_run_needs_a_key_and_has_the_limits_of_every_request() -> None:
    keys = [{"name": "ann", "key": "key-of-ann-0123456789", "models": ["m"]}]
    server = {"max_items": 2, "max_tools": 1, "max_body_mb": 0.01}
    async with gateway(chat_text("Hi"), auth={"keys": keys}, server=server) as (http, upstream):
        body = run_input(user("Hello"))
        assert (await http.post("/v1/agui", json=body)).status_code == 401
        http.headers["authorization"] = f"Bearer {keys[0]['key']}"
        assert (await http.post("/v1/agui", json=body)).status_code == 200
        assert (await http.post("/v1/agui/vendor/other", json=body)).status_code == 404
        long = await http.post("/v1/agui", json=run_input(*[user("Hello", str(number)) for number in range(3)]))
        many = await http.post("/v1/agui", json={**body, "tools": [TOOL, TOOL]})
        large = await http.post("/v1/agui", json=run_input(user("x" * 20_000)))
        assert (long.json()["error"]["param"], many.json()["error"]["param"]) == ("messages", "tools")
        assert large.status_code == 413
        assert len(upstream.requests) == 1


async def test_losses_of_a_run_are_in_its_header() -> None:
    async with gateway(chat_text("Hi")) as (http, _):
        body = run_input(user("Hello"), state={"a": 1}, forwardedProps={"command": {}})
        reply = await http.post("/v1/agui", json=body)
        assert reply.headers["x-gateway-loss"] == "forwardedProps.command=dropped, state=not sent"
        strict = await http.post("/v1/agui", json=body, headers={"x-gateway-strict": "true"})
        assert strict.status_code == 400


async def test_two_runs_on_a_thread_do_not_overlap_without_a_store_either() -> None:
    go_on = asyncio.Event()
    chunks: list[Step] = [data_frame(chat_chunk({"content": "One"})), Pause(go_on), data_frame(chat_chunk({}, "stop"))]
    async with gateway(sse_reply(*chunks), chat_text("Two")) as (http, _):
        async with http.stream("POST", "/v1/agui", json=run_input(user("One?"))) as reply:
            pieces = reply.aiter_bytes()
            await anext(pieces)
            refused = await http.post("/v1/agui", json=run_input(user("Two?"), run="r2"))
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "run_in_progress")
            go_on.set()
            async for _ in pieces:
                pass
        assert (await http.post("/v1/agui", json=run_input(user("Two?"), run="r2"))).status_code == 200


async def read_until_comment(http: httpx.AsyncClient, go_on: asyncio.Event) -> bytes:
    """Returns the whole stream of a run whose upstream continues after the first comment."""
    received = b""
    async with http.stream("POST", "/v1/agui", json=run_input(user("Hello"))) as reply:
        async for piece in reply.aiter_bytes():
            received += piece
            if b": keep-alive" in received:
                go_on.set()
    return received


async def test_silence_is_filled_with_comments() -> None:
    go_on = asyncio.Event()
    script = sse_reply(Pause(go_on), data_frame(chat_chunk({"content": "Hi"}, "stop")))
    async with gateway(script, server={"keepalive_s": 0.05}) as (http, _):
        received = await read_until_comment(http, go_on)
    assert text_of(read_run(received)) == "Hi"


async def test_an_upstream_that_fails_after_a_comment_ends_the_run_once() -> None:
    go_on = asyncio.Event()
    script = sse_reply(Pause(go_on), data_frame({"error": {"message": "broken", "code": "x"}}))
    async with gateway(script, server={"keepalive_s": 0.05}) as (http, _):
        received = await read_until_comment(http, go_on)
    assert kinds_of(read_run(received))[-1] == "RUN_ERROR"


async def test_an_upstream_error_before_the_run_is_an_http_error() -> None:
    async with gateway(error_reply(429, "slow down")) as (http, _):
        assert (await http.post("/v1/agui", json=run_input(user("Hello")))).status_code == 429


async def test_a_hosted_tool_is_a_call_with_a_result(calc: CountingServer) -> None:
    async with gateway(chat_calls(ADD), chat_text("It is 5."), chat_text("Yes.")) as (http, upstream):
        thread = AguiThread(http)
        events = await thread.run(user("2 + 3?"), forwardedProps={"tools": [calc_tool(calc)]})
        assert kinds_of(events) == [
            "RUN_STARTED",
            "ACTIVITY_SNAPSHOT",
            "TOOL_CALL_START",
            "ACTIVITY_SNAPSHOT",
            "TOOL_CALL_ARGS",
            "TOOL_CALL_END",
            "ACTIVITY_DELTA",
            "TOOL_CALL_RESULT",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "RUN_FINISHED",
        ]
        (result,) = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
        assert result["content"] == "5"
        assert events[-1]["outcome"] == {"type": "success"}
        await thread.run(user("Sure?", "u2"), forwardedProps={"tools": [calc_tool(calc)]})
        roles = [message["role"] for message in upstream.requests[-1].json["messages"]]
        assert roles == ["user", "assistant", "tool", "assistant", "user"]
        assert calc.runs["add"] == 1


async def test_frontend_and_hosted_tools_of_one_round(calc: CountingServer) -> None:
    async with gateway(chat_calls(("get_weather", "{}"), ADD), chat_text("Done.")) as (http, _):
        thread = AguiThread(http, tools=[TOOL], forwardedProps={"tools": [calc_tool(calc)]})
        events = await thread.run(user("Both?"))
        (pending,) = events[-1]["outcome"]["pendingToolCallIds"]
        results = [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_RESULT"]
        assert pending not in results
        assert len(results) == 1
        done = await thread.run({"id": "x", "role": "tool", "toolCallId": pending, "content": "sun"})
        assert text_of(done) == "Done."


async def test_reasoning_is_displayed_and_sent_back_sealed() -> None:
    chunks = [chat_chunk({"reasoning": "Hm."}), chat_chunk({"content": "Hi"}), chat_chunk({}, "stop")]
    script = sse_reply(*map(data_frame, chunks))
    async with gateway(script) as (http, upstream):
        thread = AguiThread(http)
        events = await thread.run(user("Hello"))
        assert "REASONING_MESSAGE_CONTENT" in kinds_of(events)
        await thread.run(user("Again", "u2"))
        assert upstream.requests[-1].json["messages"][1]["content"] == "Hi"


async def test_an_old_client_gets_no_event_or_outcome_that_it_does_not_know() -> None:
    async with gateway(chat_calls(("get_weather", "{}"))) as (http, _):
        events = await AguiThread(http, tools=[TOOL], protocolVersion=None).run(user("Weather?"))
        assert set(events[0]) == {"type", "threadId", "runId"}
        assert "outcome" not in events[-1]


async def test_a_run_that_cannot_be_continued_requests_no_input(calc: CountingServer) -> None:
    async with gateway(chat_calls(("calc_book", '{"city": "Rome"}')), chat_text("Then not.")) as (http, _):
        events = await AguiThread(http).run(user("A table."), forwardedProps={"tools": [calc_tool(calc)]})
        (result,) = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
        assert "did not declare the form elicitation capability" in result["content"]
        assert events[-1]["outcome"] == {"type": "success"}
