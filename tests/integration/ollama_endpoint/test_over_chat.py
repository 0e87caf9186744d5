"""Clients of Ollama's API over a chat upstream: what it is sent, what they get, and what failures look like."""

import asyncio
import base64
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from gateway.relayed_paths import relays
from tests.integration.over_chat import gateway_over_chat
from tests.unit.support.stream_checks.ollama_order import check_lines, read_lines
from tests.upstream import Script, ScriptedUpstream, error_reply, json_reply
from tests.upstream.builders import SSE, chat_calls, chat_chunk, chat_sse, chat_text, data_frame, text_chunks
from tests.upstream.script import Pause, Reply

Json = dict[str, Any]
KEY = "key-of-ada-0123456"
HELLO: list[Json] = [{"role": "user", "content": "Hello"}]
TOOL: Json = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
}


@asynccontextmanager
async def gateway(*scripts: Script, **config: Any) -> AsyncIterator[tuple[httpx.AsyncClient, ScriptedUpstream]]:
    async with (
        gateway_over_chat(*scripts, **config) as (served, upstream),
        httpx.AsyncClient(base_url=f"{served.url}/api", trust_env=False, timeout=60) as client,
    ):
        yield client, upstream


async def post(client: httpx.AsyncClient, body: Json, path: str = "/chat", **more: Any) -> httpx.Response:
    prompt: Json = {"messages": HELLO} if path == "/chat" else {"prompt": "Hello"}
    return await client.post(path, json={"model": "m", **prompt, **body}, **more)


async def test_a_reply_is_the_same_streamed_and_whole_and_streamed_by_default() -> None:
    thinking = chat_sse([chat_chunk({"role": "assistant", "reasoning_content": "Hm."}), *text_chunks("Hel", "lo")])
    async with gateway(thinking) as (client, upstream):
        streamed = [await post(client, {}), await post(client, {"model": "m:latest"}, "/generate")]
        whole = [await post(client, {"stream": False}), await post(client, {"stream": False}, "/generate")]
    for lines, reply in zip(streamed, whole, strict=True):
        assert lines.headers["content-type"] == "application/x-ndjson"
        varying = {"created_at": "", "total_duration": 0}
        assert check_lines(lines.content) | varying == reply.json() | varying
    assert whole[0].json()["message"] == {"role": "assistant", "content": "Hello", "thinking": "Hm."}
    assert whole[1].json()["response"] == "Hello"
    assert (whole[0].json()["prompt_eval_count"], whole[0].json()["eval_count"]) == (9, 3)
    assert whole[0].json()["total_duration"] > 0
    assert {request.json["model"] for request in upstream.requests} == {"m"}


async def test_a_tool_loop_is_chat_for_its_upstream() -> None:
    async with gateway(chat_calls(("add", '{"a":1}')), chat_text("2")) as (client, upstream):
        system = {"role": "system", "content": "Add."}
        first = check_lines((await post(client, {"tools": [TOOL], "messages": [system, *HELLO]})).content)
        (call,) = first["message"]["tool_calls"]
        result = {"role": "tool", "tool_name": "add", "content": "2"}
        older_call = {"function": {"name": "add", "arguments": call["function"]["arguments"]}}
        history = [*HELLO, {"role": "assistant", "content": "", "tool_calls": [older_call]}, result]
        second = await post(client, {"tools": [TOOL], "messages": history, "stream": False})
    assert (first["done_reason"], call["function"]["name"], call["function"]["arguments"]) == ("stop", "add", {"a": 1})
    assert second.json()["message"]["content"] == "2"
    asked, answered = (request.json for request in upstream.requests)
    assert asked["messages"] == [system, *HELLO]
    assert asked["tools"][0]["function"]["parameters"] == TOOL["function"]["parameters"]
    (sent,) = answered["messages"][1]["tool_calls"]
    assert sent["function"] == {"name": "add", "arguments": '{"a":1}'}
    assert answered["messages"][2] == {"role": "tool", "tool_call_id": sent["id"], "content": "2"}


