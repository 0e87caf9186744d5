"""Stop sequences end the replies of upstreams without them, with the finish reason of each client API."""

import json
from typing import Any

import httpx
import pytest

from tests.conformance.test_finish_reasons import MESSAGES, REQUESTS
from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import (
    CHAT_USAGE,
    chat_chunk,
    chat_json,
    chat_sse,
    data_frame,
    either,
    responses_text,
    sse_reply,
)
from tests.upstream.script import Hang, Script

Json = dict[str, Any]

APIS = [name for name in REQUESTS if name != "translated chat"]
PIECES = ["One", " E", "ND", " two"]
TEXT = "".join(PIECES)
REASONS = {
    "chat": '"finish_reason":"stop"',
    "responses": '"status":"completed"',
    "messages": '"stop_sequence":"END"',
    "gemini": '"finishReason":"STOP"',
    "ollama": '"done_reason":"stop"',
    "generate": '"finish_reason":"stop"',
}


def answer_chat() -> Script:
    chunks = [
        *(chat_chunk({"content": piece}) for piece in PIECES),
        chat_chunk({}, "stop"),
        chat_chunk(usage=CHAT_USAGE),
    ]
    return either(chat_sse(chunks), chat_json(TEXT))


UPSTREAMS: dict[str, tuple[Json, Json, Script]] = {
    "responses": ({"dialects": ["responses"]}, {}, responses_text(*PIECES)),
    "chat without stop": ({}, {"capabilities": {"stop_sequences": False}, "fix_empty_final": True}, answer_chat()),
}


def build_request(api: str, stop: list[str], *, stream: bool) -> tuple[str, Json]:
    path, body = REQUESTS[api]
    if api == "gemini":
        path += ":streamGenerateContent?alt=sse" if stream else ":generateContent"
        return path, {**body, "generationConfig": {"stopSequences": stop}}
    body = {**body, "model": "m", "stream": stream}
    if api == "ollama":
        return path, {**body, "options": {"stop": stop}}
    return path, {**body, "stop_sequences" if api == "messages" else "stop": stop}


async def ask(
    api: str, kind: str, *, stream: bool, stop: list[str], model: Json | None = None
) -> tuple[httpx.Response, list[Json]]:
    provider, config, script = UPSTREAMS[kind]
    path, body = build_request(api, stop, stream=stream)
    async with ScriptedUpstream() as upstream:
        upstream.script(script)
        provider = {"type": "openai_compatible", "base_url": upstream.url, **provider}
        model = {"provider": "p", **config, **(model or {})}
        with serving({"providers": {"p": provider}, "models": {"m": model}}) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                reply = await client.post(path, json=body)
        return reply, [request.json for request in upstream.requests]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", UPSTREAMS)
@pytest.mark.parametrize("api", APIS)
async def test_a_reply_ends_before_the_sequence(api: str, kind: str, stream: bool) -> None:
    reply, sent = await ask(api, kind, stream=stream, stop=["END"])
    assert reply.status_code == 200, reply.text
    assert REASONS[api] in reply.text.replace('": "', '":"')
    assert "One" in reply.text
    assert "two" not in reply.text
    assert "ND" not in reply.text.replace('"END"', "")
    assert "x-gateway-loss" not in reply.headers
    assert "stop" not in sent[0]


@pytest.mark.parametrize("kind", UPSTREAMS)
async def test_a_reply_without_the_sequence_is_whole(kind: str) -> None:
    reply, _ = await ask("chat", kind, stream=False, stop=["ENDS"])
    choice = json.loads(reply.text)["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (TEXT, "stop")


@pytest.mark.parametrize("model", [{"capabilities": {"stop_sequences": True}}, {"extra_params": ["stop"]}])
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_an_upstream_that_has_them_gets_them(api: str, model: Json) -> None:
    _, sent = await ask(api, "responses", stream=False, stop=["END"], model=model)
    assert sent[0]["stop"] == ["END"]


@pytest.mark.parametrize("api", ["chat", "messages", "responses"])
async def test_sequences_that_are_too_long_are_refused_by_name(api: str) -> None:
    reply, sent = await ask(api, "responses", stream=False, stop=["x" * 600, "y" * 600])
    assert reply.status_code == 400
    assert "max_stop_chars" in reply.text
    assert api == "messages" or '"stop"' in reply.text  # errors of that API have no parameter
    assert not sent


async def test_the_upstream_is_left_at_the_sequence() -> None:
    """A reply that never ends otherwise: it would hold the client until its deadline."""
    begun = [data_frame(chat_chunk({"content": piece})) for piece in ["One", " EN", "D", " more"]]
    async with ScriptedUpstream() as upstream:
        upstream.script(sse_reply(*begun, Hang()))
        provider = {"type": "openai_compatible", "base_url": upstream.url}
        model = {"provider": "p", "capabilities": {"stop_sequences": False}}
        with serving({"providers": {"p": provider}, "models": {"m": model}}) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                body = {**MESSAGES, "model": "m", "stream": True, "stop": "END", "extensions": True}
                reply = await client.post("/v1/chat/completions", json=body)
    assert "[DONE]" in reply.text
    assert "more" not in reply.text
