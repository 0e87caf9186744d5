"""The model server behind every gateway of a run. It writes prebuilt bytes from a bare asyncio protocol, to be cheap.

Each frame is one write, and the loop turns once between two frames, so that streams interleave as on a busy engine.
"""

import asyncio
import itertools
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from time import perf_counter
from typing import cast

import orjson
import uvloop

from bench.load.replies import Model, build_stream_writes, build_whole_reply, stamp_write
from bench.load.requests import dialect_of
from bench.servers.processes import Server, announce, start_announcing_server

_NAMES = [
    f"bench-{deltas}{pace}{stamped}{kind}"
    for deltas, pace, stamped, kind in itertools.product(
        (128, 4, 16, 32, 64, 600, 8000, 10000),
        ("", "-50ps", "-200ps", "-1ps"),
        ("", "-stamped"),
        ("", "-reasoning", "-arguments", "-call"),
    )
]
"""The names of the scenarios' models and others. A gateway refuses a name that its upstream does not list."""

_MODELS = orjson.dumps(
    {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": 0, "owned_by": "bench"} for name in _NAMES],
    }
)
_MODELS_REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_MODELS),
    _MODELS,
)

_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


class ModelServerConnection(asyncio.Protocol):
    """One connection. Reads requests with a Content-Length, and writes the answer that the model's name describes."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._stamped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transport class is not a subclass

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        ends = self._buffer.find(b"\r\n\r\n")
        if ends < 0:
            return
        head, body_at = bytes(self._buffer[:ends]), ends + 4
        _, header, length = head.lower().partition(b"\r\ncontent-length:")
        size = int(length.split(b"\r\n", 1)[0]) if header else 0
        if len(self._buffer) - body_at >= size:
            body = bytes(self._buffer[body_at : body_at + size])
            del self._buffer[: body_at + size]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET"):
            self.transport.write(_MODELS_REPLY)
            return
        if not body:
            self.transport.write(_NOT_FOUND)  # routers probe paths that only some engines have
            return
        request = orjson.loads(body)
        model = Model.named(request["model"])
        dialect = dialect_of(head.split(b"\r\n", 1)[0].decode())
        if not request.get("stream"):
            self.transport.write(build_whole_reply(model.deltas, dialect))
        else:
            pause = 1 / model.per_second if model.per_second else 0
            self._stamped = model.stamped
            is_answered = model.kind == "call" and request["messages"][-1]["role"] == "tool"
            kind = "text" if is_answered else model.kind
            self._play(build_stream_writes(model.deltas, dialect, kind), 0, pause, self._loop.time())

    def _play(self, writes: list[bytes], at: int, pause: float, due: float) -> None:
        if self.transport.is_closing():
            return
        self.transport.write(stamp_write(writes[at], perf_counter()) if self._stamped else writes[at])
        at += 1
        if at == len(writes):
            return
        if pause:
            due += pause
            self._loop.call_at(due, self._play, writes, at, pause, due)
        else:
            self._loop.call_soon(self._play, writes, at, pause, due)


def start_upstream(core: int | None, home: Path) -> AbstractContextManager[Server]:
    """Starts this module as a process, whose name in the figures is `direct`."""
    command = [sys.executable, "-m", "bench.servers.upstream"]
    return start_announcing_server("direct", command, core, home / "upstream.log")


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(ModelServerConnection, "127.0.0.1", 0, backlog=1024)
    announce(server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve())
