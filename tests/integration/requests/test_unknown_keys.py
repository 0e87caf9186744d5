"""Keys of a request that its API does not have are losses, on every API, unless their value says nothing.

`false` turns something off and `{}` turns something on, so they say something; null, and empty texts and lists, do not.
"""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.integration.over_chat import gateway_over_chat
from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_text, responses_text

Json = dict[str, Any]
FUNCTION: Json = {"name": "add", "parameters": {"type": "object", "properties": {}}}


def chat(novel: Json) -> Json:
    return {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", **novel}], **novel}],
        "tools": [{"type": "function", "function": FUNCTION | novel}],
    }


def responses(novel: Json) -> Json:
    content = [{"type": "input_text", "text": "Hi", **novel}]
    return {
        "input": [{"type": "message", "role": "user", "content": content, **novel}],
        "reasoning": {"effort": "low", **novel},
        "store": False,
    }


def messages(novel: Json) -> Json:
    return {
        "max_tokens": 100,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", **novel}]}],
        "tools": [{"name": "add", "input_schema": {"type": "object"}, **novel}],
    }


def gemini(novel: Json) -> Json:
    return {
        "contents": [{"role": "user", "parts": [{"text": "Hi", **novel}], **novel}],
        "generationConfig": {"temperature": 1, **novel},
    }


def ollama(novel: Json) -> Json:
    return {
        "stream": False,
        "messages": [{"role": "user", "content": "Hi", **novel}],
        "tools": [{"type": "function", "function": FUNCTION | novel}],
    }


def agui(novel: Json) -> Json:
    user = {"id": "u1", "role": "user", "content": [{"type": "text", "text": "Hi", **novel}], **novel}
    return {"threadId": "t", "runId": "r", "messages": [user], "forwardedProps": {"model": "m"}}


def generate(novel: Json) -> Json:
    return {"messages": [{"role": "user", "content": "Hi", **novel}]}


APIS: dict[str, tuple[str, Callable[[Json], Json], tuple[str, ...]]] = {
    "Responses": (
        "/v1/responses",
        responses,
        ("input.novel", "input.content.novel", "reasoning.novel"),
    ),
    "Messages": ("/v1/messages", messages, ("messages.content.novel", "tools.novel")),
    "Gemini": (
        "/v1beta/models/m:generateContent",
        gemini,
        ("contents[0].novel", "contents[0].parts[0].novel", "generationConfig.novel"),
    ),
    "Ollama": ("/api/chat", ollama, ("messages[0].novel", "tools[0].function.novel")),
    "AG-UI": ("/v1/agui", agui, ("messages.content.novel", "messages.novel")),
    "generate": ("/generate", generate, ("messages.novel",)),
}
"""API -> its path, a body with the key in several places, and the paths of these places."""

SAY_SOMETHING: dict[str, Any] = {"false": False, "{}": {}, "zero": 0, "a number": 1.5, "true": True, "a text": "x"}
SAY_NOTHING: dict[str, Any] = {"null": None, "an empty text": "", "an empty list": []}


async def check_values(base: str, path: str, build: Callable[[Json], Json], places: tuple[str, ...]) -> None:
    """Sends each value in each place, and compares the losses; with `x-gateway-strict` any loss is an error."""
    async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=60) as client:
        for name, value in (SAY_SOMETHING | SAY_NOTHING).items():
            body = {"model": "m", **build({"novel": value})}
            reply = await client.post(path, json=body)
            assert reply.status_code == 200, (name, reply.text)
            losses = {loss.strip().partition("=")[0] for loss in reply.headers.get("x-gateway-loss", "").split(",")}
            reported = {loss for loss in losses if loss.endswith("novel")}
            assert reported == (set(places) if name in SAY_SOMETHING else set()), name
            strict = await client.post(path, json=body, headers={"x-gateway-strict": "true"})
            assert (strict.status_code == 400) is bool(losses - {""}), name


@pytest.mark.parametrize(("path", "build", "places"), APIS.values(), ids=APIS)
async def test_values_of_unknown_keys(path: str, build: Callable[[Json], Json], places: tuple[str, ...]) -> None:
    async with gateway_over_chat(chat_text("Hello")) as (gateway, _):
        await check_values(gateway.url, path, build, places)


async def test_values_of_unknown_keys_in_translated_chat() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(responses_text("Hello"))
        provider = {"type": "openai_compatible", "base_url": upstream.url, "dialects": ["responses"]}
        with serving({"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}) as gateway:
            places = ("messages.novel", "messages.content.novel", "tools.function.novel")
            await check_values(gateway.url, "/v1/chat/completions", chat, places)
