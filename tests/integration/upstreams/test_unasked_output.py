"""Output that nobody asked for, and media under unknown keys, are reported and not dropped silently."""

from typing import Any

import httpx
import pytest

from tests.conformance.test_visible_output import APIS, FORMS, Json, ask
from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import (
    chat_chunk,
    chat_json,
    chat_sse,
    chat_text,
    either,
    json_reply,
    message_item,
    response_snapshot,
)
from tests.upstream.script import Script
from translation.decoding.unshown_output import find_unknown_media
from translation.representation.events import Opaque

TEXT = {"content": "Here."}
SECOND: Json = {"index": 1, "message": {"role": "assistant", "content": "Other."}, "finish_reason": "stop"}


def with_media(key: str, value: Any) -> Script:
    chunks = [chat_chunk(TEXT), chat_chunk({key: value}), chat_chunk({}, "stop")]
    return either(chat_sse(chunks), chat_json("Here.", **{key: value}))


MEDIA: Json = {
    "video": {"url": "https://example.com/a.mp4"},
    "picture": [{"b64_json": "AAAA"}],
    "sound": "data:audio/wav;base64,AAAA",
}


@FORMS
@APIS
@pytest.mark.parametrize("key", MEDIA)
async def test_media_under_an_unknown_key_are_a_loss(api: str, stream: bool, key: str) -> None:
    reply = await ask(api, "openai_compatible", with_media(key, MEDIA[key]), stream=stream)
    assert reply.status_code == 200, reply.text
    assert "Here." in reply.text
    assert f"output.{key}" in reply.text + str(reply.headers)


@FORMS
@APIS
async def test_a_choice_that_nobody_asked_for_is_a_loss(api: str, stream: bool) -> None:
    second = {**chat_chunk({"content": "Other."}), "choices": [{"index": 1, "delta": {"content": "Other."}}]}
    whole = {
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", **TEXT}, "finish_reason": "stop"}, SECOND],
    }
    script = either(chat_sse([chat_chunk(TEXT), second, second, chat_chunk({}, "stop")]), json_reply(whole))
    reply = await ask(api, "openai_compatible", script, stream=stream)
    assert reply.status_code == 200, reply.text
    assert "Here." in reply.text
    assert "output.choice" in reply.text + str(reply.headers)


@FORMS
async def test_choices_that_the_upstream_left_out_are_told(stream: bool) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("Here."))
        provider = {"type": "openai_compatible", "base_url": upstream.url, "retries": 0}
        config = {"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}
        body = {"model": "m", "n": 2, "stream": stream, "messages": [{"role": "user", "content": "Hi"}]}
        with serving(config) as gateway:
            async with httpx.AsyncClient(timeout=60) as client:
                reply = await client.post(f"{gateway.v1}/chat/completions", json=body)
    assert reply.status_code == 200, reply.text
    assert "Here." in reply.text
    if stream:
        assert "upstream_truncated" in reply.text
    else:
        assert reply.headers["x-gateway-loss"] == "n=not reported"


LOGPROBS_REQUESTS: list[tuple[str, str, Json, str]] = [
    ("chat/completions", "openai_compatible", {"logprobs": True}, "logprobs=not reported"),
    ("responses", "openai_compatible", {"include": ["message.output_text.logprobs"]}, "include=not reported"),
    ("responses", "openai", {"include": ["message.output_text.logprobs"]}, "include=not reported"),
]


@pytest.mark.parametrize(("path", "provider", "params", "loss"), LOGPROBS_REQUESTS)
async def test_log_probabilities_that_the_upstream_left_out_are_told(
    path: str, provider: str, params: Json, loss: str
) -> None:
    """Both where the reply is relayed and where it is translated."""
    async with ScriptedUpstream() as upstream:
        whole = response_snapshot("completed", [message_item("Here.")])
        upstream.script(json_reply(whole) if (path, provider) == ("responses", "openai") else chat_text("Here."))
        served = {"type": provider, "base_url": upstream.url, "retries": 0, "api_key": "k"}
        config = {"providers": {"p": served}, "models": {"m": {"provider": "p"}}}
        content = {"messages": [{"role": "user", "content": "Hi"}]} if path != "responses" else {"input": "Hi"}
        with serving(config) as gateway:
            async with httpx.AsyncClient(timeout=60) as client:
                reply = await client.post(f"{gateway.v1}/{path}", json={"model": "m", **content, **params})
    assert reply.status_code == 200, reply.text
    assert "Here." in reply.text
    assert loss in reply.headers["x-gateway-loss"]


@pytest.mark.parametrize(
    "message",
    [
        {"content": [{"type": "image_url", "image_url": {"url": "data:,"}}], "reasoning_details": [{"data": "sealed"}]},
        {"annotations": [{"url": "https://example.com"}], "citations": ["https://example.com"], "padding": "abc"},
        {"audio": {"data": "AAAA"}, "video": None, "files": []},
    ],
)
def test_facts_about_a_message_are_no_media(message: Json) -> None:
    assert find_unknown_media(message, frozenset({"audio"}), "chat") == []


def test_media_are_found_by_their_key_or_their_form() -> None:
    message = {"video": "AAAA", "clip": {"file_data": "AAAA"}, "role": "assistant"}
    assert find_unknown_media(message, frozenset(), "ollama") == [
        Opaque("ollama", {"type": "video"}, is_output=True),
        Opaque("ollama", {"type": "clip"}, is_output=True),
    ]
