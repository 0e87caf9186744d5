"""Steps of a source: single pieces, and other sources that are read to their end."""

from collections.abc import AsyncGenerator

import pytest

from dataplane.source import IteratedSource, Source
from dataplane.stepped_source import SteppedSource
from tests.unit.dataplane.sinks import FakeSink
from tests.unit.dataplane.test_source import Pieces


def stepped(*steps: str | Pieces | Exception, closed: list[str] | None = None) -> SteppedSource[str]:
    async def generate() -> AsyncGenerator[str | Source[str], None]:
        try:
            for step in steps:
                if isinstance(step, Exception):
                    raise step
                yield IteratedSource(step(), "") if isinstance(step, Pieces) else step
        finally:
            if closed is not None:
                closed.append("steps")

    return SteppedSource(generate(), "")


async def test_steps_are_read_in_their_order_and_each_source_is_closed_before_the_next_step() -> None:
    first, second = Pieces("b", "", "c"), Pieces("d")
    pieces = stepped("a", first, "-", second, "e").iterate()
    seen = [(piece, first.closed, second.closed) async for piece in pieces]
    assert seen == [
        ("a", False, False),
        ("b", False, False),
        ("c", False, False),
        ("-", True, False),
        ("d", True, False),
        ("e", True, True),
    ]


@pytest.mark.parametrize("steps", [["a", Pieces("b", ValueError("no"))], ["a", Pieces("b"), ValueError("no")]])
async def test_a_failure_is_raised_after_the_pieces_before_it_and_all_is_closed(steps: list[str | Pieces]) -> None:
    closed: list[str] = []
    pieces = stepped(*steps, closed=closed).iterate()
    assert [await anext(pieces), await anext(pieces)] == ["a", "b"]
    with pytest.raises(ValueError, match="no"):
        await anext(pieces)
    assert closed == ["steps"]


async def test_leaving_in_the_middle_of_a_source_closes_it_and_the_steps() -> None:
    inner, closed = Pieces("b", "c"), list[str]()
    source = stepped("a", inner, closed=closed)
    pieces = source.iterate()
    assert [await anext(pieces), await anext(pieces)] == ["a", "b"]
    await pieces.aclose()
    assert (inner.closed, closed) == (True, ["steps"])


async def test_a_sink_handles_the_steps_up_to_the_next_source() -> None:
    source, taken = stepped("a", "b", Pieces("c"), "d"), list[str]()

    def push(read: bytes) -> bool:
        assert read == b""
        taken.append(source.take())
        return not source.ended and not source.is_draining

    sink = FakeSink(push)
    await source.wait_for_read(sink)
    assert taken == ["a", "b"], "a source was opened, and is waited for anew"
    while not source.ended:
        await source.wait_for_read(sink)
    assert [piece for piece in taken if piece] == ["a", "b", "c", "d"]
    await source.close()
