"""The requests that are struck, and the model that they ask."""

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tests.faults.cancelled.loop_gateway import ClientRequest, LoopGateway, Talk, parse_reply
from tests.polling import wait_until
from tests.upstream import Exchange, ScriptedUpstream
from tests.upstream.builders import (
    CHAT_USAGE,
    DONE,
    Json,
    chat_chunk,
    chat_json,
    data_frame,
    dump,
    json_reply,
    text_chunks,
)

KEY: Final = "key-of-a-client"
_HEADERS: Final = {"host": "localhost", "connection": "close", "authorization": f"Bearer {KEY}"}

HTTP_TASK: Final = "RequestResponseCycle.run_asgi"
SOCKET_TASK: Final = "WebSocketsSansIOProtocol.run_asgi"
TURN_TASK: Final = "TurnRunner.run"
JOB_TASK: Final = "JobRunner._run_job"
PIECES: Final = ""
"""The moments after each piece of the upstream's reply, instead of the waits of a task."""

_ARGUMENTS: Final = {"calc_add": {"a": 2, "b": 3}, "own_add": {"a": 2, "b": 3}, "file_search": {"queries": ["cat"]}}
_TURNS_OF_LOOP: Final = 5
"""In so many turns of the event loop, the gateway has read and handled what was sent to it."""


@dataclass(frozen=True)
class Stored:
    """The ids of what is stored before the requests are sent, and the URL of an MCP server."""

    response: str
    conversation: str
    file: str
    vector_store: str
    logged_response: str
    mcp_url: str


Build = Callable[[Stored, str], ClientRequest]
"""Builds a request from what is stored and a text that no other request has."""


def build_request(method: str, path: str, content: bytes = b"", **headers: str) -> ClientRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = {**_HEADERS, "content-length": str(len(content)), "content-type": "application/json", **named}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return ClientRequest(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + content)


def get(path: str) -> ClientRequest:
    return build_request("GET", path)


def post(path: str, body: Json, **headers: str) -> ClientRequest:
    return build_request("POST", path, dump(body), **headers)


def post_form(path: str, file: bytes, **fields: str) -> ClientRequest:
    parts = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in fields.items()]
    parts.append(b'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n' + file)
    content = b"".join(b"--limit\r\n%b\r\n" % part for part in parts) + b"--limit--\r\n"
    return build_request("POST", path, content, content_type="multipart/form-data; boundary=limit")


def open_socket(body: Json) -> ClientRequest:
    """Returns a WebSocket on which one turn runs."""
    request = build_request(
        "GET",
        "/v1/responses",
        connection="Upgrade",
        upgrade="websocket",
        sec_websocket_version="13",
        sec_websocket_key=base64.b64encode(bytes(16)).decode(),
    )
    head = request.head_and_body.replace(b"content-length: 0\r\n", b"")
    return ClientRequest(head, _talk_over_socket({"type": "response.create", **body}))


def _talk_over_socket(message: Json) -> Talk:
    content = dump(message)
    frame = b"\x81\xfe" + len(content).to_bytes(2, "big") + bytes(4) + content  # masked with zeros

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        received = await reader.readuntil(b"\r\n\r\n")
        writer.write(frame)
        while not any(end in received for end in (b'"response.completed"', b'"response.failed"', b'"type":"error"')):
            if not (read := await reader.read(65536)):
                return received
            received += read
        writer.write(b"\x88\x80" + bytes(4))
        return received + await reader.read()

    return talk


def _respond(stored: Stored, text: str, **fields: Any) -> ClientRequest:
    return post("/v1/responses", {"model": "m", "input": text, **fields})


def respond(**fields: Any) -> Build:
    return partial(_respond, **fields)


def respond_streaming(**fields: Any) -> Build:
    return partial(_respond, stream=True, **fields)


def _build_mcp_tool(stored: Stored) -> Json:
    return {"type": "mcp", "server_label": "calc", "server_url": stored.mcp_url, "require_approval": "never"}


def _ask(text: str, **more: Any) -> Json:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


