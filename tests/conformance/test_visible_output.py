"""Output other than text reaches clients in the form of their API, or they are told that it is missing."""

from typing import Any

import httpx
import pytest

from tests.serving import serving
from tests.upstream import ScriptedUpstream, anthropic
from tests.upstream.builders import (
    CHAT_USAGE,
    SSE,
    chat_chunk,
    chat_json,
    chat_sse,
    data_frame,
    dump,
    either,
    json_reply,
)
from tests.upstream.gemini import last as gemini_last
from tests.upstream.script import Reply, Script

Json = dict[str, Any]

PNG = "iVBORw0KGgo="
IMAGE: Json = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
MESSAGES: Json = {"messages": [{"role": "user", "content": "Draw a cat."}]}
REQUESTS: dict[str, tuple[str, Json]] = {
    "translated chat": ("/v1/chat/completions", {**MESSAGES, "extensions": True}),
    "responses": ("/v1/responses", {"input": "Draw a cat.", "store": False}),
    "messages": ("/v1/messages", {**MESSAGES, "max_tokens": 99}),
    "gemini": ("/v1beta/models/m", {"contents": [{"role": "user", "parts": [{"text": "Draw a cat."}]}]}),
    "ollama": ("/api/chat", MESSAGES),
    "generate": ("/generate", MESSAGES),
}
WITH_IMAGES = ("translated chat", "responses", "gemini")
APIS = pytest.mark.parametrize("api", REQUESTS)
FORMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def _chat(*deltas: Json, **message: Any) -> Script:
    chunks = [*map(chat_chunk, deltas), chat_chunk({}, "stop"), chat_chunk(usage=CHAT_USAGE)]
    content = message.pop("content", None)
    return either(chat_sse(chunks), chat_json(content, **message))


def _gemini(*parts: Json) -> Script:
    return either(Reply(headers=SSE, body=[data_frame(gemini_last(*parts))]), json_reply(gemini_last(*parts)))


def _ollama(*messages: Json) -> Script:
    end = {"model": "m", "done": True, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 3}
    lines = [{"model": "m", "message": {"role": "assistant", **message}, "done": False} for message in messages]
    joined = {key: value for message in messages for key, value in message.items() if value}
    whole = {**end, "message": {"role": "assistant", "content": "", **joined}}
    ndjson = {"content-type": "application/x-ndjson"}
    end["message"] = {"role": "assistant", "content": ""}
    return either(Reply(headers=ndjson, body=b"".join(dump(line) + b"\n" for line in [*lines, end])), json_reply(whole))


_INLINE: Json = {"inlineData": {"mimeType": "image/png", "data": PNG}}
DRAWN: dict[str, tuple[str, Script]] = {
    "images of a message": (
        "openai_compatible",
        _chat({"content": "Here."}, {"images": [IMAGE]}, content="Here.", images=[IMAGE]),
    ),
    "an image part": (
        "openai_compatible",
        _chat({"content": "Here."}, {"content": [IMAGE]}, content=[{"type": "text", "text": "Here."}, IMAGE]),
    ),
    "an image of Gemini": ("gemini", _gemini({"text": "Here."}, _INLINE)),
    "an image of Ollama": ("ollama", _ollama({"content": "Here."}, {"content": "", "images": [PNG]})),
}
ALONE: dict[str, tuple[str, Script]] = {
    "images of a message": ("openai_compatible", _chat({"images": [IMAGE]}, images=[IMAGE])),
    "an image of Gemini": ("gemini", _gemini(_INLINE)),
    "an image of Ollama": ("ollama", _ollama({"content": "", "images": [PNG]})),
}
_HOLOGRAM: Json = {"type": "hologram", "data": "x"}
UNKNOWN_BLOCK = either(
    anthropic.anthropic_sse([anthropic.opening(), *anthropic.block(0, _HOLOGRAM), *anthropic.closing()]),
    json_reply(anthropic.message(_HOLOGRAM)),
)
_FOREIGN_AUDIO: Json = {"id": "a", "data": "UklGRg==", "transcript": "Miau"}
FOREIGN: dict[str, tuple[str, Script]] = {
    "audio": ("openai_compatible", _chat({"audio": _FOREIGN_AUDIO}, audio=_FOREIGN_AUDIO)),
    "code": ("gemini", _gemini({"executableCode": {"language": "PYTHON", "code": "1"}})),
    "a code's result": ("gemini", _gemini({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}})),
    "an unknown part": ("gemini", _gemini({"hologram": {"data": "x"}})),
    "a file": ("gemini", _gemini({"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/cat"}})),
}


