"""MCP servers in requests of the Messages API: the gateway runs their tools, and sends their calls as blocks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
from anthropic.lib.streaming._beta_messages import accumulate_event
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from pydantic import TypeAdapter

from tests.mcp_server import CountingServer
from tests.serving import serving
from tests.unit.support.stream_checks.messages_order import read_frames
from tests.upstream import Script, ScriptedUpstream, json_reply
from tests.upstream.builders import chat_calls, chat_text

Json = dict[str, Any]
SECRET = "token-of-calc-0123456"
QUESTION: Json = {"role": "user", "content": "2 + 3?"}
ADD = ("calc_add", '{"a": 2, "b": 3}')
TOOLSET: Json = {"type": "mcp_toolset", "mcp_server_name": "calc"}


@asynccontextmanager
async def gateway(*scripts: Script, mcp: Any = None, **config: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Any]]:
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", *scripts)
        upstream.on("/messages", *scripts)
        settings = {
            "egress": {"allow": ["127.0.0.1"]},
            "tools": {"mcp": mcp or {}},
            "providers": {
                "p": {"type": "vllm", "base_url": upstream.url, "unlisted_models": "forward"},
                "own": {"type": "anthropic", "base_url": upstream.url, "api_key": "key-of-gateway"},
                "same": {"type": "vllm", "base_url": upstream.url, "dialects": ["messages"]},
            },
            "models": {"m": {"provider": "p"}, "own": {"provider": "own"}, "same": {"provider": "same"}},
            **config,
        }
        with serving(settings) as served:
            async with httpx.AsyncClient(base_url=served.v1, trust_env=False, timeout=60) as client:
                yield client, upstream


def server(calc: CountingServer, **more: Any) -> Json:
    return {"type": "url", "name": "calc", "url": calc.url, "authorization_token": SECRET, **more}


def body(calc: CountingServer, **more: Any) -> Json:
    return {
        "model": "m",
        "max_tokens": 50,
        "messages": [QUESTION],
        "mcp_servers": [server(calc)],
        "tools": [TOOLSET],
        **more,
    }


def message_of(stream: bytes) -> Json:
    """The message that the official client makes of a stream."""
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for event in read_frames(stream):
        parsed: Any = TypeAdapter(BetaRawMessageStreamEvent).validate_python(event, strict=True)
        snapshot = accumulate_event(
            event=parsed, current_snapshot=snapshot, request_headers=httpx2.Headers(), json_bufs=buffers
        )
    message: Json = TypeAdapter(BetaMessage).dump_python(snapshot, mode="json")
    return message


async def test_calls_are_run_and_sent_as_blocks_in_streams_and_json(calc: CountingServer) -> None:
    rounds = chat_calls(ADD), chat_text("It is 5.")
    async with gateway(*rounds, *rounds, chat_text("Yes")) as (client, upstream):
        whole = await client.post("/messages", json=body(calc))
        streamed = await client.post("/messages", json=body(calc, stream=True))
        message = whole.json()
        TypeAdapter(BetaMessage).validate_python(message, strict=True)
        assert calc.headers["authorization"] == f"Bearer {SECRET}"
        assert "x-gateway-loss" not in whole.headers
        history = [QUESTION, {"role": "assistant", "content": message["content"]}, {**QUESTION, "content": "Sure?"}]
        await client.post("/messages", json=body(calc, messages=history))
    use, result, text = message["content"]
    assert (use["type"], use["name"], use["server_name"]) == ("mcp_tool_use", "add", "calc")
    assert use["input"] == {"a": 2, "b": 3}
    assert result == {
        "type": "mcp_tool_result",
        "tool_use_id": use["id"],
        "is_error": False,
        "content": [{"type": "text", "text": "5"}],
    }
    assert (text["text"], message["stop_reason"]) == ("It is 5.", "end_turn")
    from_stream = message_of(streamed.content)["content"]
    assert [block["type"] for block in from_stream] == ["mcp_tool_use", "mcp_tool_result", "text"]
    assert (from_stream[0]["input"], from_stream[1]["content"][0]["text"]) == ({"a": 2, "b": 3}, "5")
    sent = upstream.requests[-1].json["messages"]
    assert [entry["role"] for entry in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[1]["tool_calls"][0]["function"]["name"] == "calc_add"
    assert SECRET not in str([request.json for request in upstream.requests])


async def test_toolsets_choose_the_offered_tools(calc: CountingServer) -> None:
    async with gateway(chat_text("Hi")) as (client, upstream):
        offered = []
        for tools, configuration in (
            ([{**TOOLSET, "configs": {"add": {"enabled": False}, "fail": {}}}], None),
            ([{**TOOLSET, "default_config": {"enabled": False}, "configs": {"add": {"enabled": True}}}], None),
            ([], {"allowed_tools": ["fail"]}),
        ):
            named = [server(calc, tool_configuration=configuration)]
            reply = await client.post("/messages", json=body(calc, mcp_servers=named, tools=tools))
            assert reply.status_code == 200, reply.text
            sent = upstream.requests[-1].json.get("tools")
            offered.append({tool["function"]["name"].removeprefix("calc_") for tool in sent})
        unused = await client.post(
            "/messages", json=body(calc, mcp_servers=[server(calc, tool_configuration={"enabled": False})], tools=[])
        )
        assert unused.status_code == 200
        assert "tools" not in upstream.requests[-1].json
    assert "add" not in offered[0]
    assert "fail" in offered[0]
    assert offered[1:] == [{"add"}, {"fail"}]


async def test_unsupported_servers_are_refused_by_name(calc: CountingServer) -> None:
    async with gateway(chat_text("Hi"), mcp={"request_servers": "off"}) as (client, upstream):
        for model in ("m", "same"):
            refused = await client.post("/messages", json=body(calc, model=model))
            assert (refused.status_code, "mcp_servers" in refused.text) == (400, True), refused.text
        assert upstream.requests == []
    async with gateway(chat_text("Hi")) as (client, upstream):
        for servers, words in (
            ([server(calc, url="ftp://x")], "mcp_servers"),
            ([{"type": "stdio", "name": "calc"}], "mcp_servers[0].type"),
            ([], "mcp_servers.name: the gateway's configuration has no MCP server 'calc'"),
        ):
            refused = await client.post("/messages", json=body(calc, mcp_servers=servers))
            assert (refused.status_code, words in refused.text) == (400, True), refused.text
        blocked = await client.post("/messages", json=body(calc, mcp_servers=[server(calc, url="http://10.0.0.1/mcp")]))
        assert blocked.status_code == 424
        assert SECRET not in blocked.text
        assert upstream.requests == []


async def test_an_upstream_of_the_same_api_runs_them_itself(calc: CountingServer) -> None:
    reply = {"id": "msg_1", "type": "message", "role": "assistant", "model": "x", "content": [], "usage": {}}
    async with gateway(json_reply(reply)) as (client, upstream):
        relayed = await client.post("/messages", json=body(calc, model="own"))
        assert relayed.status_code == 200, relayed.text
        assert upstream.requests[-1].json["mcp_servers"] == [server(calc)]
    assert calc.methods == {}