@dataclass(frozen=True)
class Row:
    """A request. Its moments are the waits of the tasks `watched`. With `repeats` the same request is sent again after
    each strike: it has a key."""

    build: Build
    watched: tuple[str, ...] = (HTTP_TASK,)
    repeats: bool = False


_STREAM: Final = (HTTP_TASK, PIECES)
_JOB: Final = (HTTP_TASK, JOB_TASK)

QUICK_ROWS: Final[Mapping[str, Row]] = {
    "a response": Row(respond()),
    "a response, streamed": Row(respond_streaming(), _STREAM),
    "a response that is not stored": Row(respond(store=False)),
    "a response that is not stored, streamed": Row(respond_streaming(store=False)),
    "a response that continues another": Row(
        lambda stored, text: _respond(stored, text, stream=True, previous_response_id=stored.response)
    ),
    "a response in a conversation": Row(
        lambda stored, text: _respond(stored, text, stream=True, conversation=stored.conversation)
    ),
    "a large request": Row(
        lambda stored, text: _respond(
            stored, text, stream=True, input=[{"role": "user", "content": "word " * 20} for _ in range(300)]
        )
    ),
    "a provider with slots": Row(respond(model="limited")),
    "a provider with slots, streamed": Row(respond_streaming(model="limited")),
    "several upstreams": Row(respond(model="shared")),
    "several upstreams, streamed": Row(respond_streaming(model="shared"), _STREAM),
    "chat": Row(lambda _, text: post("/v1/chat/completions", _ask(text, stream=True)), _STREAM),
    "chat that is stored": Row(lambda _, text: post("/v1/chat/completions", _ask(text, store=True))),
    "messages": Row(lambda _, text: post("/v1/messages", _ask(text, stream=True, max_tokens=9))),
    "Gemini's API": Row(
        lambda _, text: post(
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            {"contents": [{"role": "user", "parts": [{"text": text}]}]},
        ),
    ),
    "Ollama's API": Row(lambda _, text: post("/api/chat", _ask(text))),
    "embeddings": Row(lambda _, text: post("/v1/embeddings", {"model": "m", "input": text})),
    "embeddings, several upstreams": Row(lambda _, text: post("/v1/embeddings", {"model": "shared", "input": text})),
    "a form that is relayed": Row(lambda _, text: post_form("/v1/audio/transcriptions", text.encode(), model="m")),
    "a stored response is read": Row(lambda stored, _: get(f"/v1/responses/{stored.response}")),
    "a stored stream is read": Row(lambda stored, _: get(f"/v1/responses/{stored.logged_response}?stream=true")),
    "a file is read": Row(lambda stored, _: get(f"/v1/files/{stored.file}/content")),
    "a vector store is searched": Row(
        lambda stored, text: post(f"/v1/vector_stores/{stored.vector_store}/search", {"query": text})
    ),
    "a WebSocket": Row(lambda _, text: open_socket({"model": "m", "input": text}), (SOCKET_TASK, TURN_TASK, PIECES)),
}
"""Requests that are struck in all ways."""

SLOW_ROWS: Final[Mapping[str, Row]] = {
    "a background response": Row(respond(background=True), _JOB),
    "a background response, streamed": Row(respond_streaming(background=True), _JOB),
    "a request with a key": Row(
        lambda stored, text: post("/v1/responses", {"model": "m", "input": text}, idempotency_key=text), repeats=True
    ),
    "an upstream over httpx": Row(respond_streaming(model="httpx")),
    "AG-UI": Row(
        lambda _, text: post(
            "/v1/agui/m",
            {
                "threadId": text,
                "runId": "r",
                "messages": [{"id": "u", "role": "user", "content": text}],
                "protocolVersion": "1.0",
            },
        )
    ),
    "a tool of an MCP server": Row(
        lambda stored, text: _respond(stored, text, stream=True, tools=[_build_mcp_tool(stored)])
    ),
    "a tool of the operator's MCP server": Row(
        respond_streaming(tools=[{"type": "mcp", "server_label": "own"}], model="shared")
    ),
    "a file search": Row(
        lambda stored, text: _respond(
            stored, text, tools=[{"type": "file_search", "vector_store_ids": [stored.vector_store]}]
        )
    ),
    "a file in the input": Row(
        lambda stored, text: _respond(
            stored,
            text,
            stream=True,
            input=[{"role": "user", "content": [{"type": "input_file", "file_id": stored.file}]}],
        )
    ),
    "a file is uploaded": Row(lambda _, text: post_form("/v1/files", text.encode() * 9000, purpose="assistants")),
    "a file is attached": Row(
        lambda stored, _: post(f"/v1/vector_stores/{stored.vector_store}/files", {"file_id": stored.file})
    ),
}
"""Requests with many waits, which are struck in two ways."""


