"""Whole chunks go past the HTTP parser, and it stays in step with what it is given."""

import asyncio
import re
from collections.abc import Callable
from itertools import pairwise
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers import chunked
from providers.connection import Connection
from tests.unit.sinks import FakeSink

Whole = Callable[[bytes, list[bytes]], bool]
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
WAYS = [chunked.one_whole_chunk]
if chunked.whole_chunks is not chunked.one_whole_chunk:
    WAYS.append(chunked.whole_chunks)
HEX = re.compile(rb"[1-9a-f][0-9a-f]*")
END = b"0\r\n\r\n"


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


EITHER = pytest.mark.parametrize("is_whole", WAYS, ids=["python", "compiled"][: len(WAYS)])


@EITHER
@pytest.mark.parametrize("size", [1, 9, 10, 15, 16, 0xAB, 255, 256, 1024])
def test_a_whole_chunk_is_known_by_its_length(is_whole: Whole, size: int) -> None:
    body = b"x" * size
    for data in (chunk(body), b"%X\r\n%b\r\n" % (size, body)):
        assert data.startswith(chunked.SIZE_LINES[len(data)])
        assert is_whole(data, [body])


@EITHER
@pytest.mark.parametrize(
    ("data", "piece"),
    [
        # The rest of an earlier chunk, and what looks like one of its own.
        (b"3\r\ntwo\r\n", b"3\r\ntwo\r\n"),
        (b"1\r\n1\r\n", b"1"),
        (b"3\r\n3\r\n\r\n", b"3\r\n"),
        (b"3\r\ntwo\r\n3\r\n", b"two"),
        (b"3;ext\r\ntwo\r\n", b"two"),
        (b"03\r\ntwo\r\n", b"two"),
        (b"5\r\ntw", b"tw"),
        (b"x" * 5000, b"x"),
    ],
)
def test_what_may_not_be_a_whole_chunk_is_none(is_whole: Whole, data: bytes, piece: bytes) -> None:
    assert not is_whole(data, [piece])


class Reader:
    """Takes the whole body of a reply: chunks and reads on the spot, as long as it is told to, the rest by waiting."""

    def __init__(
        self, data: list[bytes], *, unpushed: frozenset[int] = frozenset(), unpassed: frozenset[int] = frozenset()
    ) -> None:
        """`unpushed`, `unpassed`: which of the data are refused as reads and as chunks."""
        self._data = data
        self._unpushed = unpushed
        self._unpassed = unpassed
        self.body = bytearray()
        self.chunks: list[bytes] = []
        self.sink = FakeSink(self._push, self._pass_chunks)

    async def read(self) -> None:
        connection = Connection()
        connection.connection_made(Mock())
        sending = asyncio.ensure_future(connection.send(b"", None))
        await asyncio.sleep(0)
        await self._come(connection, HEAD)
        await sending
        self._connection = connection
        reading = asyncio.ensure_future(self._wait())
        for at, data in enumerate(self._data):
            self._at = at
            await self._come(connection, data)
        await reading
        assert connection.rest()

    async def _come(self, connection: Connection, data: bytes) -> None:
        # From the loop, as from a socket: whoever waits goes on in there.
        asyncio.get_running_loop().call_soon(connection.data_received, data)
        await asyncio.sleep(0)

    async def _wait(self) -> None:
        while not self._connection.whole:
            await self._connection.arrival(self.sink)
            self.body += self._connection.take()

    def _push(self, read: bytes) -> bool:
        if not read or self._at in self._unpushed:
            return False
        self.body += read
        return True

    def _pass_chunks(self, data: bytes) -> bool:
        if self._at in self._unpassed:
            return False
        body, rest = b"", data
        while rest:
            digits, _, behind = rest.partition(b"\r\n")
            if not HEX.fullmatch(digits) or len(behind) < (size := int(digits, 16)) + 2:
                return False
            body, rest = body + behind[:size], behind[size + 2 :]
        self.chunks.append(data)
        self.body += body
        return True


async def test_after_one_whole_chunk_the_next_go_past_the_parser() -> None:
    cut = chunk(b"three")
    reader = Reader([chunk(b"one"), chunk(b"two"), cut[:4], cut[4:], chunk(b"four"), chunk(b"five"), END])
    await reader.read()
    assert bytes(reader.body) == b"onetwothreefourfive"
    assert reader.chunks == [chunk(b"two"), chunk(b"five")]


async def test_a_chunk_that_is_refused_is_parsed() -> None:
    reader = Reader([chunk(b"one"), chunk(b"two"), chunk(b"three"), chunk(b"four"), END], unpassed=frozenset({2}))
    await reader.read()
    assert bytes(reader.body) == b"onetwothreefour"
    assert reader.chunks == [chunk(b"two"), chunk(b"four")]


BODIES = st.lists(
    st.sampled_from([b"a", b"1", b"3\r\n", b"3\r\n3\r\n\r\n", b"d\r\ndata: {}\n\n\r\n", b"x" * 171, b"1\r\n1\r\n"])
)


@settings(deadline=None, max_examples=500)
@given(
    BODIES,
    st.lists(st.integers(0, 600)),
    st.frozensets(st.integers(0, 20)),
    st.frozensets(st.integers(0, 20)),
    st.integers(0, 9),
)
async def test_the_parser_stays_in_step_wherever_reads_are_cut(
    bodies: list[bytes], cuts: list[int], unpushed: frozenset[int], unpassed: frozenset[int], joined: int
) -> None:
    whole, starts = b"", [0]
    for body in bodies:
        whole += chunk(body)
        starts.append(len(whole))
    whole += END
    # Most chunks come alone, as they do where deltas come one by one.
    ends = sorted(
        {*(cut for cut in cuts if cut < len(whole)), *(at for at in starts if at % 10 != joined), 0, len(whole)}
    )
    reader = Reader([whole[start:end] for start, end in pairwise(ends)], unpushed=unpushed, unpassed=unpassed)
    await reader.read()
    assert bytes(reader.body) == b"".join(bodies)
