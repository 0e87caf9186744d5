"""Templates that accept a system message only at the beginning: clients of every API send others, and are served."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.serving import Gateway, serving
from tests.upstream import ScriptedUpstream
from tests.upstream.anthropic import anthropic_text
from tests.upstream.builders import chat_text, error_reply, responses_text
from tests.upstream.ollama import ollama_shown, ollama_text
from tests.upstream.script import Exchange, Script

Json = dict[str, Any]

REFUSAL = "System message must be at the beginning."
LATE = "Answer in French."
_USER: Json = {"role": "user", "content": "Hi"}
_SYSTEM: Json = {"role": "system", "content": LATE}

CLIENTS: dict[str, tuple[str, Json]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "system", "content": "Be short."}, _USER, _SYSTEM]}),
    "responses": (
        "/v1/responses",
        {"store": False, "instructions": "Be short.", "input": [{**_SYSTEM, "role": "developer"}, _USER, _SYSTEM]},
    ),
    # As Claude Code sends it, for whatever model.
    "messages": ("/v1/messages", {"max_tokens": 99, "system": "Be short.", "messages": [_USER, _SYSTEM]}),
    "ollama": ("/api/chat", {"messages": [{"role": "system", "content": "Be short."}, _USER, _SYSTEM]}),
}
STRICT_MODELS = [
    "Qwen/Qwen3.5-27B",
    "Qwen3.6-35B-A3B",
    "qwen3.8:27b",
    "mistralai/Ministral-3-8B-Reasoning-2512",
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
    "mistralai/Magistral-Small-2506",
    "google/gemma-3-27b-it",
    "openai/gpt-oss-20b",
]


def strict_template(answer: Script, *, status: int = 400) -> Script:
    """Answers only if no system message comes after another message, as the templates of these models do."""

    async def play(exchange: Exchange) -> None:
        body = exchange.request.json
        messages = body.get("messages") or body["input"]
        if body.get("instructions"):
            messages = [{"role": "system"}, *messages]
        late = any(message["role"] in ("system", "developer") for message in messages[1:])
        await (error_reply(status, REFUSAL) if late else answer)(exchange)

    return play


@contextmanager
def serving_model(upstream: ScriptedUpstream, model: str, kind: str, **provider: Any) -> Iterator[Gateway]:
    upstream.on("/chat/completions", strict_template(chat_text("Salut")))
    upstream.on("/responses", strict_template(responses_text("Salut")))
    upstream.on("/messages", strict_template(anthropic_text("Salut")))
    upstream.on("/api/chat", strict_template(ollama_text("Salut"), status=500))
    upstream.on("/api/show", ollama_shown("completion", "tools"))
    url = upstream.url.removesuffix("/v1") if kind == "ollama" else upstream.url
    providers = {"p": {"type": kind, "base_url": url, "retries": 0, **provider}}
    with serving({"providers": providers, "models": {"m": {"provider": "p", "model": model}}}) as gateway:
        yield gateway


KINDS: dict[str, tuple[str, Json]] = {
    "vllm": ("vllm", {}),
    "vllm with its Responses API": ("vllm", {"dialects": ["chat", "responses"]}),
    "vllm with its Messages API": ("vllm", {"dialects": ["chat", "messages"]}),
    "a Responses server": ("openai_compatible", {"dialects": ["responses"]}),
    "llama-server": ("llama_server", {}),
    "ollama": ("ollama", {}),
    "openrouter": ("openrouter", {"api_key": "k"}),
}


@pytest.mark.parametrize(("kind", "provider"), KINDS.values(), ids=KINDS)
async def test_a_late_system_message_is_merged(kind: str, provider: Json) -> None:
    async with ScriptedUpstream() as upstream:
        with serving_model(upstream, STRICT_MODELS[0], kind, **provider) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                for client_name, (path, body) in CLIENTS.items():
                    for stream in (True, False):
                        reply = await client.post(path, json={**body, "model": "m", "stream": stream})
                        assert reply.status_code == 200, (client_name, reply.text)
                        assert "Salut" in reply.text
                        sent = upstream.requests[-1].content.decode()
                        assert sent.count(LATE) == str(body).count(LATE)
                        assert "system messages merged" in reply.headers.get("x-gateway-loss", "")


@pytest.mark.parametrize("model", STRICT_MODELS)
async def test_the_name_of_a_model_says_that_its_template_is_strict(model: str) -> None:
    async with ScriptedUpstream() as upstream:
        with serving_model(upstream, model, "vllm") as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                path, body = CLIENTS["messages"]
                reply = await client.post(path, json={**body, "model": "m"})
    assert reply.status_code == 200, reply.text


@pytest.mark.parametrize("kind", ["vllm", "ollama"])
async def test_a_refusal_is_said_in_the_words_by_which_clients_repeat_the_request(kind: str) -> None:
    """Claude Code looks for "not supported" near "role 'system'" in an error of status 400."""
    async with ScriptedUpstream() as upstream:
        with serving_model(upstream, "another-model", kind) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                for path, body in CLIENTS.values():
                    reply = await client.post(path, json={**body, "model": "m"})
                    assert reply.status_code == 400, reply.text
                    assert "role 'system' is not supported on this model" in reply.text
                    assert "System message must be at the beginning" in reply.text


async def test_other_models_get_the_messages_in_their_order() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("Salut"))
        provider = {"type": "vllm", "base_url": upstream.url}
        with serving({"providers": {"p": provider}, "models": {"Qwen/Qwen3-8B": {"provider": "p"}}}) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                path, body = CLIENTS["messages"]
                await client.post(path, json={**body, "model": "Qwen/Qwen3-8B"})
    assert [message["role"] for message in upstream.requests[-1].json["messages"]] == ["system", "user", "system"]
