"""No request body stalls the event loop: measures its longest stall while large bodies arrive on a real socket.

A stall is measured as processor time of the process between two turns of the loop, so that neither a slow machine nor a
test that runs beside this one counts, but a thread that holds the interpreter's lock does. On a busy machine the system
may stop the loop's thread while others of the process go on: what is no fault of the gateway is gone the next time.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest

from tests.databases import ready_sqlite
from tests.own_process import StallWatch
from tests.serving import serving_here
from tests.upstream import ScriptedUpstream, chat_text

MAX_STALL_S = 0.05
ATTEMPTS = 3
RESPONSES, CHAT = "/v1/responses", "/v1/chat/completions"
MESSAGE = {"type": "message", "role": "user", "content": "hello"}


@asynccontextmanager
async def served_here(upstream_url: str, store_url: str | None = None) -> AsyncIterator[int]:
    """A gateway on the test's own event loop. Yields its port."""
    providers = {
        "upstream": {"type": "openai_compatible", "base_url": upstream_url, "dialects": ["chat"]},
        "scripted": {"type": "scripted"},
    }
    models = {"scripted": {"provider": "scripted"}, "*": {"provider": "upstream"}}
    async with serving_here({"providers": providers, "models": models, "store": {"url": store_url}}) as port:
        yield port


def post(port: int, path: str, body: bytes) -> bytes:
    """Sends a request from a thread, and returns the reply. The connection is closed after it."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head.encode() + body)
        reply = b""
        while piece := connection.recv(65536):
            reply += piece
    return reply


def responses(**fields: object) -> bytes:
    return orjson.dumps({"model": "m", "input": "x", **fields})


def calls(count: int) -> list[dict]:
    pairs = (
        (
            {"type": "function_call", "call_id": f"c{index}", "name": "f", "arguments": '{"a": 1}'},
            {"type": "function_call_output", "call_id": f"c{index}", "output": "ok"},
        )
        for index in range(count)
    )
    return [item for pair in pairs for item in pair]


def tool(index: int) -> dict:
    properties = {f"p{number}": {"type": "string"} for number in range(30)}
    return {"type": "function", "name": f"f{index}", "parameters": {"type": "object", "properties": properties}}


BODIES: dict[str, tuple[str, Callable[[], bytes], int, str]] = {
    "300,000 words that include nothing": (
        RESPONSES,
        lambda: responses(include=["bad"] * 300_000),
        400,
        "server.max_json_values",
    ),
    "90,000 words that include nothing": (RESPONSES, lambda: responses(include=["bad"] * 90_000), 400, "include[0]"),
    "900,000 items": (RESPONSES, lambda: responses(input=[{}] * 900_000), 400, "server.max_json_values"),
    "10,001 items": (RESPONSES, lambda: responses(input=[MESSAGE] * 10_001), 400, "server.max_items"),
    "1,001 tools": (RESPONSES, lambda: responses(tools=[tool(0)] * 1001), 400, "server.max_tools"),
    "ten million empty lists": (
        RESPONSES,
        lambda: b'{"model":"m","input":[' + b"[]," * 10_000_000 + b"[]]}",
        400,
        "server.max_json_values",
    ),
    "an entry of metadata for each": (
        RESPONSES,
        lambda: responses(metadata={f"k{index}": 1 for index in range(90_000)}),
        400,
        "metadata.k0",
    ),
    "90,000 fields": (RESPONSES, lambda: responses(**{f"k{index}": 1 for index in range(90_000)}), 400, "fields"),
    "one bad part at the end": (
        RESPONSES,
        lambda: responses(input=[{"role": "user", "content": [{"type": "input_text", "text": "x"}] * 30_000 + [{}]}]),
        400,
        "input[0].content[30000].type",
    ),
    "9,000 items": (RESPONSES, lambda: responses(input=[MESSAGE] * 9000), 200, "completed"),
    "9,000 messages": (
        CHAT,
        lambda: orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}] * 9000}),
        200,
        "choices",
    ),
    "4,000 calls": (RESPONSES, lambda: responses(input=calls(4000)), 200, "completed"),
    "900 tools": (RESPONSES, lambda: responses(tools=[tool(index) for index in range(900)]), 200, "completed"),
    "30,000 parts": (
        RESPONSES,
        lambda: responses(input=[{"role": "user", "content": [{"type": "input_text", "text": "x"}] * 30_000}]),
        200,
        "completed",
    ),
    "a text of 10 MB": (RESPONSES, lambda: responses(input="x y " * 2_500_000), 200, "completed"),
    "a text of 10 MB for the scripted model": (
        RESPONSES,
        lambda: responses(model="scripted", input="x y " * 2_500_000),
        200,
        "completed",
    ),
}


@pytest.mark.parametrize(("path", "build", "status", "words"), BODIES.values(), ids=BODIES)
async def test_no_body_stops_the_event_loop(path: str, build: Callable[[], bytes], status: int, words: str) -> None:
    body = build()
    async with ScriptedUpstream() as upstream:
        upstream.script(*[chat_text("hi")] * (1 + ATTEMPTS))
        async with served_here(upstream.url) as port:
            await asyncio.to_thread(post, port, path, responses() if path == RESPONSES else body)
            stalls_s: list[float] = []
            while len(stalls_s) < ATTEMPTS and min(stalls_s, default=MAX_STALL_S) >= MAX_STALL_S:
                watch = StallWatch()
                reply = await asyncio.to_thread(post, port, path, body)
                assert int(reply.split(b" ", 2)[1]) == status
                assert words in reply.decode()
                stalls_s.append(watch.longest_s)
    assert min(stalls_s) < MAX_STALL_S


SEARCHES: dict[str, dict] = {
    "16 long queries": {"query": ["a b c d " * 512] * 16},
    "16 long queries of characters that stand for 18 each": {"query": ["\ufdfa" * 4096] * 16},
    "90,000 values of a filter": {"query": "x", "filters": {"type": "in", "key": "a", "value": [1] * 90_000}},
}


@pytest.mark.parametrize("body", SEARCHES.values(), ids=SEARCHES)
async def test_no_search_stops_the_event_loop(tmp_path: Path, body: dict) -> None:
    async with served_here("http://127.0.0.1:9", ready_sqlite(tmp_path / "store.db")) as port:
        made = await asyncio.to_thread(post, port, "/v1/vector_stores", b"{}")
        store_id = orjson.loads(made.partition(b"\r\n\r\n")[2])["id"]
        stalls_s: list[float] = []
        while len(stalls_s) < ATTEMPTS and min(stalls_s, default=MAX_STALL_S) >= MAX_STALL_S:
            watch = StallWatch()
            reply = await asyncio.to_thread(post, port, f"/v1/vector_stores/{store_id}/search", orjson.dumps(body))
            assert b"200 OK" in reply
            stalls_s.append(watch.longest_s)
    assert min(stalls_s) < MAX_STALL_S
