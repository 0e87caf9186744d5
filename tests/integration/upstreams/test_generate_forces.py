"""`tool_choice: {name}` of `/generate` forces a call of that tool, in the form of every upstream."""

from typing import Any

import httpx
import pytest

from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.faults import ANSWERS, sound

Json = dict[str, Any]
TOOLS = [{"name": name, "parameters": {"type": "object", "properties": {}}} for name in ("add", "subtract")]
BODY: Json = {
    "model": "m",
    "messages": [{"role": "user", "content": "Hi"}],
    "tools": TOOLS,
    "tool_choice": {"name": "subtract"},
}


async def ask(kind: str, **model: Any) -> tuple[httpx.Response, list[Json]]:
    """The reply, and the bodies that the upstream got."""
    wire = kind if kind in ANSWERS else "chat"
    async with ScriptedUpstream() as upstream:
        upstream.script(sound(ANSWERS[wire]))
        provider = {"type": kind, "base_url": upstream.url, "api_key": "k"}
        config = {"providers": {"up": provider}, "models": {"m": {"provider": "up", **model}}}
        with serving(config) as gateway:
            async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
                reply = await client.post(f"{gateway.url}/generate", json=BODY)
        return reply, [request.json for request in upstream.requests if request.method == "POST"]


def names_of(tools: list[Json]) -> list[str]:
    return [tool["function"]["name"] for tool in tools]


async def test_an_upstream_that_forces_by_name_gets_the_name() -> None:
    reply, (body,) = await ask("vllm")
    assert reply.status_code == 200
    assert body["tool_choice"] == {"type": "function", "function": {"name": "subtract"}}
    assert names_of(body["tools"]) == ["add", "subtract"]


async def test_an_upstream_that_ignores_names_gets_that_tool_alone() -> None:
    reply, (body,) = await ask("openai_compatible")
    assert reply.status_code == 200
    assert (body["tool_choice"], names_of(body["tools"])) == ("required", ["subtract"])


async def test_anthropic_gets_the_name() -> None:
    _, (body,) = await ask("anthropic")
    assert (body["tool_choice"]["type"], body["tool_choice"]["name"]) == ("tool", "subtract")


async def test_gemini_gets_the_name() -> None:
    _, (body,) = await ask("gemini")
    expected = {"mode": "ANY", "allowedFunctionNames": ["subtract"]}
    assert body["toolConfig"]["functionCallingConfig"] == expected


async def test_ollama_cannot_force_and_nothing_is_sent() -> None:
    reply, bodies = await ask("ollama")
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "tool_choice")
    assert [body for body in bodies if "messages" in body] == []


@pytest.mark.parametrize("kind", ["vllm", "openai_compatible"])
async def test_a_choice_that_only_the_prompt_makes_is_a_loss(kind: str) -> None:
    reply, (body,) = await ask(kind, text_tool_calls="hermes")
    assert "tool_choice=not enforced" in reply.headers["x-gateway-loss"]
    assert "You must call" in body["messages"][0]["content"]