async def test_options_reach_the_upstream_and_losses_have_the_clients_names() -> None:
    options = {"temperature": 0.1, "num_predict": 7, "stop": "x", "repeat_penalty": 1.2, "num_ctx": 99}
    async with gateway(chat_text("Hi")) as (client, upstream):
        lossy = await post(client, {"options": options, "keep_alive": "5m", "format": "json", "truncate": True})
        strict = await post(client, {"options": options}, headers={"x-gateway-strict": "true"})
    sent = upstream.requests[0].json
    assert (sent["temperature"], sent["stop"], sent["repetition_penalty"]) == (0.1, ["x"], 1.2)
    assert 7 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))
    assert sent["response_format"] == {"type": "json_object"}
    assert sorted(lossy.headers["x-gateway-loss"].split(", ")) == ["options.num_ctx=dropped", "truncate=dropped"]
    assert (strict.status_code, "options.num_ctx" in strict.json()["error"]) == (400, True)


async def test_a_silence_is_filled_with_lines_without_text() -> None:
    silence = asyncio.Event()
    first, *rest = text_chunks("Hi")
    reply = Reply(headers=SSE, body=(data_frame(first), Pause(silence), *map(data_frame, rest), b"data: [DONE]\n\n"))
    async with gateway(reply, server={"keepalive_s": 0.05}) as (client, _):
        wire = b""
        async with client.stream("POST", "/chat", json={"model": "m", "messages": HELLO}) as streamed:
            async for read in streamed.aiter_bytes():
                wire += read
                silence.set()
    lines = read_lines(wire)
    assert lines[0]["message"] == {"role": "assistant", "content": ""}
    assert [line["done"] for line in lines[:-1]] == [False] * (len(lines) - 1)
    assert "".join(line["message"]["content"] for line in lines) == "Hi"


ADDED: tuple[Json, ...] = ({}, {"messages": []})

FAILURES: dict[str, tuple[Script, int, str]] = {
    "a prompt that is too long": (error_reply(400, "maximum context length is 20 tokens"), 400, "maximum context"),
    "too many requests": (error_reply(429, "slow down"), 429, "slow down"),
    "an upstream that fails": (error_reply(500, "oops"), 502, "oops"),
}


@pytest.mark.parametrize(("script", "status", "message"), FAILURES.values(), ids=FAILURES)
async def test_failures_have_the_form_of_the_api(script: Script, status: int, message: str) -> None:
    async with gateway(script) as (client, _):
        for stream in (True, False):
            reply = await post(client, {"stream": stream})
            assert (reply.status_code, [*reply.json()]) == (status, ["error"])
            assert message in reply.json()["error"]


async def test_unknown_models_and_paths_are_reported_by_name() -> None:
    broken = chat_sse([text_chunks("Hi")[0], chat_chunk({"content": "Hi"})], done=False)
    async with gateway(broken, auth={"keys": [{"name": "ada", "key": KEY}]}) as (client, upstream):
        assert (await post(client, {})).status_code == 401
        client.headers["authorization"] = f"Bearer {KEY}"
        unknown = [await post(client, {"model": "n", **more}) for more in ADDED]
        bodies = ({"suffix": "x"}, {"context": [1]}, {"images": ["x"]}, {"options": {"stop": 5}})
        refused = [await post(client, body, "/generate") for body in bodies]
        changes = [await client.post(f"/{name}", json={}) for name in ("pull", "push", "create", "copy")]
        changes.append(await client.request("DELETE", "/delete", json={}))
        begun = await post(client, {})
    assert [reply.status_code for reply in [*unknown, *refused, *changes]] == [404, 404, 400, 400, 400, 400, *[404] * 5]
    for reply, name in zip(refused, ("suffix", "context", "images[0]", "options.stop"), strict=True):
        assert name in reply.json()["error"]
    assert all("configuration" in reply.json()["error"] for reply in changes)
    assert read_lines(begun.content)[-1].keys() == {"error"}
    assert len(upstream.requests) == 1


