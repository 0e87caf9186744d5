"""An upstream's refusal names the parameter in the words of its client, in whole replies and in streams."""

from typing import Any

import httpx

from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import json_reply, responses_sse, text_events

Json = dict[str, Any]

MESSAGES: Json = {"messages": [{"role": "user", "content": "Hi"}]}
TOOL: Json = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
RESPONSES: Json = {
    "input": "Hi",
    "max_output_tokens": 50,
    "text": {"format": {"type": "json_object"}},
    "tools": [TOOL],
    "store": False,
}
GENERATE: Json = {**MESSAGES, "max_response_tokens": 5}
CASES: list[tuple[str, Json, str, str | None]] = [
    ("/v1/responses", RESPONSES, "max_tokens", "max_output_tokens"),
    ("/v1/responses", RESPONSES, "response_format", "text.format"),
    ("/v1/responses", RESPONSES, "messages[0].content", "input"),
    ("/v1/responses", RESPONSES, "tools[0].function.parameters", "tools"),
    ("/v1/responses", RESPONSES, "stream_options", None),
    ("/v1/chat/completions", {**MESSAGES, "max_completion_tokens": 5}, "max_tokens", "max_completion_tokens"),
    ("/v1/chat/completions", {**MESSAGES, "extensions": True}, "messages[0].content", "messages"),
    ("/generate", GENERATE, "max_tokens", "max_response_tokens"),
]


async def test_refusals_of_a_chat_upstream_have_the_clients_names() -> None:
    async with ScriptedUpstream() as upstream:
        config = {"providers": {"p": {"type": "vllm", "base_url": upstream.url}}, "models": {"m": {"provider": "p"}}}
        with serving(config) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60) as client:
                for path, body, word, expected in CASES:
                    refusal = {"message": "no", "type": "BadRequestError", "param": word, "code": 400}
                    upstream.script(json_reply({"error": refusal}, 400))
                    for stream in (False, True):
                        reply = await client.post(path, json={**body, "model": "m", "stream": stream})
                        assert reply.status_code == 400
                        assert reply.json()["error"]["param"] == expected, reply.text


async def test_failures_of_a_responses_upstream_have_the_clients_names() -> None:
    failed: Json = {"id": "r", "object": "response", "status": "failed", "output": []}
    failed["error"] = {"code": "invalid_value", "message": "no", "param": "max_output_tokens"}
    begun = text_events("a")[:5]
    async with ScriptedUpstream() as upstream:
        provider = {"type": "openai_compatible", "base_url": upstream.url, "dialects": ["responses"]}
        with serving({"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}) as gateway:
            body = {**MESSAGES, "model": "m", "max_tokens": 5}
            async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60) as client:
                for stream in (False, True):
                    upstream.script(
                        responses_sse([*begun, {"type": "response.failed", "response": failed}])
                        if stream
                        else json_reply(failed)
                    )
                    reply = await client.post("/v1/chat/completions", json={**body, "stream": stream})
                    assert '"param":"max_tokens"' in reply.text, reply.text
