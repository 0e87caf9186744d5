"""A chat upstream that takes no time of the event loop for long requests: it never looks at their messages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson

from tests.upstream.builders import Json, chat_chunk

_CALL: Json = {"id": "c1", "type": "function", "function": {"name": "lookup_look_up", "arguments": "{}"}}


def _build_whole(message: Json, reason: str) -> bytes:
    return orjson.dumps(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    )


def _build_stream(delta: Json, reason: str) -> bytes:
    chunks = (chat_chunk({"role": "assistant", **delta}), chat_chunk({}, finish_reason=reason))
    return b"".join(b"data: %b\n\n" % orjson.dumps(chunk) for chunk in chunks) + b"data: [DONE]\n\n"


_TEXT = (_build_whole({"content": "hi"}, "stop"), _build_stream({"content": "hi"}, "stop"))
_CALLS = (
    _build_whole({"content": None, "tool_calls": [_CALL]}, "tool_calls"),
    _build_stream({"tool_calls": [{"index": 0, **_CALL}]}, "tool_calls"),
)


class FastModel:
    """Replies `hi`, or calls the tool `look_up` of the server `lookup` first: `calls_left` times. `rounds` counts its
    replies."""

    def __init__(self) -> None:
        self.calls_left = 0
        self.rounds = 0
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not reader.at_eof():
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                left = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
                first = tail = b""
                while left:
                    piece = await reader.read(min(left, 65536))
                    left -= len(piece)
                    first = first or piece
                    tail = (tail + piece)[-200:]
                kind, body = b"application/json", b'{"count": 9}'
                if b"/tokenize" not in head.split(b"\r\n")[0]:
                    whole, stream = self._choose()
                    streams = b'"stream":true' in first + tail
                    kind, body = (b"text/event-stream", stream) if streams else (kind, whole)
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(body), body)
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _choose(self) -> tuple[bytes, bytes]:
        self.rounds += 1
        if not self.calls_left:
            return _TEXT
        self.calls_left -= 1
        return _CALLS


@asynccontextmanager
async def fast_model() -> AsyncIterator[FastModel]:
    """Serves the model on the event loop of the test."""
    model = FastModel()
    upstream = await asyncio.start_server(model.answer, "127.0.0.1", 0)
    model.url = f"http://127.0.0.1:{upstream.sockets[0].getsockname()[1]}/v1"
    yield model
    upstream.close()
    await upstream.wait_closed()
