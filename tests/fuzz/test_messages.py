"""Damaged bodies of the Messages API: each is answered well or refused, and never brings the gateway down."""

from random import Random

import orjson
import pytest

from tests.faults.client_view import MESSAGES, Json, client, read
from tests.faults.config import LONG_S, config
from tests.faults.routes import MESSAGES_ROUTES
from tests.fuzz.damage.mutations import mutated
from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.faults import ANSWERS, sound

BODIES_PER_ROUTE = 60
_SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}}
_PNG: Json = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}

SEEDS: list[Json] = [
    {"model": "m", "max_tokens": 5000, "messages": [{"role": "user", "content": "Hello"}], "stream": True},
    {
        "model": "m",
        "max_tokens": 5000,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Weather in Bern?"},
                    {"type": "image", "source": _PNG},
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "a"},
                        "title": "A",
                    },
                    {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "c"}]},
                ],
            },
            {"role": "system", "content": "Metric units.", "clear_at": "next_user_message"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {"type": "redacted_thinking", "data": "d"},
                    {
                        "type": "server_tool_use",
                        "id": "srvtoolu_1",
                        "name": "web_search",
                        "input": {"query": "q", "queries": ["q", "r"], "type": "search", "url": "u"},
                    },
                    {
                        "type": "web_search_tool_result",
                        "tool_use_id": "srvtoolu_1",
                        "content": [
                            {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": ""},
                            {"type": "web_search_result", "url": "v", "title": "t", "encrypted_content": "e"},
                        ],
                    },
                    {"type": "text", "text": "I look.", "citations": [{"url": "u", "encrypted_index": ""}]},
                    {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Bern"}},
                    {"type": "redacted_thinking", "data": "call.s"},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [{"type": "text", "text": "sunny"}],
                        "is_error": True,
                    },
                    {"type": "text", "text": "And tomorrow?"},
                ],
            },
        ],
        "tools": [
            {"name": "weather", "input_schema": _SCHEMA, "strict": True, "description": "Now.", "defer_loading": False},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 1, "allowed_domains": ["a.com"]},
        ],
        "tool_choice": {"type": "tool", "name": "weather", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 2000, "display": "omitted"},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": _SCHEMA}},
        "metadata": {"user_id": "u"},
        "stop_sequences": ["END"],
        "service_tier": "auto",
        "temperature": 0.5,
        "top_k": 5,
        "context_management": {"edits": []},
        "anthropic_beta": ["a"],
        "thread": None,
    },
]


@pytest.mark.parametrize(("path", "dialect"), MESSAGES_ROUTES.values(), ids=MESSAGES_ROUTES)
async def test_a_damaged_body_is_answered_or_refused(path: str, dialect: str) -> None:
    random = Random(f"{path} {dialect}")
    accepted = 0
    async with ScriptedUpstream() as upstream, client() as asking:
        upstream.script(sound(ANSWERS[dialect]))
        with serving(config(upstream.url, dialect, silence_s=LONG_S, answer_s=LONG_S)) as gateway:
            for number in range(BODIES_PER_ROUTE):
                body = mutated(random, random.choice(SEEDS), SEEDS)
                reply = await asking.post(gateway.v1 + MESSAGES, content=orjson.dumps(body))
                if reply.status_code == 200:
                    accepted += 1
                    seen = read(path, reply, stream=body.get("stream") is True)
                    assert seen.ending == "completed", (number, body)
                else:
                    assert reply.status_code in (400, 404), (number, body, reply.text)
                    assert reply.json()["error"]["message"], (number, body)
    assert accepted