async def test_parameters_of_generate_are_sent_or_refused_by_name() -> None:
    pixel = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
    schema: Json = {"type": "object", "properties": {"a": {"type": "integer"}}}
    refusals: Json = {"template": "{{ .Prompt }}", "raw": True, "suffix": "x", "context": [1, 2]}
    async with gateway(chat_text('{"a":', "1}")) as (client, upstream):
        for stream in (True, False):
            for name, value in refusals.items():
                refused = await post(client, {name: value, "stream": stream}, "/generate")
                assert (refused.status_code, [*refused.json()]) == (400, ["error"])
                assert f"leave out '{name}'" in refused.json()["error"]
        assert upstream.requests == []
        unset: Json = {"template": "", "raw": False, "suffix": None, "context": [], "keep_alive": "5m"}
        plain = await post(client, {**unset, "system": "Be kind."}, "/generate", headers={"x-gateway-strict": "true"})
        seen = await post(client, {"images": [pixel], "keep_alive": -1, "format": schema}, "/generate")
        image_alone = await post(client, {"prompt": "", "images": [pixel], "format": "json"}, "/generate")
    for reply in (plain, seen, image_alone):
        assert check_lines(reply.content)["response"] == '{"a":1}'
        assert "x-gateway-loss" not in reply.headers
    system, user = upstream.requests[0].json["messages"]
    assert (system["role"], system["content"], user["content"]) == ("system", "Be kind.", "Hello")
    assert not {*unset, "keep_alive", "system", "prompt"} & upstream.requests[0].json.keys()
    text, image = upstream.requests[1].json["messages"][0]["content"]
    assert (text["text"], image["image_url"]["url"]) == ("Hello", f"data:image/png;base64,{pixel}")
    assert upstream.requests[1].json["response_format"]["json_schema"]["schema"] == schema
    assert [part["type"] for part in upstream.requests[2].json["messages"][0]["content"]] == ["image_url"]
    assert upstream.requests[2].json["response_format"] == {"type": "json_object"}


async def test_a_request_without_a_prompt_only_loads_the_model() -> None:
    async with gateway() as (client, upstream):
        replies = [
            await post(client, {"messages": []}),
            await post(client, {"messages": None, "keep_alive": 0, "stream": False}),
            await post(client, {"prompt": "", "keep_alive": "0s"}, "/generate"),
        ]
    assert [reply.json()["done_reason"] for reply in replies] == ["load", "unload", "unload"]
    assert replies[0].headers["content-type"] == "application/x-ndjson"
    assert replies[0].json()["message"] == {"role": "assistant", "content": ""}
    assert replies[2].json()["response"] == ""
    assert upstream.requests == []


async def test_models_list_exactly_their_capabilities() -> None:
    models = {
        "m": {"provider": "p", "capabilities": {"max_context_window": 2048, "tools": True, "images": True}},
        "n:latest": {"provider": "p", "capabilities": {"tools": False, "reasoning": False, "images": False}},
    }
    async with gateway(models=models) as (client, _):
        listed = (await client.get("/tags")).json()["models"]
        shown = [(await client.post("/show", json={"model": name})).json() for name in ("m:latest", "n:latest")]
        failed = [await client.post("/show", json=body) for body in ({"model": "x"}, {})]
        loaded = (await client.get("/ps")).json()
        version = (await client.get("/version")).json()["version"]
        probe = await client.head(str(client.base_url).removesuffix("/api/"))
    assert [model["name"] for model in listed] == ["m", "n:latest"]
    assert shown[0]["model_info"]["gateway.context_length"] == 2048
    assert {"completion", "tools", "vision"} <= {*shown[0]["capabilities"]}
    assert [*shown[1]["model_info"]] == ["general.architecture", "general.basename"]
    assert {"completion"} == {*shown[1]["capabilities"]} - {"embedding"}
    assert [reply.status_code for reply in failed] == [404, 400]
    assert (loaded, probe.status_code, probe.content) == ({"models": []}, 200, b"")
    assert [int(part) for part in version.split(".")] >= [0, 6, 4]


