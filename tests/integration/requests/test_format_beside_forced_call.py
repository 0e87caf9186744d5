"""An upstream that gives the whole reply the format makes no call, so that a required call is requested without it."""

from typing import Any

import httpx
import pytest

from tests.serving import serving
from tests.upstream import ScriptedUpstream, chat_calls

Json = dict[str, Any]
SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PARAMETERS: Json = {"type": "object", "properties": {"a": {"type": "integer"}}}
FORMAT: Json = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
MESSAGES: list[Json] = [{"role": "user", "content": "Add."}]
FUNCTION: Json = {"name": "add", "parameters": PARAMETERS}
CHAT: Json = {
    "messages": MESSAGES,
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": "required",
    "response_format": FORMAT,
}
NAMED_FUNCTION: Json = {"type": "function", "function": {"name": "add"}}
RESPONSES: Json = {
    "input": "Add.",
    "tools": [{"type": "function", **FUNCTION}],
    "tool_choice": "required",
    "text": {"format": {"type": "json_schema", "name": "place", "schema": SCHEMA}},
}

CASES: dict[str, tuple[str, Json, str]] = {
    # path, body, the loss
    "chat": ("/v1/chat/completions", CHAT, "response_format=dropped"),
    "chat, translated": ("/v1/chat/completions", {**CHAT, "extensions": True}, "response_format=dropped"),
    "chat, a named function": (
        "/v1/chat/completions",
        {**CHAT, "tool_choice": NAMED_FUNCTION},
        "response_format=dropped",
    ),
    "chat, allowed tools": (
        "/v1/chat/completions",
        {
            **CHAT,
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED_FUNCTION]}},
        },
        "response_format=dropped",
    ),
    "chat, any JSON": (
        "/v1/chat/completions",
        {**CHAT, "response_format": {"type": "json_object"}},
        "response_format=dropped",
    ),
    "chat, llama.cpp's own parameter": (
        "/v1/chat/completions",
        {**CHAT, "response_format": None, "json_schema": SCHEMA},
        "json_schema=dropped",
    ),
    "chat, llama.cpp's own parameter, translated": (
        "/v1/chat/completions",
        {**CHAT, "response_format": None, "json_schema": SCHEMA, "extensions": True},
        "json_schema=dropped",
    ),
    "Responses": ("/v1/responses", RESPONSES, "text.format=dropped"),
    "Responses, a named function": (
        "/v1/responses",
        {**RESPONSES, "tool_choice": {"type": "function", "name": "add"}},
        "text.format=dropped",
    ),
    "Messages": (
        "/v1/messages",
        {
            "max_tokens": 100,
            "messages": MESSAGES,
            "tools": [{"name": "add", "input_schema": PARAMETERS}],
            "tool_choice": {"type": "any"},
            "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        },
        "output_config.format=dropped",
    ),
    "Gemini": (
        "/v1beta/models/m:generateContent",
        {
            "contents": [{"role": "user", "parts": [{"text": "Add."}]}],
            "tools": [{"functionDeclarations": [{"name": "add", "parametersJsonSchema": PARAMETERS}]}],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
            "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
        },
        "generationConfig.responseJsonSchema=dropped",
    ),
}


class Asked:
    """Asks a gateway before one scripted upstream of a type, and returns the reply and the body that was sent."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def ask(self, path: str, body: Json) -> tuple[httpx.Response, Json]:
        async with ScriptedUpstream() as upstream:
            upstream.script(chat_calls(("add", '{"a":1}')))
            provider = {"type": self._kind, "base_url": upstream.url}
            models = {"m": {"provider": "p", "capabilities": {"json_schema": True}}}
            with serving({"providers": {"p": provider}, "models": models}) as gateway:
                async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
                    reply = await client.post(gateway.url + path, json={"model": "m", **body})
            return reply, next(each.json for each in upstream.requests if each.method == "POST")


@pytest.fixture
def llama() -> Asked:
    return Asked("llama_server")


@pytest.mark.parametrize(("path", "body", "loss"), CASES.values(), ids=CASES)
async def test_a_required_call_is_requested_without_the_format(path: str, body: Json, loss: str, llama: Asked) -> None:
    reply, sent = await llama.ask(path, body)
    assert reply.status_code == 200, reply.text
    assert loss in reply.headers["x-gateway-loss"].split(", ")
    assert {"response_format", "json_schema"}.isdisjoint(sent)
    assert sent["tool_choice"] == "required"


@pytest.mark.parametrize("choice", ["auto", "none"])
async def test_a_format_beside_tools_that_may_be_called_is_sent(choice: str, llama: Asked) -> None:
    reply, sent = await llama.ask("/v1/chat/completions", {**CHAT, "tool_choice": choice})
    assert (reply.status_code, sent["response_format"]["type"]) == (200, "json_schema")


async def test_a_format_that_asks_for_nothing_is_no_loss(llama: Asked) -> None:
    reply, _ = await llama.ask("/v1/chat/completions", {**CHAT, "response_format": {"type": "text"}})
    assert (reply.status_code, "x-gateway-loss" in reply.headers) == (200, False)


async def test_an_upstream_that_can_do_both_gets_both() -> None:
    reply, sent = await Asked("vllm").ask("/v1/chat/completions", CHAT)
    assert (reply.status_code, sent["response_format"]["type"], sent["tool_choice"]) == (200, "json_schema", "required")
