"""Requests of one session have the same prefix for an upstream, and the log has the share that was cached."""

import json
from pathlib import Path
from typing import Any

from tests.faults.client_view import CHAT, MESSAGES, RESPONSES, ask
from tests.faults.config import config
from tests.serving import command
from tests.upstream import ScriptedUpstream, chat_text
from tests.upstream.anthropic import anthropic_sse, block, closing, message, opening, text_block, text_deltas
from tests.upstream.builders import either, json_reply

Json = dict[str, Any]
USAGE: Json = {"input_tokens": 2, "cache_read_input_tokens": 6, "output_tokens": 3}
SCHEMA: Json = {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "string"}}, "required": ["z"]}
TOOLS: dict[str, list[Json]] = {
    CHAT: [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in "ba"],
    RESPONSES: [{"type": "function", "name": name, "parameters": SCHEMA, "strict": False} for name in "ba"],
    MESSAGES: [{"name": name, "input_schema": SCHEMA} for name in "ba"],
}


def question(path: str, nonce: int) -> Json:
    header = f"x-anthropic-billing-header: cc_version=2.1.50; cch={nonce};"
    user: Json = {"role": "user", "content": "Hello"}
    if path == MESSAGES:
        system = [{"type": "text", "text": header}, {"type": "text", "text": "Be short."}]
        return {"system": system, "messages": [user]}
    if path == RESPONSES:
        return {"instructions": f"{header}\n\nBe short.", "input": [user]}
    return {"messages": [{"role": "system", "content": f"{header}\n\nBe short."}, user]}


async def test_a_line_with_a_nonce_for_another_vendor_is_removed(tmp_path: Path) -> None:
    counts: Json = {"prompt_tokens": 200, "completion_tokens": 2, "total_tokens": 202}
    cached = {**counts, "prompt_tokens_details": {"cached_tokens": 180}}
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", chat_text("Hi", usage=cached))
        streamed = [opening(input_tokens=2), *block(0, text_block(), *text_deltas("Hi")), *closing(**USAGE)]
        whole = json_reply(message(text_block("Hi"), usage=USAGE))
        upstream.on("/messages", either(anthropic_sse(streamed), whole))
        settings = config(upstream.url, "chat")
        settings["providers"]["anthropic"] = {"type": "anthropic", "base_url": upstream.url, "api_key": "k"}
        settings["models"] = {"claude": {"provider": "anthropic"}, **settings["models"]}
        with command(settings, tmp_path, forked=True) as gateway:
            for path, tools in TOOLS.items():
                for stream in (True, False):
                    await ask(gateway.v1, path, stream=stream, tools=tools, **question(path, int(stream)))
            input_items = [request.content for request in upstream.requests]
            upstream.on("/chat/completions", chat_text("Hi"))
            await ask(gateway.v1, CHAT, stream=True)
            await ask(gateway.v1, MESSAGES, stream=False, **question(MESSAGES, 7) | {"model": "claude"})
            relayed = upstream.requests[-1].json
            await ask(gateway.v1, MESSAGES, stream=True, **question(MESSAGES, 7) | {"model": "claude"})
        lines = gateway.read_log_lines()
    for body in input_items:
        system, user = json.loads(body)["messages"]
        assert system == {"role": "system", "content": "Be short."}
        assert user["content"] == "Hello"
        assert b"billing" not in body
        # The order of tools and of keys in their schemas is the client's.
        assert [tool["function"]["name"] for tool in json.loads(body)["tools"]] == ["b", "a"]
        assert json.dumps(SCHEMA, separators=(",", ":")).encode() in body
    assert relayed["system"][0]["text"] == "x-anthropic-billing-header: cc_version=2.1.50; cch=7;"
    logged = [
        tuple(line.get(name) for name in ("input_tokens", "cached_tokens", "cached_share"))
        for line in lines
        if line["message"] == "request"
    ]
    assert logged == [(200, 180, 0.9)] * 6 + [(9, None, None)] + [(8, 6, 0.75)] * 2
