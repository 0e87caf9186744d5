"""Whole chunks bypass the HTTP parser, and the parser stays in step with the rest."""

import asyncio
import re
from itertools import pairwise
from unittest.mock import Mock

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.coalescing import ReadCoalescer
from dataplane.connection import ServerOrigin, UpstreamConnection
from dataplane.core import CORE
from dataplane.transport import PooledTransport, RequestDeadlines, RequestTarget
from tests.unit.dataplane.sinks import FakeSink

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
HEX = re.compile(rb"[1-9a-f][0-9a-f]*")
END = b"0\r\n\r\n"


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


async def deliver(connection: UpstreamConnection, data: bytes) -> None:
    # The loop calls it, as it does for a socket: the waiter resumes inside the call.
    asyncio.get_running_loop().call_soon(connection.data_received, data)
    await asyncio.sleep(0)


def make_connection() -> UpstreamConnection:
    connection = UpstreamConnection(ReadCoalescer(0))
    connection.connection_made(Mock())
    return connection


async def begin_reply() -> UpstreamConnection:
    """Returns a connection that has received the head of a reply."""
    connection = make_connection()
    sending = asyncio.ensure_future(connection.send(b"", None))
    await asyncio.sleep(0)
    await deliver(connection, HEAD)
    await sending
    return connection


