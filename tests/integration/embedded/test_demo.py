"""The demo as its users meet it: through the gateway without a configuration."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.config.discovery import discover_config
from providers.demo.provider import BEYOND_DEMO
from tests.serving import Command, command

pytestmark = pytest.mark.timeout(120)  # a server with an engine is started and ended

AGENT: dict[str, Any] = {
    "model": "demo",
    "instructions": "You are a coding agent. " * 2500,
    "input": "Fix the bug.",
    "max_output_tokens": 32_000,
    "tools": [{"type": "function", "name": "shell", "parameters": {"type": "object"}, "description": "x" * 2000}],
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    folder: Path = tmp_path_factory.mktemp("demo")
    config = asyncio.run(discover_config({}, ()))
    with command(
        {**config, "store": {"url": f"sqlite+aiosqlite:///{folder / 'store.db'}"}}, folder, forked=True
    ) as gateway:
        yield gateway


@pytest.fixture
def client(gateway: Command) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.v1, trust_env=False, timeout=60) as client:
        yield client


def post(client: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    parsed: dict[str, Any] = client.post(path, json=body).raise_for_status().json()
    return parsed


def answer_of(response: dict[str, Any]) -> str:
    return str(response["output"][-1]["content"][0]["text"])


def test_an_agent_gets_the_sentence(client: httpx.Client) -> None:
    response = post(client, "/responses", **AGENT)
    assert (response["status"], answer_of(response)) == ("completed", f"{BEYOND_DEMO} You wrote: {AGENT['input']}")
    messages = [{"role": "system", "content": AGENT["instructions"]}, {"role": "user", "content": "Fix the bug."}]
    completion = post(client, "/chat/completions", model="demo", messages=messages, max_tokens=32_000)
    assert completion["choices"][0]["message"]["content"] == f"{BEYOND_DEMO} You wrote: Fix the bug."


def test_a_compacted_conversation_continues(client: httpx.Client) -> None:
    named = post(client, "/responses", model="demo", input="My name is Ada.")
    why = post(client, "/responses", model="demo", input="Why?", previous_response_id=named["id"])
    compacted = post(client, "/responses/compact", model="demo", previous_response_id=why["id"])
    assert compacted["output"][-1]["type"] == "compaction"
    question = {"role": "user", "content": "What is 3 + 4?"}
    assert answer_of(post(client, "/responses", model="demo", input=[*compacted["output"], question])) == (
        "The answer is 7."
    )


def test_a_whole_reply_continues_a_begun_answer_without_repeating_it(client: httpx.Client, gateway: Command) -> None:
    question, begun = "Say hello.", "Hello! How"
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": begun}]
    contents = [{"role": "user", "parts": [{"text": question}]}, {"role": "model", "parts": [{"text": begun}]}]
    message = post(client, "/messages", model="demo", max_tokens=60, thinking={"type": "disabled"}, messages=messages)
    root = gateway.v1.removesuffix("/v1")
    generated = post(
        client,
        f"{root}/v1beta/models/demo:generateContent",
        contents=contents,
        generationConfig={"thinkingConfig": {"thinkingBudget": 0}},
    )
    ollama = post(client, f"{root}/api/chat", model="demo", messages=messages, think=False, stream=False)
    completion = post(client, "/chat/completions", model="demo", messages=messages, reasoning_effort="none")
    response = post(client, "/responses", model="demo", input=messages, reasoning={"effort": "none"})
    texts = {
        "messages": message["content"][0]["text"],
        "gemini": generated["candidates"][0]["content"]["parts"][0]["text"],
        "ollama": ollama["message"]["content"],
        "chat": completion["choices"][0]["message"]["content"],
        "responses": answer_of(response),
    }
    assert texts == dict.fromkeys(texts, " can I help you today?")
    assert completion["usage"]["completion_tokens"] == message["usage"]["output_tokens"] > 0
