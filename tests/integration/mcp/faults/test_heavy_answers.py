"""No single answer of a server holds up other requests, or fills the memory: each weighs what it costs to read.

A stall is the longest time between two turns of the event loop, in processor time of the process: what a bystander
waits. The memory is the growth of the process's peak, relative to the answer.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from openai import APIStatusError, AsyncOpenAI

from tests.integration.mcp.tool_gateway import LOOK_UP, mcp_tool
from tests.mcp_script import LOOK_UP as LOOK_UP_TOOL
from tests.mcp_script import scripted_mcp
from tests.own_process import StallWatch
from tests.serving import serving_here
from tests.upstream import Reply, ScriptedUpstream, chat_calls, chat_text
from tests.upstream.builders import JSON, SSE, Json
from tests.upstream.script import Exchange, Script

MAX_STALL_S: Final = 0.2
MAX_GROWTH: Final = 10
SLACK_BYTES: Final = 16 * 1024 * 1024
"""What a request takes whatever the answer, and what the test's own server holds of it."""

ATTEMPTS: Final = 3
"""On a busy machine the system may stop the loop's thread while others go on: that is gone the next time."""

_STATUS = Path("/proc/self/status")
_CLEAR_PEAK = Path("/proc/self/clear_refs")

needs_peak = pytest.mark.skipif(not _CLEAR_PEAK.exists(), reason="without /proc the peak of the memory is not known")


class HeavyAnswer(NamedTuple):
    """The `result` (or the `error`) of one method, as bytes, and a word of what the client reads."""

    method: str
    content: bytes
    words: str
    key: bytes = b"result"


def parts(part: bytes, count: int) -> bytes:
    return b'{"content": [' + b",".join([part] * count) + b"]}"


def listed(tools: list[Json]) -> bytes:
    return json.dumps({"tools": tools}).encode()


def tool(name: str, schema: Json) -> Json:
    return {**LOOK_UP_TOOL, "name": name, "inputSchema": schema}


def chained(count: int = 1_000) -> Json:
    """A schema of 50 KB whose definitions refer to each other, one after the other."""
    definitions: Json = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(count)}
    definitions[f"d{count}"] = {"type": "string"}
    return {"type": "object", "$defs": definitions, "properties": {"a": {"$ref": "#/$defs/d0"}}}


def branching(levels: int = 16) -> Json:
    """A schema of few definitions, each of which refers twice to the next one."""
    definitions: Json = {
        f"d{level}": {"type": "object", "properties": {key: {"$ref": f"#/$defs/d{level + 1}"} for key in "ab"}}
        for level in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "string"}
    return {"type": "object", "$defs": definitions, "properties": {"a": {"$ref": "#/$defs/d0"}}}


def patterned(pattern: str) -> Json:
    return {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}


def nested(levels: int) -> bytes:
    return b'{"content": [], "structuredContent": ' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"


PIXEL: Final = b'{"type": "image", "mimeType": "image/png", "data": "aGk="}'
TEXT: Final = b'{"type": "text", "text": "hello"}'

HEAVY: dict[str, HeavyAnswer] = {
    "2.6 million numbers as content": HeavyAnswer("tools/call", parts(b"1", 2_600_000), "max_result_values"),
    "a million numbers as tools": HeavyAnswer(
        "tools/list", b'{"tools": [' + b",".join([b"1"] * 1_000_000) + b"]}", "max_result_values"
    ),
    "500,000 empty objects": HeavyAnswer("tools/call", parts(b"{}", 500_000), "max_result_values"),
    "30,000 empty objects": HeavyAnswer("tools/call", parts(b"{}", 30_000), "max_result_parts"),
    "2,000 empty objects": HeavyAnswer("tools/call", parts(b"{}", 2_000), "does not follow the protocol"),
    "80,000 images": HeavyAnswer("tools/call", parts(PIXEL, 80_000), "max_result_values"),
    "2,000 images": HeavyAnswer("tools/call", parts(PIXEL, 2_000), "[image: image/png]"),
    "2,000 texts": HeavyAnswer("tools/call", parts(TEXT, 2_000), "hello"),
    "a text of 5 MB": HeavyAnswer(
        "tools/call", parts(b'{"type": "text", "text": "' + b"x" * 5_000_000 + b'"}', 1), "xxx"
    ),
    "a text of 5 MB of escapes": HeavyAnswer(
        "tools/call",
        parts(b'{"type": "text", "text": "' + rb"\ud83d\ude00\n" * 350_000 + b'"}', 1),
        "\N{GRINNING FACE}",
    ),
    "70,000 values as structured content": HeavyAnswer(
        "tools/call",
        b'{"content": [], "structuredContent": {"rows": [' + b",".join([b'{"a":1}'] * 35_000) + b"]}}",
        "rows",
    ),
    "a result that is nested 800 levels deep": HeavyAnswer("tools/call", nested(800), "nested deeper"),
    "a result that is nested 30,000 levels deep": HeavyAnswer("tools/call", nested(30_000), "levels deep"),
    "an error of 32 KB of one word": HeavyAnswer(
        "tools/call", json.dumps({"code": -32600, "message": "session " * 4_000}).encode(), "session", b"error"
    ),
    "an error of 5 MB of one word": HeavyAnswer(
        "tools/call", json.dumps({"code": -32600, "message": "session " * 600_000}).encode(), "session", b"error"
    ),
    "twelve schemas of chained references": HeavyAnswer(
        "tools/list", listed([tool(f"t{number}", chained()) for number in range(12)] + [LOOK_UP_TOOL]), "hello"
    ),
    "twelve schemas of branching references": HeavyAnswer(
        "tools/list", listed([tool(f"t{number}", branching()) for number in range(12)] + [LOOK_UP_TOOL]), "hello"
    ),
    "a pattern of 48 KB": HeavyAnswer(
        "tools/list", listed([tool("t", patterned("(?=a)" + "a+" * 24_000)), LOOK_UP_TOOL]), "hello"
    ),
    "10,000 tools without anything": HeavyAnswer(
        "tools/list", b'{"tools": [' + b",".join([b"{}"] * 10_000) + b"]}", "hello"
    ),
}