async def ask(api: str, upstream_type: str, script: Script, *, stream: bool) -> httpx.Response:
    path, body = REQUESTS[api]
    if api == "gemini":
        path += ":streamGenerateContent?alt=sse" if stream else ":generateContent"
    else:
        body = {**body, "model": "m", "stream": stream}
    async with ScriptedUpstream() as upstream:
        upstream.script(script)
        provider = {"type": upstream_type, "base_url": upstream.url, "api_key": "k"}
        models = {"m": {"provider": "p", "model": "gemini-2.5-flash-image"}}
        with serving({"providers": {"p": provider}, "models": models}) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                return await client.post(path, json=body)


@APIS
@FORMS
@pytest.mark.parametrize("drawn", DRAWN)
async def test_an_image_beside_text_is_shown_or_reported(drawn: str, stream: bool, api: str) -> None:
    reply = await ask(api, *DRAWN[drawn], stream=stream)
    assert reply.status_code == 200, reply.text
    assert "Here." in reply.text
    assert (PNG in reply.text) == (api in WITH_IMAGES)
    if api not in WITH_IMAGES:
        assert '"losses":["output.image_generation_call=not reported"]' in reply.text.replace('": ', '":')
        if not stream:
            assert "output.image_generation_call=not reported" in reply.headers["x-gateway-loss"]


@APIS
@FORMS
@pytest.mark.parametrize("drawn", ALONE)
async def test_an_image_alone_is_shown_or_a_failure(drawn: str, stream: bool, api: str) -> None:
    reply = await ask(api, *ALONE[drawn], stream=stream)
    if api in WITH_IMAGES:
        assert reply.status_code == 200, reply.text
        assert PNG in reply.text
    else:
        assert "no form for" in reply.text, reply.text


@APIS
@FORMS
@pytest.mark.parametrize("foreign", FOREIGN)
async def test_output_that_no_api_shows_is_a_failure_if_it_is_all(foreign: str, stream: bool, api: str) -> None:
    reply = await ask(api, *FOREIGN[foreign], stream=stream)
    assert "no form for" in reply.text, reply.text


CUSTOM_CALL: Json = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "run_sql", "input": "select 1"}}
WITH_CUSTOM_CALLS = ("translated chat", "responses")


@APIS
@FORMS
async def test_a_call_of_a_custom_tool_is_shown_or_a_failure(stream: bool, api: str) -> None:
    script = _chat({"tool_calls": [CUSTOM_CALL]}, tool_calls=[CUSTOM_CALL])
    reply = await ask(api, "openai_compatible", script, stream=stream)
    if api in WITH_CUSTOM_CALLS:
        assert reply.status_code == 200, reply.text
        assert "run_sql" in reply.text
        assert "select 1" in reply.text
    else:
        assert "no form for: custom_tool_call" in reply.text, reply.text


@APIS
@FORMS
async def test_a_call_of_a_custom_tool_beside_text_is_shown_or_reported(stream: bool, api: str) -> None:
    script = _chat({"content": "Here."}, {"tool_calls": [CUSTOM_CALL]}, content="Here.", tool_calls=[CUSTOM_CALL])
    reply = await ask(api, "openai_compatible", script, stream=stream)
    assert "Here." in reply.text
    assert ("select 1" in reply.text) == (api in WITH_CUSTOM_CALLS)
    if api not in WITH_CUSTOM_CALLS and not stream:
        assert "output.custom_tool_call=not reported" in reply.headers["x-gateway-loss"]


@pytest.mark.parametrize("api", [api for api in REQUESTS if api != "messages"])  # which is relayed
@FORMS
async def test_an_unknown_block_is_a_failure_if_it_is_all(stream: bool, api: str) -> None:
    reply = await ask(api, "anthropic", UNKNOWN_BLOCK, stream=stream)
    assert "no form for: hologram" in reply.text, reply.text
