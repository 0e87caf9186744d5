"""No shape of an event stream holds up the loop: lines, frames and pieces cost little each, and have bounds together.

A stall is the longest time between two turns of the event loop while the library reads the stream.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final, NamedTuple

import httpx2
import pytest
from httpx2 import EventSource

from gateway.tools.mcp import bounded_body
from gateway.tools.mcp.bounded_body import BoundedBody
from gateway.tools.mcp.request_record import ReplyAborted, RequestRecord
from gateway.tools.mcp.server import MAX_DROPPED
from tests.own_process import StallWatch
from tests.polling import TIMEOUT_S
from translation.hosted.bounds import DEFAULT_ANSWER_LIMITS

MAX_STALL_S: Final = 0.065
"""What docs/mcp.md promises."""

ATTEMPTS: Final = 3
"""On a busy machine the system may stop the loop's thread while others go on: that is gone the next time."""

READ_BYTES: Final = 64 * 1024
"""What the library of HTTP reads at once."""

LARGE_BYTES: Final = 4 * 1024 * 1024

PROGRESS = json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}).encode()
SUBSCRIBED = json.dumps({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {}}).encode()
EMOJI = json.dumps(
    {"jsonrpc": "2.0", "method": "notifications/message", "params": {"x": "\N{GRINNING FACE}\n" * 350_000}}
).encode()


def cut_reads(stream: bytes) -> list[bytes]:
    return [stream[start : start + READ_BYTES] for start in range(0, len(stream), READ_BYTES)]


def fill(line: bytes, end: bytes = b"\n") -> list[bytes]:
    """One frame of 4 MiB, of one line again and again."""
    return cut_reads(line * (LARGE_BYTES // len(line)) + end)


class Shape(NamedTuple):
    """The pieces of a stream, which is repeated until it is refused, and how many lines of it the library may get."""

    pieces: list[bytes]
    passed_lines: int = 0


SHAPES: Final[dict[str, Shape]] = {
    "comment lines": Shape(fill(b":\n")),
    "comment lines that end with a return": Shape(fill(b":\r", b"\r")),
    "unknown fields": Shape(fill(b"a\n")),
    "fields that are nearly data": Shape(fill(b"dat\n")),
    "empty data lines": Shape(fill(b"data\n")),
    "many data lines": Shape(fill(b"data: 1\n")),
    "a message of many data lines": Shape(cut_reads(b"data: [1\n" + b"data:,1\n" * 500_000 + b"data: ]\n\n")),
    "blank lines": Shape(fill(b"\n")),
    "ids only": Shape(fill(b"id: 1\n\n"), 3),
    "ids of 60 KB": Shape(fill(b"id: " + b"1" * 60_000 + b"\n\n")),
    "times only": Shape(fill(b"retry: 1\n\n"), 3),
    "names only": Shape(fill(b"event: message\n\n")),
    "events of an unknown name": Shape(fill(b"event: a\ndata: {}\n\n")),
    "one endless line of data": Shape(cut_reads(b"data: " + b"x" * 2 * LARGE_BYTES)),
    "one endless comment": Shape(cut_reads(b": " + b"x" * 2 * LARGE_BYTES)),
    "comments of 4 MiB": Shape(cut_reads(b": " + b"x" * LARGE_BYTES + b"\n")),
    "answers of 8 MiB": Shape(
        cut_reads(b'data: {"jsonrpc": "2.0", "id": 9, "result": {"a": "' + b"x" * 2 * LARGE_BYTES + b'"}}\n\n'), 100
    ),
    "notifications": Shape(fill(b"data: " + PROGRESS + b"\n\n")),
    "notifications of 5 MB with escapes": Shape(cut_reads(b"data: " + EMOJI + b"\n\n")),
    "acknowledgements": Shape(fill(b"data: " + SUBSCRIBED + b"\n\n"), 200),
    "data that is no JSON": Shape(fill(b"data: (\n\n"), 2 * MAX_DROPPED),
    "data that is no message": Shape(fill(b"data: [1]\n\n"), 2 * MAX_DROPPED),
    "answers that nobody awaits": Shape(fill(b'data: {"jsonrpc": "2.0", "id": 9, "result": {}}\n\n'), 2 * MAX_DROPPED),
    "pieces of one byte": Shape([b":"] * 100_000),
}

MAX_BYTES: Final = 16 * 1024 * 1024
"""The bytes without a message, and those of answers that are refused: fewer than usual, to take less time."""

MAX_SENT_BYTES: Final = 2 * MAX_BYTES
MAX_SENT_PIECES: Final = 300_000
"""A stream ends after so much: no deadline would end a reader that never lets the loop turn."""


class Repeated(httpx2.AsyncByteStream):
    """A stream that never waits, as if its server were as fast as the reader."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        sent_bytes = sent_pieces = 0
        while True:
            for piece in self._pieces:
                sent_bytes += len(piece)
                sent_pieces += 1
                if sent_bytes > MAX_SENT_BYTES or sent_pieces > MAX_SENT_PIECES:
                    return
                yield piece


async def read_until_refused(pieces: list[bytes], record: RequestRecord, *, is_lasting: bool) -> tuple[float, int]:
    """Lets the library read a stream until it is refused. Returns the longest stall, and the lines that it got."""
    watch = StallWatch()
    passed_lines = 0

    class Counted(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            nonlocal passed_lines
            async for passed in BoundedBody(Repeated(pieces), record, is_event_stream=True, is_lasting=is_lasting):
                passed_lines += passed.count(b"\n") + passed.count(b"\r")
                yield passed

    request = httpx2.Request("POST", "http://mcp.test")
    headers = {"content-type": "text/event-stream"}
    response = httpx2.Response(200, headers=headers, stream=Counted(), request=request)
    async with asyncio.timeout(TIMEOUT_S):
        with suppress(ReplyAborted):
            async for _ in EventSource(response, max_event_size=None):
                pass
    # The next turn of the watch is due before a timer that is started now.
    turned = asyncio.Event()
    asyncio.get_running_loop().call_later(0.002, turned.set)
    await turned.wait()
    return watch.longest_s, passed_lines


@pytest.mark.parametrize("is_lasting", [False, True], ids=["answer", "lasting"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_no_shape_holds_up_the_loop_and_each_is_refused_in_the_end(
    shape: Shape, is_lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_body, "MAX_DROPPED_BYTES", MAX_BYTES)
    monkeypatch.setattr(bounded_body, "_MAX_PASSED_BYTES", MAX_BYTES)
    for _ in range(ATTEMPTS):
        record = RequestRecord(DEFAULT_ANSWER_LIMITS)
        record.request_id = 1
        stall_s, passed_lines = await read_until_refused(shape.pieces, record, is_lasting=is_lasting)
        assert passed_lines <= shape.passed_lines
        assert record.has_failed
        if stall_s <= MAX_STALL_S:
            break
    assert stall_s <= MAX_STALL_S
