"""Values that the gateway does not know: a relay sends them as they are, and the upstream judges them. What would have
to be translated is refused by name."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.serving import Gateway, serving
from tests.upstream import ScriptedUpstream
from tests.upstream.anthropic import anthropic_text
from tests.upstream.builders import chat_text, responses_text

Json = dict[str, Any]

USER: Json = {"role": "user", "content": "Hi"}
VIDEO: Json = {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}
AUDIO: Json = {"type": "audio_url", "audio_url": {"url": "https://example.com/a.mp3"}}


def ask_about(part: Json, role: str = "user") -> Json:
    return {"messages": [USER, {"role": role, "content": [part, {"type": "text", "text": "What is it?"}]}]}


CHAT: dict[str, tuple[Json, str]] = {
    "a video": (ask_about(VIDEO), "messages[1].content[0].type"),
    "audio by its address": (ask_about(AUDIO), "messages[1].content[0].type"),
    "a part of the assistant": (
        ask_about({"type": "thinking", "thinking": []}, "assistant"),
        "messages[1].content[0].type",
    ),
    "a role": ({"messages": [USER, {"role": "critic", "content": "No."}]}, "messages[1].role"),
    "the detail of an image": (
        ask_about({"type": "image_url", "image_url": {"url": "data:", "detail": "ultra"}}),
        "messages[1].content[0].image_url.detail",
    ),
    "modalities": ({"modalities": ["image", "text"]}, "modalities[0]"),
    "an effort": ({"reasoning_effort": "default"}, "reasoning_effort"),
    "a verbosity": ({"verbosity": "max"}, "verbosity"),
    "five stops": ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
    "no limit": ({"max_tokens": -1}, "max_tokens"),
    "many log probabilities": ({"logprobs": True, "top_logprobs": 50}, "top_logprobs"),
    "log probabilities without their switch": ({"top_logprobs": 5}, "top_logprobs"),
    "a high temperature": ({"temperature": 5}, "temperature"),
    "a share over one": ({"top_p": 1.5}, "top_p"),
    "a penalty": ({"presence_penalty": 3.5}, "presence_penalty"),
    "a bias": ({"logit_bias": {"1": 1000}}, "logit_bias.1"),
    "choices": ({"n": 129}, "n"),
    "a format of the answer": ({"response_format": {"type": "regex", "pattern": "a+"}}, "response_format.type"),
    "a tool": ({"tools": [{"type": "builtin", "name": "x"}]}, "tools[0].type"),
    "a choice of tools": (
        {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": {"type": "any", "any": {}}},
        "tool_choice.type",
    ),
    "a choice by name": (
        {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "any"},
        "tool_choice",
    ),
    "metadata": ({"metadata": {"k": "v" * 600}}, "metadata.k"),
    "options of a stream without a stream": ({"stream_options": {"include_usage": True}}, "stream_options"),
    "a prediction": ({"prediction": {"type": "draft", "content": "a"}}, "prediction.type"),
}

RESPONSES: dict[str, tuple[Json, str]] = {
    "a type of item": ({"input": [USER, {"type": "hologram", "data": "x"}]}, "input[1].type"),
    "a part": (
        {"input": [{"role": "user", "content": [{"type": "input_video", "url": "x"}]}]},
        "input[0].content[0].type",
    ),
    "a role": ({"input": [{"role": "critic", "content": "No."}]}, "input[0].role"),
    "a status": ({"input": [{**USER, "type": "message", "status": "paused"}]}, "input[0].status"),
    "an effort": ({"reasoning": {"effort": "default"}}, "reasoning.effort"),
    "a summary": ({"reasoning": {"summary": "long"}}, "reasoning.summary"),
    "a low limit": ({"max_output_tokens": -1}, "max_output_tokens"),
    "something to include": ({"include": ["reasoning.raw"]}, "include[0]"),
    "many log probabilities": ({"top_logprobs": 50}, "top_logprobs"),
    "a tier": ({"service_tier": "turbo"}, "service_tier"),
    "a truncation": ({"truncation": "middle"}, "truncation"),
    "a verbosity": ({"text": {"verbosity": "max"}}, "text.verbosity"),
    "a format of the answer": ({"text": {"format": {"type": "regex", "pattern": "a"}}}, "text.format.type"),
    "retention of the cache": ({"prompt_cache_retention": "1y"}, "prompt_cache_retention"),
    "five stops": ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
    "a high temperature": ({"temperature": 5}, "temperature"),
    "a choice of tools": (
        {"tools": [{"type": "function", "name": "f"}], "tool_choice": "any"},
        "tool_choice",
    ),
}

MESSAGES: dict[str, tuple[Json, str]] = {
    "a high temperature": ({"temperature": 1.5}, "temperature"),
    "a share over one": ({"top_p": 1.5}, "top_p"),
    "a low top_k": ({"top_k": -5}, "top_k"),
    "a small budget": (
        {"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 10}},
        "thinking.budget_tokens",
    ),
    "a budget over the limit": (
        {"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 4000}},
        "max_tokens",
    ),
    "a negative limit": ({"max_tokens": -1}, "max_tokens"),
    "a penalty": ({"presence_penalty": 3.5}, "presence_penalty"),
    "the form of a server": ({"mcp_servers": [{"type": "stdio", "name": "a", "url": "x"}]}, "mcp_servers[0].type"),
    "a format of the answer": ({"output_format": {"type": "regex", "schema": {}}}, "output_format.type"),
}

APIS: dict[str, tuple[str, Json, dict[str, tuple[Json, str]], str]] = {
    "chat": ("/v1/chat/completions", {"messages": [USER]}, CHAT, "responses"),
    "responses": ("/v1/responses", {"store": False, "input": "Hi"}, RESPONSES, "chat"),
    "messages": ("/v1/messages", {"max_tokens": 99, "messages": [USER]}, MESSAGES, "chat"),
}


@contextmanager
def serving_dialect(upstream: ScriptedUpstream, dialect: str) -> Iterator[Gateway]:
    upstream.on("/chat/completions", chat_text("Hello"))
    upstream.on("/responses", responses_text("Hello"))
    upstream.on("/messages", anthropic_text("Hello"))
    provider: Json = {"type": "openai_compatible", "base_url": upstream.url, "retries": 0, "dialects": [dialect]}
    if dialect == "messages":
        provider = {"type": "anthropic", "base_url": upstream.url, "retries": 0, "api_key": "k"}
    model: Json = {"provider": "p", "capabilities": {"stop_sequences": True}}
    with serving({"providers": {"p": provider}, "models": {"m": model}}) as gateway:
        yield gateway


@pytest.mark.parametrize("api", APIS)
async def test_a_relay_sends_values_that_are_not_known(api: str) -> None:
    path, minimal, cases, _ = APIS[api]
    async with ScriptedUpstream() as upstream:
        with serving_dialect(upstream, api) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                for name, (params, _) in cases.items():
                    for stream in (False, True):
                        body = {"model": "m", **minimal, **params, "stream": stream}
                        reply = await client.post(path, json=body)
                        assert reply.status_code == 200, (name, reply.text)
                        assert "Hello" in reply.text
                        sent = upstream.requests[-1].json
                        assert {key: sent.get(key) for key in params if key != "stream_options"} == {
                            key: value for key, value in params.items() if key != "stream_options"
                        }, name


@pytest.mark.parametrize("api", APIS)
async def test_what_would_be_translated_is_refused_by_name(api: str) -> None:
    path, minimal, cases, other = APIS[api]
    async with ScriptedUpstream() as upstream:
        with serving_dialect(upstream, other) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                for name, (params, param) in cases.items():
                    reply = await client.post(path, json={"model": "m", **minimal, **params})
                    assert reply.status_code == 400, (name, reply.text)
                    assert param in reply.text, (name, reply.text)
        assert upstream.requests == []


MALFORMED: dict[str, tuple[str, Json]] = {
    "a text for a list": ("chat", {"messages": "Hi"}),
    "a number for a text": ("chat", {"messages": [{"role": "user", "content": 5}]}),
    "no role": ("chat", {"messages": [{"content": "Hi"}]}),
    "a part without a type": ("chat", {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}),
    "a tool without its function": ("chat", {"tools": [{"type": "function"}]}),
    "a text for a number": ("responses", {"max_output_tokens": "many"}),
    "an item that is none": ("responses", {"input": [5]}),
    "no messages": ("messages", {"messages": []}),
    "no limit": ("messages", {"max_tokens": None}),
}


@pytest.mark.parametrize(("api", "params"), MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_body_is_refused_on_a_relay_too(api: str, params: Json) -> None:
    path, minimal, _, _ = APIS[api]
    async with ScriptedUpstream() as upstream:
        with serving_dialect(upstream, api) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                reply = await client.post(path, json={"model": "m", **minimal, **params})
        assert reply.status_code == 400, reply.text
        assert upstream.requests == []
