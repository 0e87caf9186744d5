"""Opaque data of a chat upstream's call comes back to it with the call, from clients of every API that can carry it."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.databases import ready_sqlite
from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import CHAT_USAGE, chat_chunk, chat_json, chat_sse, chat_text, either

Json = dict[str, Any]

DATA: Json = {"google": {"thought_signature": "SIG=="}}
CALLS: list[Json] = [
    {
        "id": "call_1",
        "type": "function",
        "extra_content": DATA,
        "function": {"name": "add", "arguments": '{"a":1}'},
    },
    {"id": "call_2", "type": "function", "function": {"name": "add", "arguments": '{"a":2}'}},
]
FUNCTION: Json = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
CHAT_TOOLS: list[Json] = [{"type": "function", "function": FUNCTION}]
OUTPUTS: list[Json] = [
    {"type": "function_call_output", "call_id": call_id, "output": "3"} for call_id in ("call_1", "call_2")
]
FORMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def calling(*, streamed_late: bool = False) -> Any:
    calls = [{**call, "index": index} for index, call in enumerate(CALLS)]
    chunks = [chat_chunk({"tool_calls": [call]}) for call in calls]
    if streamed_late:
        del calls[0]["extra_content"]
        chunks.append(chat_chunk({"tool_calls": [{"index": 0, "extra_content": DATA}]}))
    chunks += [chat_chunk({}, "tool_calls"), chat_chunk(usage=CHAT_USAGE)]
    return either(chat_sse(chunks), chat_json(finish_reason="tool_calls", tool_calls=CALLS))


def config_of(upstream: ScriptedUpstream, **sections: Any) -> Json:
    provider = {"type": "openai_compatible", "base_url": upstream.url}
    return {"providers": {"p": provider}, "models": {"m": {"provider": "p"}, "n": {"provider": "p"}}, **sections}


def data_sent(upstream: ScriptedUpstream) -> list[Any]:
    """Returns the data of the past calls in the last request."""
    messages = upstream.requests[-1].json["messages"]
    return [call.get("extra_content") for message in messages for call in message.get("tool_calls") or ()]


async def respond(client: httpx.AsyncClient, body: Json, *, stream: bool) -> Json:
    reply = await client.post("/v1/responses", json={**body, "stream": stream})
    assert reply.status_code == 200, reply.text
    assert "SIG==" not in reply.text
    if not stream:
        whole: Json = reply.json()
        return whole
    last = [line for line in reply.text.splitlines() if line.startswith("data: {")][-1]
    final: Json = httpx.Response(200, text=last.removeprefix("data: ")).json()["response"]
    return final


@FORMS
@pytest.mark.parametrize("late", [False, True])
async def test_items_of_the_responses_api_carry_it_sealed(stream: bool, late: bool) -> None:
    body: Json = {"model": "m", "store": False, "include": ["reasoning.encrypted_content"]}
    body["tools"] = [{"type": "function", **FUNCTION}]
    async with ScriptedUpstream() as upstream:
        upstream.script(calling(streamed_late=late), chat_text("Three."))
        with serving(config_of(upstream)) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                first = await respond(client, {**body, "input": "Add."}, stream=stream)
                history = [{"role": "user", "content": "Add."}, *first["output"], *OUTPUTS]
                await respond(client, {**body, "input": history}, stream=stream)
                assert data_sent(upstream) == [DATA, None]
                await respond(client, {**body, "model": "n", "input": history}, stream=stream)
                assert data_sent(upstream) == [None, None]


@FORMS
async def test_the_store_keeps_it(stream: bool, tmp_path: Path) -> None:
    body: Json = {"model": "m", "tools": [{"type": "function", **FUNCTION}]}
    async with ScriptedUpstream() as upstream:
        upstream.script(calling(), chat_text("Three."))
        with serving(config_of(upstream, store={"url": ready_sqlite(tmp_path / "gateway.db")})) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                first = await respond(client, {**body, "input": "Add."}, stream=stream)
                again = {**body, "previous_response_id": first["id"], "input": OUTPUTS}
                await respond(client, again, stream=stream)
    assert data_sent(upstream) == [DATA, None]


@pytest.mark.parametrize("more", [{}, {"extensions": True}], ids=["relayed", "translated"])
async def test_chat_clients_send_it_back(more: Json) -> None:
    body: Json = {"model": "m", "tools": CHAT_TOOLS, **more}
    question: Json = {"role": "user", "content": "Add."}
    async with ScriptedUpstream() as upstream:
        upstream.script(calling(), chat_text("Three."))
        with serving(config_of(upstream)) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                first = await client.post("/v1/chat/completions", json={**body, "messages": [question]})
                answers = [{"role": "tool", "tool_call_id": call["id"], "content": "3"} for call in CALLS]
                for said in (first.json()["choices"][0]["message"], {"role": "assistant", "tool_calls": CALLS}):
                    await client.post("/v1/chat/completions", json={**body, "messages": [question, said, *answers]})
                    assert data_sent(upstream) == [DATA, None]


@pytest.mark.parametrize("thinking", [{"type": "enabled", "budget_tokens": 2000}, {"type": "disabled"}, None], ids=str)
async def test_clients_of_messages_carry_it_with_the_call(thinking: Json | None) -> None:
    body: Json = {"model": "m", "max_tokens": 4000, "thinking": thinking}
    body["tools"] = [{"name": "add", "input_schema": FUNCTION["parameters"]}]
    question: Json = {"role": "user", "content": "Add."}
    async with ScriptedUpstream() as upstream:
        upstream.script(calling(), chat_text("Three."))
        with serving(config_of(upstream)) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                first = (await client.post("/v1/messages", json={**body, "messages": [question]})).json()
                results = [
                    {"type": "tool_result", "tool_use_id": block["id"], "content": "3"}
                    for block in first["content"]
                    if block["type"] == "tool_use"
                ]
                said = {"role": "assistant", "content": first["content"]}
                messages = [question, said, {"role": "user", "content": results}]
                await client.post("/v1/messages", json={**body, "messages": messages})
    assert data_sent(upstream) == [DATA, None]
