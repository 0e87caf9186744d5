"""Numbers in the arguments and results of tools keep all their digits, between every two APIs."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.anthropic import anthropic_calls, anthropic_text
from tests.upstream.builders import (
    SSE,
    chat_calls,
    chat_chunk,
    chat_json,
    chat_sse,
    chat_text,
    data_frame,
    either,
    json_reply,
)
from tests.upstream.gemini import call as gemini_call
from tests.upstream.gemini import last as gemini_last
from tests.upstream.gemini import text as gemini_text
from tests.upstream.ollama import call as ollama_call
from tests.upstream.ollama import ollama_calls, ollama_shown, ollama_text
from tests.upstream.script import Reply, Script

Json = dict[str, Any]

WEI = 12345678901234567890123
DIGITS = str(WEI)
FRACTION = "0.12345678901234567890123"
GIVEN: Json = {"wei": WEI}
SCHEMA: Json = {"type": "object", "properties": {"wei": {"type": "integer"}}}


def _gemini(*parts: Json) -> Script:
    return either(Reply(headers=SSE, body=[data_frame(gemini_last(*parts))]), json_reply(gemini_last(*parts)))


def _chat_with_object() -> Script:
    call = {"id": "call_1", "type": "function", "function": {"name": "pay", "arguments": GIVEN}}
    chunks = [chat_chunk({"tool_calls": [{**call, "index": 0}]}), chat_chunk({}, "tool_calls")]
    return either(chat_sse(chunks), chat_json(finish_reason="tool_calls", tool_calls=[call]))


UPSTREAMS: dict[str, tuple[str, Script, Script]] = {
    "chat": ("openai_compatible", chat_calls(("pay", json.dumps(GIVEN))), chat_text("Paid.")),
    "chat, as an object": ("openai_compatible", _chat_with_object(), chat_text("Paid.")),
    "anthropic": ("anthropic", anthropic_calls(("toolu_1", "pay", GIVEN)), anthropic_text("Paid.")),
    "gemini": ("gemini", _gemini(gemini_call("pay", GIVEN)), _gemini(gemini_text("Paid."))),
    "ollama": ("ollama", ollama_calls(ollama_call("pay", wei=WEI)), ollama_text("Paid.")),
}

_FUNCTION: Json = {"name": "pay", "parameters": SCHEMA}
_USER: Json = {"role": "user", "content": "Pay."}
_CHAT_CALL: Json = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": json.dumps(GIVEN)}}
_TOOLS: Json = {"tools": [{"type": "function", "function": _FUNCTION}]}

CLIENTS: dict[str, tuple[str, Json, list[Json]]] = {
    "chat": (
        "/v1/chat/completions",
        {**_TOOLS, "messages": [_USER]},
        [
            {"role": "assistant", "content": None, "tool_calls": [_CHAT_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": FRACTION},
        ],
    ),
    "responses": (
        "/v1/responses",
        {"store": False, "tools": [{"type": "function", **_FUNCTION}], "input": [_USER]},
        [
            {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": json.dumps(GIVEN)},
            {"type": "function_call_output", "call_id": "c1", "output": FRACTION},
        ],
    ),
    "messages": (
        "/v1/messages",
        {"max_tokens": 99, "tools": [{"name": "pay", "input_schema": SCHEMA}], "messages": [_USER]},
        [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "pay", "input": GIVEN}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": FRACTION}]},
        ],
    ),
    "gemini": (
        "/v1beta/models/m",
        {"tools": [{"functionDeclarations": [_FUNCTION]}], "contents": [{"role": "user", "parts": [{"text": "Pay."}]}]},
        [
            {"role": "model", "parts": [{"functionCall": {"name": "pay", "args": GIVEN}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "pay", "response": {"rate": 7.5}}}]},
        ],
    ),
    "ollama": (
        "/api/chat",
        {**_TOOLS, "messages": [_USER]},
        [
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "pay", "arguments": GIVEN}}]},
            {"role": "tool", "tool_name": "pay", "content": FRACTION},
        ],
    ),
}
FORMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@asynccontextmanager
async def asking(upstream_name: str, *, calls: bool) -> AsyncIterator[tuple[httpx.AsyncClient, ScriptedUpstream]]:
    kind, calling, answering = UPSTREAMS[upstream_name]
    async with ScriptedUpstream() as upstream:
        upstream.script(calling if calls else answering)
        upstream.on("/api/show", ollama_shown("completion", "tools"))
        provider = {"type": kind, "base_url": upstream.url.removesuffix("/v1") if kind == "ollama" else upstream.url}
        if kind != "ollama":
            provider["api_key"] = "k"
        models = {"m": {"provider": "p", "model": "gemini-2.5-pro" if kind == "gemini" else "x"}}
        with serving({"providers": {"p": provider}, "models": models}) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                yield client, upstream


def request_of(client_name: str, *, stream: bool, with_history: bool) -> tuple[str, Json]:
    path, body, history = CLIENTS[client_name]
    if with_history:
        (key,) = body.keys() & {"messages", "input", "contents"}
        body = {**body, key: [*body[key], *history]}
    if client_name == "gemini":
        return path + (":streamGenerateContent?alt=sse" if stream else ":generateContent"), body
    return path, {**body, "model": "m", "stream": stream}


@FORMS
@pytest.mark.parametrize("client_name", CLIENTS)
@pytest.mark.parametrize("upstream_name", UPSTREAMS)
async def test_a_call_reaches_the_client_with_its_digits(upstream_name: str, client_name: str, stream: bool) -> None:
    async with asking(upstream_name, calls=True) as (client, _):
        path, body = request_of(client_name, stream=stream, with_history=False)
        reply = await client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    assert DIGITS in reply.text.replace('"}}\n', ""), reply.text
    assert "e+22" not in reply.text


@pytest.mark.parametrize("client_name", CLIENTS)
@pytest.mark.parametrize("upstream_name", UPSTREAMS)
async def test_a_past_call_reaches_the_upstream_with_its_digits(upstream_name: str, client_name: str) -> None:
    async with asking(upstream_name, calls=False) as (client, upstream):
        path, body = request_of(client_name, stream=False, with_history=True)
        reply = await client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    sent = upstream.requests[-1].content.decode()
    assert DIGITS in sent, sent
    assert client_name == "gemini" or FRACTION in sent, sent