def script_upstream(upstream: ScriptedUpstream, on_piece: Callable[[], None]) -> None:
    """Lets the upstream call a tool of each request that has one, and then answer. `on_piece` is called when a piece of
    a stream was sent."""

    async def answer_chat(exchange: Exchange) -> None:
        body = exchange.request.json
        names = [tool["function"]["name"] for tool in body.get("tools", ())]
        is_answered = any(message["role"] == "tool" for message in body["messages"])
        if names and not is_answered:
            function = {"name": names[0], "arguments": json.dumps(_ARGUMENTS[names[0]])}
            call = {"id": "call_0", "type": "function", "function": function}
            chunks = [chat_chunk({"tool_calls": [{"index": 0, **call}]}), chat_chunk({}, "tool_calls")]
            whole = chat_json(finish_reason="tool_calls", tool_calls=[call])
        else:
            chunks, whole = text_chunks("Hi ", "there, ", "you", " all"), chat_json("Hi there, you all")
        if body.get("stream"):
            frames = [*map(data_frame, [*chunks, chat_chunk(usage=CHAT_USAGE)]), DONE]
            await _send_pieces(exchange, b"".join(frames), on_piece)
        else:
            await whole(exchange)

    embedding = {"object": "embedding", "index": 0, "embedding": [0.1, 0.2]}
    upstream.on("/chat/completions", answer_chat)
    upstream.on("/embeddings", json_reply({"object": "list", "data": [embedding], "model": "m", "usage": {}}))
    upstream.on("/audio/transcriptions", json_reply({"text": "hello"}))


async def _send_pieces(exchange: Exchange, stream: bytes, on_piece: Callable[[], None]) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    size = len(stream) // 4 + 1
    for start in range(0, len(stream), size):
        piece = stream[start : start + size]
        await exchange.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        for _ in range(_TURNS_OF_LOOP):
            await asyncio.sleep(0)
        on_piece()
    await exchange.send(b"0\r\n\r\n")


async def store_first(gateway: LoopGateway, mcp_url: str) -> Stored:
    """Stores what the requests of the table refer to."""

    async def ask(request: ClientRequest) -> Json:
        reply = parse_reply(await gateway.send(request))
        assert reply.status == 200, reply
        found: Json = json.loads(reply.body)
        return found

    response = await ask(post("/v1/responses", {"model": "m", "input": "first"}))
    conversation = await ask(post("/v1/conversations", {}))
    file = await ask(post_form("/v1/files", b"The cat sleeps.", purpose="assistants"))
    store = await ask(post("/v1/vector_stores", {"file_ids": [file["id"]]}))

    async def is_indexed() -> bool:
        counts = (await ask(get(f"/v1/vector_stores/{store['id']}")))["file_counts"]
        return bool(counts["completed"])

    await wait_until(is_indexed)
    stream = await gateway.send(post("/v1/responses", {"model": "m", "input": "x", "background": True, "stream": True}))
    first_event = stream.partition(b"\ndata: ")[2].partition(b"\n")[0]
    return Stored(
        response["id"],
        conversation["id"],
        file["id"],
        store["id"],
        json.loads(first_event)["response"]["id"],
        mcp_url,
    )


def is_good(received: bytes) -> bool:
    """Whether a client got the usual reply to a request of the table."""
    if received.startswith(b"HTTP/1.1 101"):
        return b'"response.completed"' in received
    reply = parse_reply(received)
    faults = (b"response.failed", b"RUN_ERROR", b'"error":{')
    return reply.status == 200 and not any(fault in reply.body for fault in faults)