async def test_embeddings_are_those_of_the_upstream() -> None:
    data = [{"index": 1, "embedding": [2.0]}, {"index": 0, "embedding": [1.0]}]
    async with gateway() as (client, upstream):
        upstream.on(
            "/embeddings",
            json_reply({"data": data, "usage": {"prompt_tokens": 5}}),
            json_reply({"data": data[1:]}),
            json_reply({"data": []}),
            json_reply([]),
        )
        body: Json = {"model": "m:latest", "input": ["a", "b"], "dimensions": 1, "options": {"num_ctx": 5}}
        several = await client.post("/embed", json=body)
        one = await client.post("/embeddings", json={"model": "m", "prompt": "a"})
        broken = [await client.post("/embed", json={"model": "m", "input": "a"}) for _ in range(2)]
        nothing = [await client.post("/embed", json={"model": name, "input": []}) for name in ("m", "x")]
        strict = await client.post("/embed", json=body, headers={"x-gateway-strict": "true"})
        upstream.on("/embeddings", json_reply({"data": data[1:]}))
        sized = await client.post("/embed", json={"model": "m", "input": "a", "dimensions": 3})
    assert several.json()["embeddings"] == [[1.0], [2.0]]
    assert (several.json()["model"], several.json()["prompt_eval_count"]) == ("m", 5)
    assert several.headers["x-gateway-loss"] == "options.num_ctx=dropped"
    assert one.json() == {"embedding": [1.0]}
    assert [reply.status_code for reply in [*broken, *nothing, strict]] == [502, 502, 200, 404, 400]
    assert nothing[0].json()["embeddings"] == []
    assert sized.status_code == 400
    assert "1 numbers instead of 3. Leave 'dimensions' out" in sized.json()["error"]
    sent = {"model": "m", "input": ["a", "b"], "encoding_format": "float", "dimensions": 1}
    assert upstream.requests[0].json == sent


@pytest.mark.parametrize(("count", "status"), [(20_000, 200), (1_100_000, 502)], ids=["heavy", "too long"])
async def test_large_embeddings_are_parsed_in_a_thread_and_bounded(
    count: int, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    parse = relays._parse

    def note_thread(whole: bytes, target: relays.PathTarget) -> Any:
        threads.append(threading.current_thread().name)
        return parse(whole, target)

    monkeypatch.setattr(relays, "_parse", note_thread)
    async with gateway() as (client, upstream):
        upstream.on("/embeddings", json_reply({"data": [{"index": 0, "embedding": [0.12345678901234] * count}]}))
        reply = await client.post("/embed", json={"model": "m", "input": "a"})
    assert reply.status_code == status
    if status == 200:
        assert len(reply.json()["embeddings"][0]) == count
        assert [name.partition("_")[0] for name in threads] == ["heavy-work"]
    else:
        assert "longer than 16777216 bytes" in reply.json()["error"]
        assert threads == []


async def test_tools_of_the_operator_run_for_clients_that_do_not_know_them() -> None:
    call = chat_calls(("create_note", '{"text": "red river"}'))
    notes = {"stdio": [sys.executable, "-m", "gateway.demo_notes"], "prefix": "", "approval": "never"}
    tools = {"mcp": {"servers": {"notes": notes}}}
    models = {"m": {"provider": "p", "tools": {"mcp": ["notes"]}}}
    async with gateway(call, chat_text("Noted."), models=models, tools=tools) as (client, upstream):
        reply = check_lines((await post(client, {})).content)
    assert (reply["message"], reply["done_reason"]) == ({"role": "assistant", "content": "Noted."}, "stop")
    assert upstream.requests[1].json["messages"][-1]["role"] == "tool"
