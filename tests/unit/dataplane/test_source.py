"""Sources are read to their end, and released whatever happens."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from dataplane.source import IteratedSource
from tests.unit.dataplane.sinks import FakeSink


class Pieces:
    """A source of pieces. An exception among them ends it."""

    def __init__(self, *pieces: str | Exception) -> None:
        self.closed = False
        self._pieces = pieces

    async def __call__(self) -> AsyncGenerator[str, None]:
        try:
            for piece in self._pieces:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self.closed = True


async def test_every_piece_is_read_once() -> None:
    pieces = Pieces("a", "", "b")
    assert [piece async for piece in IteratedSource(pieces(), "").iterate()] == ["a", "b"]
    assert pieces.closed


async def test_a_failure_is_raised_after_the_pieces_before_it() -> None:
    pieces = Pieces("a", ValueError("no"))
    each = IteratedSource(pieces(), "").iterate()
    assert await anext(each) == "a"
    with pytest.raises(ValueError, match="no"):
        await anext(each)
    assert pieces.closed


async def test_closing_in_the_middle_releases_the_source() -> None:
    pieces = Pieces("a", "b")
    async with aclosing(IteratedSource(pieces(), "").iterate()) as each:
        assert await anext(each) == "a"
    assert pieces.closed


async def test_every_piece_is_pushed_to_the_sink() -> None:
    pieces, taken = Pieces("a", "", "b"), list[str]()
    await IteratedSource(pieces(), "").feed_to(taken.append)
    assert taken == ["a", "b"]
    assert pieces.closed


async def test_a_sink_that_takes_no_more_releases_the_source() -> None:
    pieces = Pieces("a", "b")

    def refuse(piece: str) -> None:
        raise ValueError(piece)

    with pytest.raises(ValueError, match="a"):
        await IteratedSource(pieces(), "").feed_to(refuse)
    assert pieces.closed


async def test_a_sink_takes_pieces_for_as_long_as_it_wants() -> None:
    incoming = IteratedSource(Pieces("a", "b", "c", "d")(), "")
    pushed: list[str] = []

    def push(read: bytes) -> bool:
        assert read == b""
        if len(pushed) == 2:
            return False
        pushed.append(incoming.take())
        return True

    await incoming.wait_for_read(FakeSink(push))
    assert (pushed, incoming.take(), incoming.ended) == (["a", "b"], "c", False)
    await incoming.close()


async def test_a_sink_is_notified_of_the_end() -> None:
    incoming = IteratedSource(Pieces("a")(), "")
    await incoming.wait_for_read(FakeSink(lambda _: bool(incoming.take())))
    assert incoming.ended
