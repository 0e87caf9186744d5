"""Clients of the Messages API that search the web, over upstreams with searches of another form."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client_processes import InstalledClients
from tests.clients.coding_agents.test_claude_code import ClaudeCode, blocks
from tests.integration.messages.test_searches import (
    ASKED,
    FOUND,
    PAGES,
    TOLD,
    anthropic_search,
    gemini_search,
    responses_search,
)
from tests.serving import serving
from tests.upstream import Script, ScriptedUpstream, gemini, json_reply
from tests.upstream.builders import data_frame, either, response_snapshot, responses_sse, responses_text, sse_reply
from tests.upstream.script import Exchange

Json = dict[str, Any]
UPSTREAMS: dict[str, Json] = {
    "responses": {"type": "openai", "dialects": ["responses"]},
    "anthropic": {"type": "anthropic", "dialects": []},
    "gemini": {"type": "gemini"},
}
RETURNED_TO = ("responses", "anthropic")
"""The upstreams that get their searches back in later turns."""


def config(url: str, api: str) -> Json:
    provider = {**UPSTREAMS[api], "base_url": url, "api_key": "key-1-of-gateway"}
    return {"providers": {"p": provider}, "models": {"some-model": {"provider": "p"}, "claude-*": {"provider": "p"}}}


def check_returned(api: str, asked: Json) -> None:
    """The upstream got its own search back."""
    if api == "responses":
        assert asked["input"][1] == FOUND
    else:
        use, result, _ = asked["messages"][1]["content"]
        assert (use, result) == ({**ASKED, "input": {"query": "who"}}, TOLD)


@pytest.mark.parametrize("api", RETURNED_TO)
async def test_searches_are_blocks_of_the_sdk(clients: InstalledClients, upstream: ScriptedUpstream, api: str) -> None:
    upstream.on("/responses", responses_search())
    upstream.on("/messages", anthropic_search())
    with serving(config(upstream.url, api)) as gateway:
        got = await clients.run_program("sdks/messages.mjs", "search", BASE_URL=gateway.url)
    assert [block["type"] for block in got["content"]] == ["server_tool_use", "web_search_tool_result", "text"]
    assert (got["content"][0]["input"], got["searches"]) == ({"query": "who"}, 1)
    check_returned(api, upstream.requests[1].json)


@pytest.mark.parametrize("api", RETURNED_TO)
async def test_searches_are_tools_and_sources_of_the_ai_sdk(
    clients: InstalledClients, upstream: ScriptedUpstream, api: str
) -> None:
    upstream.on("/responses", responses_search())
    upstream.on("/messages", anthropic_search())
    with serving(config(upstream.url, api)) as gateway:
        got = await clients.run_program("sdks/messages.mjs", "ai_search", BASE_URL=gateway.url)
    assert (got["text"], got["input"]) == ("Shannon.", {"query": "who"})
    assert got["sources"] == [page["url"] for page in (PAGES if api == "anthropic" else PAGES[:1])]
    assert got["parts"].index("tool-call") < got["parts"].index("tool-result") < got["parts"].index("text-delta")
    check_returned(api, upstream.requests[1].json)


async def test_claude_code_gets_the_pages_of_its_search(
    clients: InstalledClients, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    async def reply(exchange: Exchange) -> None:
        sent_body = exchange.request.json
        if {"type": "web_search"} in sent_body["tools"]:
            script = responses_search()
        elif any(item["type"] == "function_call_output" for item in sent_body["input"]):
            script = responses_text("It was Shannon.")
        else:
            script = responses_call("WebSearch", {"query": "who"})
        await script(exchange)

    upstream.on("/responses", reply)
    with serving(config(upstream.url, "responses")) as gateway:
        claude = ClaudeCode(clients, gateway, tmp_path)
        events = await claude.do("Who?", "--allowedTools", "WebSearch", model="claude-opus-4-6")
    assert events[-1]["result"] == "It was Shannon."
    [result] = blocks(events, "tool_result")
    assert '"url":"https://a.org"' in result["content"]
    [searching] = [body for body in (request.json for request in upstream.requests) if body.get("max_tool_calls")]
    assert searching["tool_choice"] == {"type": "web_search"}


async def test_claude_code_searches_with_gemini(
    clients: InstalledClients, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    def whole_or_streamed(*parts: Json) -> Script:
        return either(sse_reply(data_frame(gemini.last(*parts))), json_reply(gemini.last(*parts)))

    async def reply(exchange: Exchange) -> None:
        sent_body = exchange.request.json
        if sent_body["tools"] == [{"googleSearch": {}}]:
            script = gemini_search()
        elif any("functionResponse" in part for content in sent_body["contents"] for part in content["parts"]):
            script = whole_or_streamed(gemini.text("It was Shannon."))
        else:
            script = whole_or_streamed(gemini.call("WebSearch", {"query": "who"}))
        await script(exchange)

    for verb in ("generateContent", "streamGenerateContent"):
        upstream.on(f"/models/claude-opus-4-6:{verb}", reply)
    with serving(config(upstream.url, "gemini")) as gateway:
        claude = ClaudeCode(clients, gateway, tmp_path)
        events = await claude.do("Who?", "--allowedTools", "WebSearch", model="claude-opus-4-6")
    assert events[-1]["result"] == "It was Shannon."
    [result] = blocks(events, "tool_result")
    assert '"url":"https://a.org"' in result["content"]


def responses_call(name: str, arguments: Json) -> Any:
    """A call as a Responses upstream sends it."""
    text = json.dumps(arguments)
    call: Json = {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1", "name": name}
    whole = {**call, "arguments": text}
    place = {"item_id": "fc_1", "output_index": 0}
    begun = {**call, "status": "in_progress", "arguments": ""}
    events: list[Json] = [
        {"type": "response.created", "response": response_snapshot("in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.function_call_arguments.delta", **place, "delta": text},
        {"type": "response.function_call_arguments.done", **place, "arguments": text},
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "response.completed", "response": response_snapshot("completed", [whole])},
    ]
    return either(responses_sse(events), json_reply(response_snapshot("completed", [whole])))
