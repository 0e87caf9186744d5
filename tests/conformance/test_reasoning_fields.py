"""A reasoning field that is configured in one place is reasoning for every API, in replies and in the history."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import CHAT_USAGE, chat_chunk, chat_json, chat_sse, chat_text, either
from translation.chat.reasoning import REASONING_TEXT_FIELDS

Json = dict[str, Any]

PIECES = ("The sum", " is", " wanted.\n", "So", " add.")
THOUGHT = "".join(PIECES)
FIELDS = pytest.mark.parametrize("field", ["thought", "reasoning_text", *REASONING_TEXT_FIELDS])
FORMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
CHAT: Json = {"messages": [{"role": "user", "content": "Add."}]}
CONTENTS = [{"role": "user", "parts": [{"text": "Add."}]}]

REQUESTS: dict[str, tuple[str, Json]] = {
    "chat": ("/v1/chat/completions", CHAT),
    "translated chat": ("/v1/chat/completions", {**CHAT, "extensions": True}),
    "responses": ("/v1/responses", {"input": "Add.", "store": False}),
    "messages": ("/v1/messages", {**CHAT, "max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2000}}),
    "gemini": (
        "/v1beta/models/m",
        {"contents": CONTENTS, "generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
    ),
    "ollama": ("/api/chat", {**CHAT, "think": True}),
    "generate": ("/generate", CHAT),
    "agui": (
        "/v1/agui",
        {
            "threadId": "t",
            "runId": "r",
            "state": {},
            "context": [],
            "tools": [],
            "forwardedProps": {"model": "m"},
            "messages": [{"id": "1", "role": "user", "content": "Add."}],
        },
    ),
}
APIS = pytest.mark.parametrize("api", REQUESTS)


@asynccontextmanager
async def client_before(field: str, **server: Any) -> AsyncIterator[tuple[httpx.AsyncClient, ScriptedUpstream]]:
    """Yields a client of a gateway, whose upstream sends its reasoning in `field`."""
    chunks = [*(chat_chunk({field: piece}) for piece in PIECES), chat_chunk({"content": "3"}), chat_chunk({}, "stop")]
    streamed = chat_sse([*chunks, chat_chunk(usage=CHAT_USAGE)])
    thought: Json = {field: THOUGHT}
    models = {"m": {"provider": "p"} | ({} if field in REASONING_TEXT_FIELDS else {"reasoning_fields": [field]})}
    async with ScriptedUpstream() as upstream:
        upstream.script(either(streamed, chat_json("3", **thought)), chat_text("Three."))
        provider = {"type": "openai_compatible", "base_url": upstream.url}
        with serving({"providers": {"p": provider}, "models": models, "server": server}) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                yield client, upstream


def thought_of(value: Any) -> str:
    """Returns the reasoning in a reply of any API: what stands under the names that they have for it."""
    if isinstance(value, list):
        return "".join(map(thought_of, value))
    if not isinstance(value, dict):
        return ""
    match value:
        case {"type": "response.reasoning_text.delta" | "REASONING_MESSAGE_CONTENT", "delta": str(text)}:
            return text
        case {"type": str(kind)} if kind.startswith("response."):
            return ""
        case {"type": "reasoning_text", "text": str(text)} | {"thought": True, "text": str(text)}:
            return text
        case {"reasoning_content": str(text)} | {"thinking": str(text)}:
            return text
    return "".join(thought_of(part) for key, part in value.items() if key != "extensions")


def parse_reply(body: str) -> list[Any]:
    """Returns the JSON objects of a reply: one, those of server-sent events, or those of lines."""
    lines = [line.removeprefix("data: ") for line in body.splitlines() if not line.startswith(("event: ", ":"))]
    if body.startswith(("{", "[")) and len(lines) == 1:
        return [json.loads(body)]
    return [json.loads(line) for line in lines if line and line != "[DONE]"]


@FIELDS
@FORMS
@APIS
async def test_a_configured_field_is_reasoning_in_replies_of_every_api(api: str, stream: bool, field: str) -> None:
    path, body = REQUESTS[api]
    if api == "gemini":
        path += ":streamGenerateContent?alt=sse" if stream else ":generateContent"
    elif api != "agui":  # which has streams only, and no field for the model
        body = {**body, "model": "m", "stream": stream}
    async with client_before(field) as (client, _):
        reply = await client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    objects = parse_reply(reply.text)
    if api == "generate" and stream:
        assert thought_of(objects.pop()).strip() == THOUGHT.strip()  # the last event has the whole reply once more
    assert thought_of(objects).strip() == THOUGHT.strip()
    if field not in REASONING_TEXT_FIELDS:
        assert f'"{field}":"' not in reply.text.replace('": "', '":"')


@FIELDS
@FORMS
@pytest.mark.parametrize("shown", [[], ["reasoning"]])
async def test_a_relay_sends_a_configured_field_under_the_names_of_its_clients_only(
    shown: list[str], stream: bool, field: str
) -> None:
    async with client_before(field, reasoning_fields=shown) as (client, _):
        reply = await client.post("/v1/chat/completions", json={**CHAT, "model": "m", "stream": stream})
    assert [name for name in {field: 1, "reasoning_content": 1, "reasoning": 1} if f'"{name}":"' in reply.text] == shown


@FIELDS
@pytest.mark.parametrize("sent_in", ["reasoning_content", "its own"])
@pytest.mark.parametrize("api", ["chat", "translated chat", "responses"])
async def test_past_reasoning_goes_back_in_the_configured_field(api: str, sent_in: str, field: str) -> None:
    path, body = REQUESTS[api]
    past = {
        "role": "assistant",
        "content": "3",
        (field if api == "chat" and sent_in == "its own" else "reasoning"): THOUGHT,
    }
    if api == "responses":
        item = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": THOUGHT}]}
        turn = {"input": [*CHAT["messages"], item, {"role": "assistant", "content": "3"}, *CHAT["messages"]]}
    else:
        turn = {"messages": [*CHAT["messages"], past, *CHAT["messages"]]}
    async with client_before(field) as (client, upstream):
        reply = await client.post(path, json={**body, **turn, "model": "m"})
    assert reply.status_code == 200, reply.text
    message = upstream.requests[-1].json["messages"][1]
    sent = "reasoning_content" if field in REASONING_TEXT_FIELDS else field
    assert message == {"role": "assistant", "content": "3", sent: THOUGHT}


async def test_an_unknown_field_of_a_delta_reaches_chat_clients_as_it_came() -> None:
    chunks = [chat_chunk({"musing": "Hm."}), chat_chunk({"content": "3"}), chat_chunk({}, "stop")]
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_sse([*chunks, chat_chunk(usage=CHAT_USAGE)]))
        provider = {"type": "openai_compatible", "base_url": upstream.url}
        with serving({"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                reply = await client.post("/v1/chat/completions", json={**CHAT, "model": "m", "stream": True})
    assert '"musing":"Hm."' in reply.text
