"""Damaged bodies of Ollama's API: each is answered well or refused by name, and never brings the gateway down."""

from random import Random

import httpx
import orjson
import pytest

from tests.faults.client_view import Json
from tests.faults.config import LONG_S, config
from tests.fuzz.damage.mutations import mutated
from tests.serving import serving
from tests.unit.support.stream_checks.ollama_order import check_lines
from tests.upstream import ScriptedUpstream
from tests.upstream.faults import ANSWERS, sound

BODIES_PER_ROUTE = 60
_SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}}
_PNG = "iVBORw0KGgo="
_OPTIONS: Json = {"temperature": 0.5, "num_predict": 50, "stop": ["END"], "top_k": 4, "num_ctx": 4096, "seed": 1}
_CALL: Json = {"id": "a", "function": {"name": "weather", "arguments": {"city": "Bern"}}}

CHAT_SEEDS: list[Json] = [
    {"model": "m", "messages": [{"role": "user", "content": "Hello"}]},
    {
        "model": "m:latest",
        "stream": False,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather in Bern?", "images": [_PNG]},
            {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [_CALL, _CALL | {"id": None}]},
            {"role": "tool", "content": "sunny", "tool_name": "weather"},
            {"role": "tool", "content": "sunny", "tool_call_id": "a"},
            {"role": "user", "content": "And tomorrow?"},
        ],
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": _SCHEMA, "description": "Now."}}],
        "think": True,
        "options": _OPTIONS,
        "keep_alive": "5m",
        "truncate": False,
    },
]
GENERATE_SEEDS: list[Json] = [
    {"model": "m", "prompt": "Hello"},
    {
        "model": "m",
        "stream": False,
        "prompt": "Hello",
        "system": "Be brief.",
        "images": [_PNG],
        "format": _SCHEMA,
        "think": "low",
        "options": _OPTIONS,
        "raw": False,
        "suffix": "",
        "context": [],
        "keep_alive": 0,
    },
]
SEEDS = {"/api/chat": CHAT_SEEDS, "/api/generate": GENERATE_SEEDS}


@pytest.mark.parametrize("dialect", ["chat", "ollama"])
async def test_a_damaged_body_is_answered_or_refused(dialect: str) -> None:
    async with ScriptedUpstream() as upstream, httpx.AsyncClient(trust_env=False, timeout=60) as client:
        upstream.script(sound(ANSWERS[dialect]))
        with serving(config(upstream.url, dialect, silence_s=LONG_S, answer_s=LONG_S)) as gateway:
            for path, seeds in SEEDS.items():
                random, accepted = Random(f"{path} {dialect}"), 0
                for number in range(BODIES_PER_ROUTE):
                    body = mutated(random, random.choice(seeds), seeds)
                    reply = await client.post(gateway.url + path, content=orjson.dumps(body))
                    if reply.status_code == 200:
                        accepted += 1
                        whole = reply.json() if body.get("stream") is False else check_lines(reply.content)
                        assert whole["done"], (number, body)
                    else:
                        assert reply.status_code in (400, 404), (number, body, reply.text)
                        assert reply.json()["error"], (number, body)
                assert accepted, path