class ConnectedPool(PooledTransport):
    """A pool whose connections lead nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.connections: list[UpstreamConnection] = []

    async def _dial(self, origin: ServerOrigin, seconds: float | None) -> UpstreamConnection:
        self.connections.append(make_connection())
        return self.connections[-1]


class Reader:
    """Reads the whole body of a reply: pushed chunks and reads as long as it accepts them, the rest by waiting."""

    def __init__(
        self, data: list[bytes], *, unpushed: frozenset[int] = frozenset(), unpassed: frozenset[int] = frozenset()
    ) -> None:
        """`unpushed`: indexes of reads after which its task is woken. `unpassed`: those of reads refused as chunks."""
        self._data = data
        self._unpushed = unpushed
        self._unpassed = unpassed
        self.body = bytearray()
        self.chunks: list[bytes] = []
        self.sink = FakeSink(self._push, self._pass_chunks)

    async def read(self) -> None:
        connection = make_connection()
        reading = asyncio.ensure_future(self._read(connection))
        await asyncio.sleep(0)
        for at, data in enumerate(self._data):
            self._at = at
            await deliver(connection, data)
        await reading
        assert connection.end_request()

    async def _read(self, connection: UpstreamConnection) -> None:
        await connection.send(b"", None)
        self.body += connection.take()
        while not connection.reply.is_complete:
            await connection.wait_for_read(self.sink)
            self.body += connection.take()

    def _push(self, read: bytes) -> bool:
        self.body += read
        return bool(read) and self._at not in self._unpushed

    def _pass_chunks(self, data: bytes) -> int:
        if self._at in self._unpassed:
            return 0
        rest = data
        while rest:
            digits, _, behind = rest.partition(b"\r\n")
            if not HEX.fullmatch(digits) or len(behind) < (size := int(digits, 16)) + 2:
                break
            self.body += behind[:size]
            rest = behind[size + 2 :]
        passed = len(data) - len(rest)
        if passed:
            self.chunks.append(data[:passed])
        return passed


async def test_after_the_end_of_a_chunk_the_next_chunks_bypass_the_parser() -> None:
    cut = chunk(b"three")
    reader = Reader([HEAD, chunk(b"one"), chunk(b"two"), cut[:4], cut[4:], chunk(b"four"), chunk(b"five"), END])
    await reader.read()
    assert bytes(reader.body) == b"onetwothreefourfive"
    assert reader.chunks == [chunk(b"two"), chunk(b"four"), chunk(b"five")]


async def test_consecutive_chunks_bypass_the_parser() -> None:
    reader = Reader([HEAD, chunk(b"one"), chunk(b"two") + chunk(b"three") + END[:2], END[2:]])
    await reader.read()
    assert bytes(reader.body) == b"onetwothree"
    assert reader.chunks == [chunk(b"two") + chunk(b"three")]


@pytest.mark.parametrize(
    ("begins", "ends", "body"),
    [
        (b"6\r\n", b"1\r\n1\r\n\r\n", b"1\r\n1\r\n"),
        (b"6\r", b"\n1\r\n1\r\n\r\n", b"1\r\n1\r\n"),
        (b"6;x", b"\r\n1\r\n1\r\n\r\n", b"1\r\n1\r\n"),
        (b"8\r\nab", b"1\r\n1\r\n\r\n", b"ab1\r\n1\r\n"),
        (b"1", b"3\r\nabc\r\n%b\r\n" % (b"x" * 14), b"abc\r\n%b" % (b"x" * 14)),
    ],
)
async def test_data_that_resembles_a_chunk_is_not_taken_for_one(begins: bytes, ends: bytes, body: bytes) -> None:
    reader = Reader([HEAD, chunk(b"zero"), chunk(b"one") + begins, ends, chunk(b"two"), END])
    await reader.read()
    assert bytes(reader.body) == b"zeroone%btwo" % body
    assert reader.chunks == [chunk(b"one"), chunk(b"two")]


@pytest.mark.skipif(CORE is None, reason="the core is not compiled here: it needs a C compiler")
async def test_the_first_chunks_of_a_long_read_are_parsed_before_the_rest_arrives() -> None:
    chunks = [chunk(b"%d" % at * 100) for at in range(30)]
    reader = Reader([HEAD + b"".join(chunks), END])
    await reader.read()
    assert bytes(reader.body) == b"".join(b"%d" % at * 100 for at in range(30))
    assert reader.chunks == [b"".join(chunks[3:])]


async def test_nothing_is_pushed_after_a_cancelled_wait() -> None:
    connection = await begin_reply()
    passed: list[bytes] = []

    def take(data: bytes) -> int:
        passed.append(data)
        return len(data)

    wait = connection.wait_for_read(FakeSink(bool, take))
    connection.data_received(chunk(b"one"))
    connection.data_received(chunk(b"two"))
    wait.cancel()
    connection.data_received(chunk(b"three"))
    assert (passed, connection.take()) == ([chunk(b"two")], b"three")


async def test_the_next_reply_on_a_connection_is_parsed_from_its_head_on() -> None:
    connection = await begin_reply()
    connection.data_received(chunk(b"one") + END)
    assert (connection.take(), connection.end_request()) == (b"one", True)
    sending = asyncio.ensure_future(connection.send(b"", None))
    await asyncio.sleep(0)
    await deliver(connection, b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nab\r\n")
    await sending
    assert connection.take() == b"ab\r\n"
    pushed: list[bytes] = []

    def push(read: bytes) -> bool:
        pushed.append(read)
        return True

    connection.wait_for_read(FakeSink(push, len))
    connection.data_received(chunk(b"cd"))
    connection.data_received(chunk(b"ef"))
    assert pushed == [chunk(b"cd"), chunk(b"ef")]


async def test_bytes_after_a_reply_in_one_read_answer_no_other_request() -> None:
    pool = ConnectedPool()
    target = RequestTarget.of("POST", httpx.URL("http://upstream/x"), [])
    answers: list[bytes] = []

    async def ask_twice() -> None:
        for _ in range(2):
            body = await pool.send(target, b"{}", RequestDeadlines())
            answers.append(b"".join([read async for read in body]))

    asking = asyncio.ensure_future(ask_twice())
    await asyncio.sleep(0)
    looks_chunked = chunk(b"a" * 30) * 3
    first = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(looks_chunked), looks_chunked)
    await deliver(pool.connections[0], first + b"HTTP/1.1 200 OK\r\ncontent-length: 3000\r\n\r\n" + b"x" * 3000)
    await asyncio.sleep(0)
    assert (answers, len(pool.connections)) == ([looks_chunked], 2)
    assert pool.connections[0].closed
    asking.cancel()


async def test_a_chunk_that_is_refused_is_parsed() -> None:
    reader = Reader([HEAD, chunk(b"one"), chunk(b"two"), chunk(b"three"), chunk(b"four"), END], unpassed=frozenset({3}))
    await reader.read()
    assert bytes(reader.body) == b"onetwothreefour"
    assert reader.chunks == [chunk(b"two"), chunk(b"four")]


BODIES = st.lists(
    st.sampled_from(
        [b"a", b"1", b"3\r\n", b"3\r\n3\r\n\r\n", b"d\r\ndata: {}\n\n\r\n", b"x" * 171, b"y" * 900, b"1\r\n1\r\n"]
    )
)


@settings(max_examples=500)
@given(
    BODIES,
    st.lists(st.integers(0, 3000)),
    st.frozensets(st.integers(0, 20)),
    st.frozensets(st.integers(0, 20)),
    st.integers(0, 9),
    st.booleans(),
)
async def test_the_parser_stays_in_step_wherever_reads_are_split(
    bodies: list[bytes],
    cuts: list[int],
    unpushed: frozenset[int],
    unpassed: frozenset[int],
    joined: int,
    head_comes_with_it: bool,
) -> None:
    whole, starts = b"", [0]
    for body in bodies:
        whole += chunk(body)
        starts.append(len(whole))
    whole += END
    # Most reads are one chunk, as if deltas arrived one by one.
    ends = sorted(
        {*(cut for cut in cuts if cut < len(whole)), *(at for at in starts if at % 10 != joined), 0, len(whole)}
    )
    data = [HEAD, *(whole[start:end] for start, end in pairwise(ends))]
    if head_comes_with_it:
        data[:2] = [HEAD + data[1]]
    reader = Reader(data, unpushed=unpushed, unpassed=unpassed)
    await reader.read()
    assert bytes(reader.body) == b"".join(bodies)