def script_of(heavy: HeavyAnswer, *, as_stream: bool) -> Script:
    """Answers with the bytes, which were made before, as JSON or as a stream of one event."""

    async def play(exchange: Exchange) -> None:
        head = b'{"jsonrpc": "2.0", "id": ' + json.dumps(exchange.request.json["id"]).encode() + b', "'
        body = head + heavy.key + b'": ' + heavy.content + b"}"
        await Reply(headers=SSE if as_stream else JSON, body=b"data: " + body + b"\n\n" if as_stream else body)(
            exchange
        )

    return play


@asynccontextmanager
async def hosting_here(*model: Script) -> AsyncIterator[AsyncOpenAI]:
    """A gateway on the test's own event loop, so that its stalls can be measured."""
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", *model)
        config = {
            "egress": {"allow": ["127.0.0.1"]},
            "providers": {"up": {"type": "openai_compatible", "base_url": upstream.url}},
            "models": {"m": {"provider": "up"}},
        }
        async with serving_here(config) as port:
            base_url = f"http://127.0.0.1:{port}/v1"
            async with AsyncOpenAI(base_url=base_url, api_key="key", max_retries=0) as client:
                yield client


class Figures(NamedTuple):
    stall_s: float
    growth_bytes: int
    answer: str
    """What the client read, as text."""


async def read_heavy(heavy: HeavyAnswer, *, as_stream: bool) -> Figures:
    """Lets a gateway read the answer of a server, and measures what it costs."""
    script = script_of(heavy, as_stream=as_stream)
    async with (
        scripted_mcp(methods={heavy.method: script}, era="legacy") as server,
        hosting_here(chat_calls(LOOK_UP), chat_text("hello")) as client,
    ):
        await _ask(client, server.url.replace("/mcp", "/none"))  # what is imported at first use
        before = _clear_peak()
        watch = StallWatch()
        answer = await _ask(client, server.url)
        return Figures(watch.longest_s, _read_status("VmHWM") - before, answer)


async def _ask(client: AsyncOpenAI, url: str) -> str:
    try:
        response = await client.responses.create(model="m", input="Hi", tools=[mcp_tool(url)])
    except APIStatusError as error:
        return str(error)
    return response.model_dump_json()


def _clear_peak() -> int:
    _CLEAR_PEAK.write_text("5")
    return _read_status("VmRSS")


def _read_status(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


@needs_peak
@pytest.mark.parametrize("as_stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("heavy", HEAVY.values(), ids=HEAVY)
async def test_no_answer_holds_up_others_or_fills_the_memory(heavy: HeavyAnswer, as_stream: bool) -> None:
    for attempt in range(ATTEMPTS):
        figures = await read_heavy(heavy, as_stream=as_stream)
        assert heavy.words in figures.answer
        limit = MAX_GROWTH * len(heavy.content) + SLACK_BYTES
        is_last = attempt == ATTEMPTS - 1
        if is_last or (figures.stall_s <= MAX_STALL_S and figures.growth_bytes <= limit):
            break
    assert figures.stall_s <= MAX_STALL_S
    assert figures.growth_bytes <= limit
