"""Clients of the Messages API over a chat upstream: what it is sent, what they get, and what failures look like."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.integration.over_chat import gateway_over_chat
from tests.serving import serving
from tests.unit.support.stream_checks.messages_order import check_message, check_message_stream, read_frames
from tests.upstream import Script, ScriptedUpstream, error_reply, json_reply
from tests.upstream.builders import (
    SSE,
    chat_calls,
    chat_chunk,
    chat_sse,
    chat_text,
    data_frame,
    response_snapshot,
    text_chunks,
)
from tests.upstream.script import Pause, Reply

Json = dict[str, Any]
KEY = "key-of-ada-0123456"
HELLO: list[Json] = [{"role": "user", "content": "Hello"}]
TOOL: Json = {"name": "add", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}


@asynccontextmanager
async def gateway(*scripts: Script, **config: Any) -> AsyncIterator[tuple[httpx.AsyncClient, ScriptedUpstream]]:
    async with gateway_over_chat(*scripts, **config) as (served, upstream):
        headers = {"anthropic-version": "2023-06-01"}
        async with httpx.AsyncClient(base_url=served.v1, headers=headers, trust_env=False, timeout=60) as client:
            yield client, upstream


async def post(client: httpx.AsyncClient, body: Json, path: str = "/messages?beta=true", **more: Any) -> httpx.Response:
    return await client.post(path, json={"model": "m", "max_tokens": 50, "messages": HELLO, **body}, **more)


async def test_a_message_is_the_same_streamed_and_whole() -> None:
    async with gateway(chat_text("Hel", "lo")) as (client, _):
        whole = await post(client, {})
        streamed = await post(client, {"stream": True})
    assert streamed.headers["content-type"] == "text/event-stream; charset=utf-8"
    for reply in (whole, streamed):
        assert reply.headers["request-id"] == reply.headers["x-request-id"]
    message = check_message(whole.json())
    assert check_message_stream(streamed.content)["content"] == whole.json()["content"]
    assert (message.stop_reason, message.usage.input_tokens, message.usage.output_tokens) == ("end_turn", 9, 3)


async def test_a_tool_loop_is_chat_for_its_upstream() -> None:
    async with gateway(chat_calls(("add", '{"a":1}')), chat_text("2")) as (client, upstream):
        first = (await post(client, {"tools": [TOOL], "tool_choice": {"type": "any"}, "system": "Add."})).json()
        (call,) = first["content"]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "2"}
        history = [*HELLO, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        second = await post(client, {"tools": [TOOL], "messages": history})
    assert (first["stop_reason"], call["name"], call["input"]) == ("tool_use", "add", {"a": 1})
    assert second.json()["content"] == [{"type": "text", "text": "2"}]
    asked, answered = (request.json for request in upstream.requests)
    assert asked["messages"] == [{"role": "system", "content": "Add."}, {"role": "user", "content": "Hello"}]
    assert (asked["max_tokens"], asked["tool_choice"]) == (50, "required")
    assert asked["tools"][0]["function"]["parameters"] == TOOL["input_schema"]
    assert answered["messages"][1]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a":1}'}
    assert answered["messages"][2] == {"role": "tool", "tool_call_id": call["id"], "content": "2"}


def thinking_chunks() -> list[Json]:
    return [chat_chunk({"role": "assistant", "reasoning_content": "Hm."}), *text_chunks("Hi")]


async def test_thinking_by_default_is_hidden_from_clients_that_did_not_ask() -> None:
    defaults = {"thinking": True, "reasoning_effort": "minimal", "temperature": 1.2, "stop": "END"}
    models = {"m": {"provider": "p", "request_defaults": defaults}}
    async with gateway(chat_sse(thinking_chunks()), models=models) as (client, upstream):
        unasked = (await post(client, {})).json()
        streamed = check_message_stream((await post(client, {"stream": True})).content)
        asked = (await post(client, {"thinking": {"type": "adaptive"}})).json()
    assert [block["type"] for block in unasked["content"]] == ["text"]
    assert [block["type"] for block in streamed["content"]] == ["text"]
    assert [block["type"] for block in asked["content"]] == ["thinking", "text"]
    assert {name: upstream.requests[0].json[name] for name in ("temperature", "stop")} == {
        "temperature": 1.2,
        "stop": ["END"],
    }


async def test_thinking_returns_to_the_model_that_thought() -> None:
    body = {"thinking": {"type": "adaptive", "display": "omitted"}}
    async with gateway(chat_sse(thinking_chunks()), chat_text("Yes")) as (client, upstream):
        first = check_message_stream((await post(client, {**body, "stream": True})).content)
        thought, answer = first["content"]
        history = [*HELLO, {"role": "assistant", "content": [thought, answer]}, *HELLO]
        assert (await post(client, {**body, "messages": history})).status_code == 200
    assert (thought["type"], thought["thinking"]) == ("thinking", "")
    assert thought["signature"].startswith("rgr")
    assert upstream.requests[1].json["messages"][1]["reasoning"] == "Hm."


async def test_an_upstream_that_encrypts_its_thinking_gets_it_back() -> None:
    thought: Json = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "cipher-of-upstream"}
    answer = {"type": "output_text", "text": "Hi", "annotations": []}
    output: list[Json] = [
        thought,
        {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [answer]},
    ]
    body = {"thinking": {"type": "adaptive"}, "model": "o"}
    async with ScriptedUpstream() as upstream:
        upstream.on("/responses", json_reply(response_snapshot("completed", output)))
        provider = {
            "type": "openai",
            "base_url": upstream.url,
            "api_key": "key-1-of-gateway",
            "dialects": ["responses"],
        }
        settings = {"providers": {"p": provider}, "models": {"o": {"provider": "p"}}}
        with serving(settings) as served:
            async with httpx.AsyncClient(base_url=served.v1, trust_env=False, timeout=60) as client:
                first = (await post(client, body)).json()
                history = [*HELLO, {"role": "assistant", "content": first["content"]}, *HELLO]
                assert (await post(client, {**body, "messages": history})).status_code == 200
    assert "cipher-of-upstream" not in str(first)
    assert upstream.requests[0].json["include"] == ["reasoning.encrypted_content"]
    assert upstream.requests[1].json["input"][1]["encrypted_content"] == "cipher-of-upstream"


async def test_signatures_of_another_server_are_no_obstacle() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "EqQBCgIYAhIM"}
    history = [*HELLO, {"role": "assistant", "content": [thought, {"type": "text", "text": "Hi"}]}, *HELLO]
    async with gateway(chat_text("Yes")) as (client, upstream):
        assert (await post(client, {"messages": history})).status_code == 200
    assert upstream.requests[0].json["messages"][1]["reasoning"] == "Hm."


async def test_a_reply_that_the_client_began_is_continued() -> None:
    history = [*HELLO, {"role": "assistant", "content": "The answer is"}]
    models = {"m": {"provider": "p"}, "n": {"provider": "p", "capabilities": {"prefill": True}}}
    async with gateway(chat_text(" 7"), models=models) as (client, upstream):
        refused = await post(client, {"messages": history})
        continued = await post(client, {"messages": history, "model": "n"})
    assert refused.status_code == 400
    assert refused.json()["error"]["message"].endswith("The conversation must end with a user message.")
    assert continued.status_code == 200
    assert upstream.requests[0].json["messages"][-1] == {"role": "assistant", "content": "The answer is"}


async def test_the_stop_sequence_that_ended_a_message_is_named() -> None:
    chunks = text_chunks("a")
    chunks[-2]["choices"][0]["stop_reason"] = "###"
    async with gateway(chat_sse(chunks)) as (client, _):
        reply = await post(client, {"stop_sequences": ["###"], "stream": True})
    message = check_message_stream(reply.content)
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "###")


async def test_losses_are_in_the_header_under_the_clients_names() -> None:
    async with gateway(chat_text("Hi")) as (client, _):
        body = {"context_management": {"edits": []}, "thinking": {"type": "enabled", "budget_tokens": 1024}}
        lossy = await post(client, {**body, "max_tokens": 2000, "context_management": {"edits": [{}]}})
        strict = await post(client, {"context_management": {"edits": [{}]}}, headers={"x-gateway-strict": "true"})
    assert "context_management=dropped" in lossy.headers["x-gateway-loss"]
    assert "thinking.budget_tokens=dropped" in lossy.headers["x-gateway-loss"]
    assert strict.status_code == 400
    assert "context_management=dropped" in strict.json()["error"]["message"]


async def test_a_silence_is_filled_with_pings() -> None:
    silence = asyncio.Event()
    first, *rest = text_chunks("Hi")
    reply = Reply(headers=SSE, body=(data_frame(first), Pause(silence), *map(data_frame, rest), b"data: [DONE]\n\n"))
    async with gateway(reply, server={"keepalive_s": 0.05}) as (client, _):
        body = {"model": "m", "max_tokens": 50, "messages": HELLO, "stream": True}
        wire = b""
        async with client.stream("POST", "/messages", json=body) as streamed:
            async for read in streamed.aiter_bytes():
                wire += read
                if b"event: ping" in wire:
                    silence.set()
    assert wire.startswith(b'event: ping\ndata: {"type":"ping"}\n\n')
    assert check_message_stream(wire)["content"] == [{"type": "text", "text": "Hi"}]


FAILURES: dict[str, tuple[Script, int, str, str, str]] = {
    "a prompt that is too long": (
        error_reply(
            400, "This model's maximum context length is 2048 tokens. However, your messages resulted in 3000."
        ),
        400,
        "invalid_request_error",
        "prompt is too long: 3000 tokens > 2048 maximum",
        "false",
    ),
    "too many requests": (error_reply(429, "slow down"), 429, "rate_limit_error", "slow down", "true"),
    "an upstream that is overloaded": (error_reply(503, "busy"), 529, "overloaded_error", "busy", "true"),
    "an upstream that fails": (error_reply(500, "oops"), 502, "api_error", "oops", "true"),
    "a key of the gateway that is refused": (
        error_reply(401, "bad key"),
        502,
        "api_error",
        "the upstream refused the gateway's own credentials",
        "false",
    ),
}


@pytest.mark.parametrize(("script", "status", "kind", "message", "retry"), FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("stream", [True, False])
async def test_failures_have_the_form_of_the_api(
    script: Script, status: int, kind: str, message: str, retry: str, *, stream: bool
) -> None:
    async with gateway(script) as (client, _):
        reply = await post(client, {"stream": stream})
    assert (reply.status_code, reply.headers["x-should-retry"]) == (status, retry)
    request_id = reply.headers["request-id"]
    assert reply.json() == {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}


async def test_a_stream_that_breaks_off_ends_with_an_error_event() -> None:
    async with gateway(chat_sse([text_chunks("Hi")[0], chat_chunk({"content": "Hi"})], done=False)) as (client, _):
        reply = await post(client, {"stream": True})
    assert reply.status_code == 200
    assert read_frames(reply.content)[-1]["error"]["type"] == "api_error"


async def test_a_thread_is_refused_so_that_clients_continue_without_it() -> None:
    async with gateway() as (client, upstream):
        reply = await post(client, {"thread": {"type": "create"}})
    assert reply.status_code == 400
    assert reply.json()["error"]["details"] == {"error_code": "thread_unsupported_request"}
    assert upstream.requests == []


@pytest.mark.parametrize("headers", [{"x-api-key": KEY}, {"authorization": f"Bearer {KEY}"}])
async def test_both_headers_for_keys_are_accepted(headers: Json) -> None:
    async with gateway(chat_text("Hi"), auth={"keys": [{"name": "ada", "key": KEY}]}) as (client, _):
        refused = await post(client, {})
        accepted = await post(client, {}, headers=headers)
    assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
    assert refused.headers["x-should-retry"] == "false"
    assert accepted.status_code == 200


async def test_models_have_the_shape_of_the_requested_api() -> None:
    models: Json = {name: {"provider": "p"} for name in ("a", "b", "c")}
    models["b"]["capabilities"] = {"max_context_window": 4096}
    async with gateway(models=models) as (client, _):
        pages = [
            await client.get("/models", params=params)
            for params in ({"limit": 2}, {"after_id": "b"}, {"before_id": "b"})
        ]
        wrong = [
            await client.get("/models", params=params)
            for params in ({"limit": 0}, {"after_id": "x"}, {"after_id": "a", "before_id": "c"})
        ]
        one = (await client.get("/models/a")).json()
        missing = await client.get("/models/x")
        plain = await client.get("/models", headers={"anthropic-version": ""})
    assert [[model["id"] for model in page.json()["data"]] for page in pages] == [["a", "b"], ["c"], ["a"]]
    assert [page.json()["has_more"] for page in pages] == [True, False, False]
    assert pages[0].json()["last_id"] == "b"
    assert [model.get("max_input_tokens") for model in pages[0].json()["data"]] == [None, 4096]
    assert [page.status_code for page in wrong] == [400, 400, 400]
    assert "'before_id'" in wrong[2].json()["error"]["message"]
    assert (one["type"], one["id"], one["created_at"][-1]) == ("model", "a", "Z")
    assert missing.json()["error"]["type"] == "not_found_error"
    assert plain.json()["object"] == "list"


async def test_tokens_that_cannot_be_counted_are_not_estimated() -> None:
    models = {"m": {"provider": "p", "capabilities": {"counting": "none"}}}
    async with gateway(models=models) as (client, _):
        reply = await post(client, {}, "/messages/count_tokens")
    assert (reply.status_code, reply.json()["error"]["type"]) == (404, "not_found_error")


async def test_tools_of_the_operator_run_for_clients_that_do_not_know_them() -> None:
    call = chat_calls(("create_note", '{"text": "red river"}'))
    notes = {"stdio": [sys.executable, "-m", "gateway.demo_notes"], "prefix": "", "approval": "never"}
    tools = {"mcp": {"servers": {"notes": notes}}}
    models = {"m": {"provider": "p", "tools": {"mcp": ["notes"]}}}
    async with gateway(call, chat_text("Noted."), models=models, tools=tools) as (client, upstream):
        reply = await post(client, {"stream": True})
    message = check_message_stream(reply.content)
    assert (message["content"], message["stop_reason"]) == ([{"type": "text", "text": "Noted."}], "end_turn")
    assert upstream.requests[1].json["messages"][-1]["role"] == "tool"
