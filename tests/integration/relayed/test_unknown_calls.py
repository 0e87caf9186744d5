"""A relayed history may have calls of types that the gateway does not know, with the tool messages that answer them."""

from typing import Any

import httpx
import pytest

from tests.serving import serving
from tests.upstream import ScriptedUpstream, chat_text

Json = dict[str, Any]

FUNCTION: Json = {"id": "call_2", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def build_history(kind: str) -> list[Json]:
    call = {"id": "call_1", "type": kind, "function": {"name": "$web_search", "arguments": "{}"}}
    return [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [call, FUNCTION]},
        {"role": "tool", "tool_call_id": "call_1", "content": "found"},
        {"role": "tool", "tool_call_id": "call_2", "content": "done"},
    ]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", ["builtin_function", "brand_new"])
async def test_the_upstream_gets_the_history_unchanged(kind: str, stream: bool) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("Hello"))
        provider = {"type": "openai_compatible", "base_url": upstream.url}
        with serving({"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                body = {"model": "m", "messages": build_history(kind), "stream": stream}
                reply = await client.post("/v1/chat/completions", json=body)
        assert reply.status_code == 200, reply.text
        assert upstream.requests[0].json["messages"] == build_history(kind)
