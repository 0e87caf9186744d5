"""No single reply of an upstream stalls the event loop: not a whole one, and not one chunk of a stream.

See tests/faults/clients/test_large_bodies.py for how a stall is measured.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import pytest

from tests.own_process import StallWatch
from tests.serving import serving_here

MAX_STALL_S: Final = 0.2
ATTEMPTS: Final = 3
FULL_BYTES: Final = 15 * 1024 * 1024

ONES: Final = b"1"
OBJECTS: Final = b'{"a":1}'

TOKEN: Final = (
    b'{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":['
    + b",".join([b'{"token":"a","logprob":-0.5,"bytes":[97]}'] * 20)
    + b"]}"
)

CALLS: Final[dict[str, bytes]] = {
    "chat": b'{"index":%d,"id":"c%d","type":"function","function":{"name":"f","arguments":"{}"}}',
    "responses": b'{"type":"function_call","id":"fc_%d","call_id":"c%d","name":"f","arguments":"{}"}',
    "anthropic": b'{"type":"tool_use","n":%d,"id":"toolu_%d","name":"f","input":{}}',
    "gemini": b'{"functionCall":{"name":"f","args":{"a":%d,"b":%d}}}',
    "ollama": b'{"function":{"index":%d,"name":"f","arguments":{"a":%d}}}',
}


def repeated(value: bytes, count: int) -> bytes:
    return b"[" + b",".join([value] * count) + b"]"


def calls_of(dialect: str, count: int) -> bytes:
    return b"[" + b",".join(CALLS[dialect] % (number, number) for number in range(count)) + b"]"


def whole_reply(dialect: str, calls: bytes = b"[]", extra: bytes = b"null", logprobs: bytes = b"null") -> bytes:
    """A reply with these calls of tools, a member that the gateway does not know, and descriptions of its tokens."""
    match dialect:
        case "chat":
            message = b'{"role":"assistant","content":"hi","tool_calls":%b,"extra":%b}' % (calls, extra)
            choice = b'{"index":0,"finish_reason":"stop","logprobs":{"content":%b},"message":%b}' % (logprobs, message)
            return b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[%b]}' % choice
        case "responses":
            text = b'{"type":"output_text","text":"hi","annotations":[],"logprobs":%b}' % logprobs
            message = b'{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[%b]}' % text
            output = b"[%b%b" % (message, b"," + calls[1:] if calls != b"[]" else b"]")
            return b'{"id":"r","object":"response","status":"completed","model":"m","output":%b,"extra":%b}' % (
                output,
                extra,
            )
        case "anthropic":
            blocks = b'[{"type":"text","text":"hi"}' + (b"," + calls[1:] if calls != b"[]" else b"]")
            return (
                b'{"id":"m","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","content":%b,'
                b'"usage":{"input_tokens":1,"output_tokens":1},"extra":%b}' % (blocks, extra)
            )
        case "gemini":
            parts = b'[{"text":"hi"}' + (b"," + calls[1:] if calls != b"[]" else b"]")
            return (
                b'{"candidates":[{"content":{"role":"model","parts":%b},"finishReason":"STOP","extra":%b,'
                b'"logprobsResult":{"chosenCandidates":%b}}]}' % (parts, extra, logprobs)
            )
        case _:
            message = b'{"role":"assistant","content":"hi","tool_calls":%b,"extra":%b}' % (calls, extra)
            return (
                b'{"model":"m","created_at":"2026-01-01T00:00:00Z","message":%b,"done":true,"done_reason":"stop"}'
                % (message)
            )


def stream_reply(dialect: str, calls: bytes = b"[]", extra: bytes = b"null", logprobs: bytes = b"null") -> bytes:
    """The same in one chunk of a stream."""
    whole = whole_reply(dialect, calls, extra, logprobs)
    match dialect:
        case "chat":
            return b"data: %b\n\ndata: [DONE]\n\n" % whole.replace(b'"message":', b'"delta":', 1)
        case "responses":
            created = whole_reply("responses").replace(b'"completed","model"', b'"in_progress","model"')
            events = {b"response.created": created, b"response.completed": whole}
            return b"".join(
                b'event: %b\ndata: {"type":"%b","sequence_number":%d,"response":%b}\n\n'
                % (name, name, number, response)
                for number, (name, response) in enumerate(events.items())
            )
        case "anthropic":
            start = b'{"type":"message_start","message":%b}' % whole_reply("anthropic")
            block = (
                b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hi","citations":%b}}'
            )
            heavy = calls if calls != b"[]" else extra
            return b"event: message_start\ndata: %b\n\nevent: content_block_start\ndata: %b\n\n" % (
                start,
                block % heavy,
            )
        case "gemini":
            return b"data: %b\n\n" % whole
        case _:
            return whole + b"\n"


CONTENTS: Final[dict[str, Callable[[str], dict[str, bytes]]]] = {
    "millions of numbers": lambda _: {"extra": repeated(ONES, FULL_BYTES // 4)},
    "numbers up to the bound": lambda _: {"extra": repeated(ONES, 340_000)},
    "different keys up to the bound": lambda _: {
        "extra": b"{" + b",".join(b'"key%d":1' % number for number in range(65_000)) + b"}"
    },
    "millions of objects": lambda _: {"extra": repeated(OBJECTS, FULL_BYTES // 16)},
    "objects up to the bound": lambda _: {"extra": repeated(OBJECTS, 8_000)},
    "many calls": lambda dialect: {"calls": calls_of(dialect, 15_000)},
    "calls up to the bound": lambda dialect: {"calls": calls_of(dialect, 2_600)},
    "tokens up to the bound": lambda _: {"logprobs": repeated(TOKEN, 2_300)},
    "a text of 15 MB": lambda _: {"extra": b'"' + b"a, [b] " * (FULL_BYTES // 7) + b'"'},
    "escapes of 15 MB": lambda _: {"extra": b'"' + b'\\",' * (FULL_BYTES // 3) + b'"'},
}

CLIENTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "/v1/responses": ("/v1/responses", {"input": "x"}),
    "/v1/chat/completions": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
    "/v1/messages": ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}),
}

RELAYED: Final = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "anthropic": "/v1/messages"}
"""The dialects that clients have too -> the path where replies are relayed."""

WAYS: Final = [
    *((dialect, "/v1/responses", False) for dialect in CALLS if dialect != "responses"),
    ("responses", "/v1/chat/completions", False),
    *((dialect, path, True) for dialect, path in RELAYED.items()),
]


@asynccontextmanager
async def served(dialect: str, reply: bytes, kind: bytes, *, relays: bool) -> AsyncIterator[httpx.AsyncClient]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r\n")[0] or 0))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (kind, len(reply)))
                writer.write(reply)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    upstream = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{upstream.sockets[0].getsockname()[1]}"
    native = dialect in ("anthropic", "gemini", "ollama")
    relayed = {"anthropic": "messages"}.get(dialect, dialect)
    provider = {
        "base_url": url if dialect == "ollama" else f"{url}/v1",
        "api_key": "secret",
        "type": dialect if native else "openai_compatible",
        "retries": 0,
        "unlisted_models": "forward",
        "dialects": [relayed] if relays or not native else [],
    }
    config = {"providers": {"up": provider}, "models": {"m": {"provider": "up"}}}
    async with serving_here(config) as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
        yield http
    upstream.close()


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("content_name", CONTENTS)
@pytest.mark.parametrize(
    ("dialect", "path", "relays"), [pytest.param(*way, id="-".join(map(str, way))) for way in WAYS]
)
async def test_no_reply_stops_the_event_loop(
    dialect: str, path: str, content_name: str, *, relays: bool, streamed: bool
) -> None:
    values = CONTENTS[content_name](dialect)
    reply = stream_reply(dialect, **values) if streamed else whole_reply(dialect, **values)
    stream_kind = b"application/x-ndjson" if dialect == "ollama" else b"text/event-stream"
    async with served(dialect, reply, stream_kind if streamed else b"application/json", relays=relays) as http:
        stalls_s: list[float] = []
        while len(stalls_s) < ATTEMPTS and min(stalls_s, default=MAX_STALL_S) >= MAX_STALL_S:
            watch = StallWatch()
            body = {"model": "m", "stream": streamed, **CLIENTS[path][1]}
            async with http.stream("POST", path, json=body) as answer:
                content = b"".join([piece async for piece in answer.aiter_raw()])
            stalls_s.append(watch.longest_s)
    assert answer.status_code in (200, 502), content[:500]
    assert min(stalls_s) < MAX_STALL_S


NUMBERS: Final = {
    "up to the bound": (repeated(b"0.1234567", 1_570_000), 200),
    "over the bound": (repeated(ONES, FULL_BYTES // 4), 502),
    "over the length": (repeated(b"0.12345678901234567", FULL_BYTES // 15), 502),
}

EMBEDDINGS: Final[dict[str, Any]] = {
    "/api/embed": {"model": "m", "input": "x"},
    "/api/embeddings": {"model": "m", "prompt": "x"},
    "/v1beta/models/m:embedContent": {"content": {"parts": [{"text": "x"}]}},
}


@pytest.mark.parametrize("numbers_name", NUMBERS)
@pytest.mark.parametrize("path", EMBEDDINGS)
async def test_no_embeddings_stop_the_event_loop(path: str, numbers_name: str) -> None:
    numbers, status = NUMBERS[numbers_name]
    reply = b'{"object":"list","data":[{"index":0,"embedding":%b}]}' % numbers
    async with served("chat", reply, b"application/json", relays=False) as http:
        stalls_s: list[float] = []
        while len(stalls_s) < ATTEMPTS and min(stalls_s, default=MAX_STALL_S) >= MAX_STALL_S:
            watch = StallWatch()
            async with http.stream("POST", path, json=EMBEDDINGS[path]) as answer:
                content = b"".join([piece async for piece in answer.aiter_raw()])
            stalls_s.append(watch.longest_s)
    assert answer.status_code == status, content[:500]
    assert status == 200 or b"`max_line_mb`" in content
    assert min(stalls_s) < MAX_STALL_S, stalls_s
