"""The finish reasons of chat upstreams reach clients of every API: known ones by their meaning, others with a trace."""

import json
from typing import Any

import httpx
import pytest

from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import (
    CHAT_USAGE,
    chat_chunk,
    chat_json,
    chat_sse,
    either,
    json_reply,
    responses_sse,
    text_events,
)

Json = dict[str, Any]

MESSAGES: Json = {"messages": [{"role": "user", "content": "Hi"}]}
REQUESTS: dict[str, tuple[str, Json]] = {
    "chat": ("/v1/chat/completions", MESSAGES),
    "translated chat": ("/v1/chat/completions", {**MESSAGES, "extensions": True}),
    "responses": ("/v1/responses", {"input": "Hi", "store": False}),
    "messages": ("/v1/messages", {**MESSAGES, "max_tokens": 99}),
    "gemini": ("/v1beta/models/m", {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
    "ollama": ("/api/chat", MESSAGES),
    "generate": ("/generate", MESSAGES),
}
CUT = ("max_tokens", "model_context_window_exceeded", "model_length", "length", "MAX_TOKENS")
FILTERED = ("refusal", "sensitive", "content_filter", "SAFETY", "RECITATION", "safety")
SHOWN = {
    "length": ("length", "max_output_tokens", "max_tokens", "MAX_TOKENS", "model_context_window_exceeded"),
    "content_filter": ("content_filter", "refusal", "SAFETY", "RECITATION"),
}
FORMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
APIS = pytest.mark.parametrize("api", REQUESTS)


async def ask(api: str, reason: str, *, stream: bool) -> httpx.Response:
    chunks = [chat_chunk({"content": "Well"}), chat_chunk({}, reason), chat_chunk(usage=CHAT_USAGE)]
    path, body = REQUESTS[api]
    if api == "gemini":
        path += ":streamGenerateContent?alt=sse" if stream else ":generateContent"
    else:
        body = {**body, "model": "m", "stream": stream}
    async with ScriptedUpstream() as upstream:
        upstream.script(either(chat_sse(chunks), chat_json("Well", finish_reason=reason)))
        provider = {"type": "openai_compatible", "base_url": upstream.url}
        config: Json = {"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}
        with serving(config) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                return await client.post(path, json=body)


@FORMS
@APIS
@pytest.mark.parametrize("reason", [*CUT, *FILTERED])
async def test_a_known_reason_has_its_meaning_in_every_api(api: str, reason: str, stream: bool) -> None:
    reply = await ask(api, reason, stream=stream)
    assert reply.status_code == 200, reply.text
    words = SHOWN["length" if reason in CUT else "content_filter"]
    assert any(f'"{word}"' in reply.text for word in words), reply.text
    if api == "responses":
        assert '"status":"incomplete"' in reply.text


@FORMS
@APIS
async def test_an_unknown_reason_leaves_a_trace_in_every_api(api: str, stream: bool) -> None:
    reply = await ask(api, "weary", stream=stream)
    assert reply.status_code == 200, reply.text
    assert "weary" in reply.text


@FORMS
@APIS
@pytest.mark.parametrize(
    "reason", ["network_error", "error", "abort", "MALFORMED_FUNCTION_CALL", "malformed_function_call"]
)
async def test_a_reason_of_a_broken_reply_is_a_failure_in_every_api(api: str, reason: str, stream: bool) -> None:
    reply = await ask(api, reason, stream=stream)
    assert reply.status_code >= 500 or "error" in json.dumps(reply.text), reply.text
    assert '"response.completed"' not in reply.text


CUT_SHORT: dict[str, str] = {
    "translated chat": '"finish_reason":"length"',
    "messages": '"stop_reason":"max_tokens"',
    "gemini": '"finishReason":"MAX_TOKENS"',
    "ollama": '"done_reason":"length"',
    "generate": '"finish_reason":"length"',
}


async def test_a_response_that_is_incomplete_for_an_unknown_reason_is_complete_in_no_api() -> None:
    *events, end = text_events("Well")
    response = {**end["response"], "status": "incomplete", "incomplete_details": {"reason": "steered"}}
    script = either(
        responses_sse([*events, {"type": "response.incomplete", "response": response}]), json_reply(response)
    )
    async with ScriptedUpstream() as upstream:
        upstream.script(script)
        provider = {"type": "openai_compatible", "base_url": upstream.url, "dialects": ["responses"]}
        with serving({"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                for api, end_words in CUT_SHORT.items():
                    for stream in (False, True):
                        path, body = REQUESTS[api]
                        if api == "gemini":
                            path += ":streamGenerateContent?alt=sse" if stream else ":generateContent"
                        else:
                            body = {**body, "model": "m", "stream": stream}
                        reply = await client.post(path, json=body)
                        assert end_words in reply.text.replace('": "', '":"'), (api, stream, reply.text)
                        assert "steered" in reply.text, (api, stream)
                body = {"model": "m", "input": "Hi", "store": False, "extensions": True}
                translated = (await client.post("/v1/responses", json=body)).json()
                assert (translated["status"], translated["incomplete_details"]) == ("incomplete", {"reason": "steered"})
