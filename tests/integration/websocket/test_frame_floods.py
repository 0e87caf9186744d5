"""No frames of one WebSocket hold up the event loop, however small and many they are, and whole messages arrive.

See tests/faults/clients/test_large_bodies.py for how a stall is measured.
"""

import asyncio
import base64
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from tests.faults.config import config
from tests.own_process import StallWatch
from tests.serving import serving_here
from tests.upstream import ScriptedUpstream, chat_text

MAX_STALL_S = 0.05
ATTEMPTS = 3
COUNT = 60_000

CONTINUATION, TEXT, PING, PONG = 0, 1, 9, 10
CREATE = orjson.dumps({"type": "response.create", "model": "some-model", "input": "hi"})


def frame(opcode: int, data: bytes, *, is_final: bool = True) -> bytes:
    """A frame of a client, masked with zeros."""
    head = bytes([(0x80 if is_final else 0) | opcode])
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xff" + struct.pack(">Q", len(data))
    return head + size + b"\0\0\0\0" + data


FLOODS = {
    "pings": frame(PING, b"x" * 125) * COUNT,
    "empty pongs": frame(PONG, b"") * COUNT,
    "empty fragments": frame(TEXT, b"", is_final=False)
    + frame(CONTINUATION, b"", is_final=False) * COUNT
    + frame(CONTINUATION, b" "),
    "fragments of one byte": frame(TEXT, b" ", is_final=False)
    + frame(CONTINUATION, b" ", is_final=False) * COUNT
    + frame(CONTINUATION, b" "),
    "one message of 8 MB": frame(TEXT, b" " * 8_000_000),
    "nothing": b"",
}


@asynccontextmanager
async def open_socket(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    key = base64.b64encode(os.urandom(16))
    writer.write(
        b"GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: %b\r\n\r\n" % key
    )
    await reader.readuntil(b"\r\n\r\n")
    try:
        yield reader, writer
    finally:
        writer.close()


async def read_to(reader: asyncio.StreamReader, mark: bytes) -> None:
    """Reads until these bytes arrive, whatever comes before them."""
    tail = b""
    while mark not in tail:
        piece = await reader.read(65536)
        assert piece, "the connection was closed"
        tail = tail[-len(mark) :] + piece


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_no_frames_stop_the_event_loop(flood: bytes) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", chat_text("Good day."))
        async with serving_here(config(upstream.url, "chat")) as port:
            stalls_s: list[float] = []
            while len(stalls_s) < ATTEMPTS and min(stalls_s, default=MAX_STALL_S) >= MAX_STALL_S:
                async with open_socket(port) as (reader, writer):
                    watch = StallWatch()
                    reading = asyncio.create_task(read_to(reader, b"response.completed"))
                    writer.write(flood)
                    writer.write(frame(TEXT, CREATE))
                    await reading
                    stalls_s.append(watch.longest_s)
    assert min(stalls_s) < MAX_STALL_S
