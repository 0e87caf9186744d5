"""Requests of every kind to one gateway: all APIs, streams, errors, several upstreams, tools, jobs, WebSockets."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.integration.mcp.tool_gateway import LOOK_UP as CALL
from tests.integration.mcp.tool_gateway import mcp_tool
from tests.mcp_script import ScriptedMcp, answer, scripted_mcp, text_result
from tests.polling import wait_until
from tests.serving import Command, command
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import SSE, chat_calls, chat_sse, chat_text, error_reply, text_chunks
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.script import Pause, Reply, Script, reset
from tests.upstream.server import closed_port
from tests.websocket_client import talking

Json = dict[str, Any]

KEY = "team-key-0123456789ab"
UNKNOWN_KEY = "unknown-key-0123456789ab"
PROMPT, TEXT, RESULT, ARGUMENT, CACHE_KEY = "p-marker", "t-marker", "r-marker", "a-marker", "c-marker"
"""What must never be in a log line or a span: the words of clients, models and tools."""
HEADERS = {"authorization": f"Bearer {KEY}"}
"""The key of the clients."""
_ADMIN_KEY = "admin-key-0123456789abc"
"""The key of the reader of metrics."""
_SPANS_AT_ONCE = {"OTEL_BSP_SCHEDULE_DELAY": "50"}
"""The milliseconds until spans are sent. By default they leave at the end of a test, which waits for them briefly."""

USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 8,
    "total_tokens": 28,
    "prompt_tokens_details": {"cached_tokens": 5},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
IDS = {"x-request-id": "of-the-upstream", "x-gateway-destination-endpoint-served": "10.0.0.7:8000"}


class Site(NamedTuple):
    """A gateway with its upstreams."""

    gateway: Command
    first: ScriptedUpstream
    second: ScriptedUpstream
    mcp: ScriptedMcp
    client: httpx.AsyncClient

    async def post(self, path: str, body: Json, **headers: str) -> httpx.Response:
        return await self.client.post(f"{self.gateway.url}{path}", json=body, headers=headers)

    def read_lines(self) -> list[Json]:
        """Returns the lines of requests that have ended."""
        lines = self.gateway.read_log_lines()
        return [line for line in lines if line["message"] in ("request", "turn", "job")]


def build_config(first: str, second: str, folder: Path) -> Json:
    def provider(url: str, **more: Any) -> Json:
        return {"type": "openai_compatible", "base_url": url, "retries": 0, "silence_s": 30, "max_line_mb": 1, **more}

    rows = [{"provider": "first"}, {"provider": "second", "tier": 1}]
    return {
        "server": {"drain_s": 1},
        "files": {"path": str(folder / "files")},
        "store": {"url": f"sqlite+aiosqlite:///{folder}/store.sqlite"},
        "egress": {"allow": ["127.0.0.1"]},
        "auth": {"keys": [{"name": "team", "key": KEY}, {"name": "admin", "key": _ADMIN_KEY, "admin": True}]},
        "limits": {"vector_stores": 1},
        "providers": {
            "first": provider(first),
            "second": provider(second),
            "native": provider(first, dialects=["chat", "responses", "messages"]),
            "narrow": provider(first, max_in_flight=1),
            "routed": provider(second, type="openrouter", api_key="openrouter-secret-1"),
            "gone": provider(f"http://127.0.0.1:{closed_port()}/v1"),
        },
        "models": {
            "one": {"provider": "first"},
            "native": {"provider": "native"},
            "both": {"upstreams": [{"provider": "gone"}, {"provider": "second", "tier": 1}]},
            "thrifty": {"upstreams": rows},
            "full": {"upstreams": [{"provider": "narrow"}, {"provider": "gone", "weight": 0}]},
            "routed": {"provider": "routed"},
            "gone": {"provider": "gone"},
        },
        "routing": {"retries_per_s": 0, "retry_share": 0, "queue_s": 60, "wait_s": 0},
    }


@asynccontextmanager
async def serving_site(folder: Path, **more: Any) -> AsyncIterator[Site]:
    """Serves the configuration with two scripted upstreams and a scripted MCP server. `more` are further sections."""
    async with AsyncExitStack() as running:
        first = await running.enter_async_context(ScriptedUpstream())
        second = await running.enter_async_context(ScriptedUpstream())
        mcp = await running.enter_async_context(scripted_mcp(answer(text_result(RESULT))))
        config = {**build_config(first.url, second.url, folder), **more}
        gateway = running.enter_context(command(config, folder, forked=True, env=_SPANS_AT_ONCE))
        client = httpx.AsyncClient(timeout=60, verify=False, trust_env=False, headers=HEADERS)
        yield Site(gateway, first, second, mcp, await running.enter_async_context(client))


def full_answer() -> Script:
    """A stream with everything that an upstream may report."""
    return replace(chat_sse(text_chunks(TEXT, " you.", usage=USAGE)), headers={**SSE, **IDS})


async def ask_every_api(site: Site) -> None:
    """Asks each API for a stream and for JSON, translated and relayed."""
    said = [{"role": "user", "content": PROMPT}]
    for stream in (False, True):
        for path, body in (
            ("/v1/responses", {"input": PROMPT}),
            ("/v1/chat/completions", {"messages": said}),
            ("/v1/messages", {"messages": said, "max_tokens": 9}),
            ("/api/chat", {"messages": said}),
            ("/generate", {"messages": said}),
        ):
            site.first.script(chat_text(TEXT))
            reply = await site.post(path, {"model": "one", "stream": stream, **body})
            assert reply.status_code == 200, reply.text
    for path, dialect, body in (
        ("/v1/responses", "responses", {"input": PROMPT, "store": False}),
        ("/v1/messages", "anthropic", {"messages": said, "max_tokens": 9}),
    ):
        site.first.script(sound(ANSWERS[dialect]))
        assert (await site.post(path, {"model": "native", "stream": True, **body})).status_code == 200
    contents = [{"role": "user", "parts": [{"text": PROMPT}]}]
    for action in ("generateContent", "streamGenerateContent?alt=sse"):
        site.first.script(chat_text(TEXT))
        assert (await site.post(f"/v1beta/models/one:{action}", {"contents": contents})).status_code == 200
    site.first.script(full_answer())
    body = {"input": PROMPT, "stream": True, "include": ["message.output_text.logprobs"], "top_k": 3}
    assert (await site.post("/v1/responses", {"model": "one", **body})).status_code == 200
    site.second.script(chat_text(TEXT))
    assert (await site.post("/v1/responses", {"model": "routed", "input": PROMPT})).status_code == 200


async def ask_other_paths(site: Site) -> None:
    """Asks paths that are only relayed, for the counts of tokens, and for what was stored."""
    embeddings = {"object": "list", "model": "e", "data": [], "usage": {"prompt_tokens": 3, "total_tokens": 3}}
    site.first.script(Reply(headers={"content-type": "application/json"}, body=json.dumps(embeddings).encode()))
    assert (await site.post("/v1/embeddings", {"model": "one", "input": PROMPT})).status_code == 200
    await site.post("/v1/messages/count_tokens", {"model": "one", "messages": [{"role": "user", "content": PROMPT}]})
    await site.client.get(f"{site.gateway.v1}/responses/resp_unknown")
    await site.client.get(f"{site.gateway.v1}/models")
    form: Json = {"files": {"file": ("notes.txt", PROMPT.encode())}, "data": {"purpose": "user_data"}}
    uploaded = await site.client.post(f"{site.gateway.v1}/files", **form)
    assert uploaded.status_code == 200
    made = await site.post("/v1/vector_stores", {"name": "notes"})
    assert (await site.post("/v1/vector_stores", {})).status_code == 429, "limits.vector_stores"
    store = f"/v1/vector_stores/{made.json()['id']}"
    attached = await site.post(f"{store}/file_batches", {"file_ids": [uploaded.json()["id"]]})
    found = await site.post(f"{store}/search", {"query": PROMPT})
    assert [reply.status_code for reply in (made, attached, found)] == [200, 200, 200], (attached.text, found.text)


async def ask_shared_names(site: Site) -> None:
    """Asks names with several upstreams: one fails, one has no repetitions left, one is full."""
    site.second.script(chat_text(TEXT))
    reply = await site.post("/v1/responses", {"model": "both", "input": PROMPT, "prompt_cache_key": CACHE_KEY})
    assert reply.headers["x-gateway-attempts"] == "2"
    site.first.script(error_reply(500, "no"))
    assert (await site.post("/v1/responses", {"model": "thrifty", "input": PROMPT})).status_code == 502
    freed = asyncio.Event()
    site.first.script(
        Reply(headers=SSE, body=[Pause(freed), *ANSWERS["chat"].frames, ANSWERS["chat"].done]), chat_text(TEXT)
    )
    asked = {"model": "full", "input": PROMPT, "stream": True}
    seen = len(site.first.requests)
    held = asyncio.create_task(site.post("/v1/responses", asked))
    await wait_until(lambda: len(site.first.requests) > seen)
    waiting = asyncio.create_task(site.post("/v1/responses", asked))
    await wait_until(_has_queue, site, "full")
    freed.set()
    assert [(await each).status_code for each in (held, waiting)] == [200, 200]


async def _has_queue(site: Site, model: str) -> bool:
    """Whether one turn waits for an upstream of the model. Requests for metrics are neither logged nor counted."""
    headers = {"authorization": f"Bearer {_ADMIN_KEY}"}
    metrics = (await site.client.get(f"{site.gateway.url}/metrics", headers=headers)).raise_for_status().text
    return re.search(rf'^gateway_queued{{.*model="{model}".*}} 1(\.0)?$', metrics, re.MULTILINE) is not None


async def ask_with_tools(site: Site) -> None:
    """Asks for replies of two rounds, at names with one upstream and with two, and for a call with a warning."""
    for model, upstream in (("one", site.first), ("both", site.second)):
        upstream.script(chat_calls((CALL[0], json.dumps({"q": ARGUMENT}))), chat_text(TEXT))
        body = {"model": model, "input": PROMPT, "tools": [mcp_tool(site.mcp.url)], "stream": model == "one"}
        assert (await site.post("/v1/responses", body)).status_code == 200
    site.first.script(chat_calls(("look", "{broken")))
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]
    assert (await site.post("/v1/responses", {"model": "one", "input": PROMPT, "tools": tools})).status_code == 200


async def ask_for_odd_counts(site: Site) -> None:
    """Asks an upstream that counts tokens with a number that cannot be a count."""
    site.first.script(chat_text(TEXT, usage={"prompt_tokens": -5, "completion_tokens": 3}))
    assert (await site.post("/v1/responses", {"model": "one", "input": PROMPT})).status_code == 200


async def ask_in_vain(site: Site) -> None:
    """Sends what is refused or fails."""
    body = {"model": "one", "input": PROMPT}
    assert (await site.post("/v1/responses", {**body, "temperature": "hot"})).status_code == 400
    assert (await site.post("/v1/responses", {**body, "model": "unknown"})).status_code == 404
    refused = await site.post(
        "/v1/responses", body, authorization=f"Bearer {UNKNOWN_KEY}", **{"x-forwarded-for": "10.1.2.3"}
    )
    assert refused.status_code == 401
    assert (await site.post("/v1/responses", {**body, "model": "gone"})).status_code == 502
    site.first.script(error_reply(400, "no"))
    assert (await site.post("/v1/responses", body)).status_code == 400
    site.first.script(reset)
    assert (await site.post("/v1/responses", {**body, "stream": True})).status_code == 502
    for path, asked, dialect in (
        ("/v1/chat/completions", {"model": "one", "messages": [{"role": "user", "content": PROMPT}]}, "chat"),
        ("/v1/responses", {"model": "native", "input": PROMPT, "store": False}, "responses"),
    ):
        broken = ANSWERS[dialect]
        site.first.script(Reply(headers=broken.headers, body=[broken.opening]))
        assert (await site.post(path, {**asked, "stream": True})).status_code == 200


async def run_jobs(site: Site) -> None:
    """Runs a response in the background, one whose stream can be resumed, and one that fails."""
    jobs = sum(line["message"] == "job" for line in site.read_lines())
    site.first.script(full_answer(), full_answer(), error_reply(500, "no"))
    await site.post("/v1/responses", {"model": "one", "input": PROMPT, "background": True})
    await wait_until(lambda: sum(line["message"] == "job" for line in site.read_lines()) == jobs + 1)
    await site.post("/v1/responses", {"model": "one", "input": PROMPT, "stream": True, "background": True})
    await wait_until(lambda: sum(line["message"] == "job" for line in site.read_lines()) == jobs + 2)
    await site.post("/v1/responses", {"model": "one", "input": PROMPT, "background": True})
    await wait_until(lambda: sum(line["message"] == "job" for line in site.read_lines()) == jobs + 3)


async def talk(site: Site, **headers: str) -> None:
    """Runs two turns over a WebSocket: one that succeeds, and one that is refused."""
    async with talking(site.gateway.v1, additional_headers={**HEADERS, **headers}) as socket:
        site.first.script(full_answer())
        await socket.response(model="one", input=PROMPT)
        await socket.error(model="unknown", input=PROMPT)


ALL = (
    *(ask_every_api, ask_other_paths, ask_shared_names, ask_with_tools, ask_for_odd_counts, ask_in_vain),
    *(run_jobs, talk),
)
