"""The schemas of response formats are changed by the same shims as those of tools, relayed and translated."""

from typing import Any

import httpx
import pytest

from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_json, responses_text

Json = dict[str, Any]

SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "array"}, "b": {"type": "string", "pattern": r"\p{L}"}}}
SHIMMED: Json = {"type": "object", "properties": {"a": {"type": "array", "items": {}}, "b": {"type": "string"}}}
CHAT: Json = {
    "messages": [{"role": "user", "content": "Hi"}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
}
FORMAT: Json = {"type": "json_schema", "name": "x", "schema": SCHEMA}
RESPONSES: Json = {"input": "Hi", "store": False, "text": {"format": FORMAT}}


@pytest.mark.parametrize("upstream_api", ["chat", "responses"])
@pytest.mark.parametrize(
    ("path", "body", "lost"),
    [
        ("/v1/chat/completions", CHAT, "response_format"),
        ("/v1/responses", RESPONSES, "text.format"),
    ],
)
async def test_schemas_of_formats_have_their_shims(path: str, body: Json, lost: str, upstream_api: str) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(responses_text("{}") if upstream_api == "responses" else chat_json("{}"))
        provider = {"type": "openai_compatible", "base_url": upstream.url, "dialects": [upstream_api]}
        models = {"m": {"provider": "p", "schema_shims": ["array_items", "plain_patterns"]}}
        with serving({"providers": {"p": provider}, "models": models}) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                reply = await client.post(path, json={"model": "m", **body})
        sent = upstream.requests[0].json
    assert reply.status_code == 200, reply.text
    found = sent["text"]["format"] if upstream_api == "responses" else sent["response_format"]["json_schema"]
    assert found["schema"] == SHIMMED
    assert lost in reply.headers["x-gateway-loss"]
    assert "pattern=dropped" in reply.headers["x-gateway-loss"]
