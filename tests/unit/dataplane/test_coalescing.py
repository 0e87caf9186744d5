"""Busy streams are read together at common moments; all others are read as data arrives."""

import os
import select
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from dataplane import coalescing
from dataplane.coalescing import READS_PER_JOIN_CHECK, ReadCoalescer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="epoll(7) is Linux's")

APART_S = 0.004


def test_without_epoll_no_stream_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ReadCoalescer(APART_S).is_possible
    monkeypatch.setattr(coalescing, "_HAS_EPOLL", False)
    assert not ReadCoalescer(APART_S).is_possible


class Loop:
    """An event loop, as far as the coalescer uses it."""

    def __init__(self) -> None:
        self.moments: list[tuple[float, Callable[[], None]]] = []

    def call_later(
        self, seconds: float, fire_moment: Callable[..., None], *arguments: object, context: Context
    ) -> "Loop":
        assert not list(context)
        self.moments.append((seconds, lambda: fire_moment(*arguments)))
        return self

    def cancel(self) -> None:
        self.moments.pop()

    def fire_moment(self) -> None:
        """The next moment."""
        [(seconds, fire_moment)] = self.moments
        assert seconds == APART_S
        self.moments.clear()
        fire_moment()


@dataclass
class Pair:
    """A stream on a real socket."""

    together: ReadCoalescer
    here: socket.socket
    there: socket.socket
    came: list[bytes] = field(default_factory=list)
    left: int = 0
    failed: list[Exception] = field(default_factory=list)
    then: Callable[[], object] = lambda: None

    def join(self, loop: Any) -> None:
        self.together.join(self.here.fileno(), self, loop)

    def data_received(self, data: bytes) -> None:
        self.came.append(data)
        self.then()

    def leave_coalescing(self) -> None:
        self.left += 1
        self.together.leave(self.here.fileno(), self)

    def fail(self, error: Exception) -> None:
        self.failed.append(error)
        self.leave_coalescing()


ANY_LOOP: Any = Loop()


@pytest.fixture
def together() -> ReadCoalescer:
    return ReadCoalescer(APART_S)


@pytest.fixture
def pair(together: ReadCoalescer) -> Iterator[Callable[[], Pair]]:
    with ExitStack() as open_sockets:

        def make() -> Pair:
            here, there = socket.socketpair()
            here.setblocking(False)
            return Pair(together, open_sockets.enter_context(here), open_sockets.enter_context(there))

        yield make


def test_everything_received_by_a_moment_is_read_then(together: ReadCoalescer, pair: Callable[[], Pair]) -> None:
    loop, one, two = Loop(), pair(), pair()
    one.join(loop)
    two.join(loop)
    one.there.send(b"a")
    one.there.send(b"b")
    two.there.send(b"c")
    loop.fire_moment()
    assert (one.came, two.came) == ([b"ab"], [b"c"])
    two.there.send(b"d")
    loop.fire_moment()
    assert (one.came, two.came) == ([b"ab"], [b"c", b"d"])


def test_the_end_of_a_stream_is_not_read_here(pair: Callable[[], Pair]) -> None:
    loop, one, two = Loop(), pair(), pair()
    one.join(loop)
    two.join(loop)
    one.there.send(b"last words")
    one.there.close()
    loop.fire_moment()
    assert (one.came, one.left) == ([], 1)
    assert one.here.recv(100) == b"last words"
    two.there.send(b"a")
    loop.fire_moment()
    assert two.came == [b"a"]


def test_the_last_bytes_of_a_half_closed_stream_are_not_read_here(together: ReadCoalescer) -> None:
    loop = Loop()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as here:
        there, _ = server.accept()
        with there:
            one = Pair(together, here, there)
            one.join(loop)
            there.send(b"last words")
            there.shutdown(socket.SHUT_WR)
            loop.fire_moment()
            assert (one.came, one.left) == ([], 1)


def test_a_reset_stream_is_not_read_here(together: ReadCoalescer) -> None:
    loop = Loop()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as here:
        there, _ = server.accept()
        one = Pair(together, here, there)
        one.join(loop)
        there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        there.close()
        loop.fire_moment()
        assert (one.came, one.left) == ([], 1)


def test_a_stream_that_leaves_while_another_is_read_is_not_read(pair: Callable[[], Pair]) -> None:
    loop, one, two = Loop(), pair(), pair()
    for each, other in ((one, two), (two, one)):
        each.join(loop)
        each.then = other.leave_coalescing
        each.there.send(b"a")
    loop.fire_moment()
    assert one.came + two.came == [b"a"]


def test_a_stream_without_data_stays(pair: Callable[[], Pair]) -> None:
    loop, one, two = Loop(), pair(), pair()
    for each, other in ((one, two), (two, one)):
        each.join(loop)
        each.then = partial(other.here.recv, 100)
        each.there.send(b"a")
    loop.fire_moment()
    assert one.came + two.came == [b"a"]
    one.then = two.then = lambda: None
    one.there.send(b"b")
    two.there.send(b"b")
    loop.fire_moment()
    assert one.came + two.came in ([b"a", b"b", b"b"], [b"b", b"a", b"b"])


def test_after_the_last_stream_leaves_no_moments_are_scheduled(pair: Callable[[], Pair]) -> None:
    loop, one, two = Loop(), pair(), pair()
    for each in (one, two):
        each.join(loop)
    one.leave_coalescing()
    assert len(loop.moments) == 1
    two.leave_coalescing()
    assert not loop.moments
    two.join(loop)
    two.there.send(b"a")
    loop.fire_moment()
    assert two.came == [b"a"]


def test_a_stream_may_leave_twice(pair: Callable[[], Pair]) -> None:
    loop, one = Loop(), pair()
    one.join(loop)
    one.leave_coalescing()
    one.leave_coalescing()
    assert not loop.moments


def test_a_closed_socket_does_not_affect_the_next_with_its_descriptor(pair: Callable[[], Pair]) -> None:
    loop, one = Loop(), pair()
    one.join(loop)
    number = one.here.fileno()
    one.here.close()
    two = pair()
    while two.here.fileno() != number:
        two = pair()
    two.join(loop)
    one.together.leave(number, one)
    two.there.send(b"a")
    loop.fire_moment()
    assert two.came == [b"a"]
    two.here.close()
    two.together.leave(number, two)
    assert not loop.moments


def test_a_stream_whose_reader_raises_fails_and_others_are_read(pair: Callable[[], Pair]) -> None:
    loop, one, two = Loop(), pair(), pair()
    defect = BlockingIOError("not of the read")

    def fail() -> None:
        raise defect

    one.then = fail
    for each in (one, two):
        each.join(loop)
        each.there.send(b"a")
    loop.fire_moment()
    assert (one.failed, one.left, two.came) == ([defect], 1, [b"a"])
    two.there.send(b"b")
    loop.fire_moment()
    assert two.came == [b"a", b"b"]


def test_a_stream_that_cannot_be_read_fails(pair: Callable[[], Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    loop, one = Loop(), pair()
    one.join(loop)
    one.there.send(b"a")
    reset = ConnectionResetError()
    monkeypatch.setattr(os, "read", Mock(side_effect=reset))
    loop.fire_moment()
    assert (one.failed, one.came) == ([reset], [])


def test_a_stream_with_more_than_one_read_leaves(pair: Callable[[], Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    loop, one, two = Loop(), pair(), pair()
    monkeypatch.setattr(coalescing, "_MAX_READ_BYTES", 4)
    for each in (one, two):
        each.join(loop)
    one.there.send(b"abcde")
    two.there.send(b"abc")
    loop.fire_moment()
    assert (one.came, one.left, two.came, two.left) == ([b"abcd"], 1, [b"abc"], 0)


def test_a_failed_registration_changes_nothing(
    together: ReadCoalescer, pair: Callable[[], Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, one = Loop(), pair()
    with monkeypatch.context() as without_room:
        without_room.setattr(select, "epoll", Mock(side_effect=OSError("too many open files")))
        with pytest.raises(OSError, match="too many"):
            one.join(loop)
    with pytest.raises(OSError, match="descriptor"):
        together.join(99999, one, loop)  # type: ignore[arg-type]
    assert not loop.moments
    one.join(loop)
    one.there.send(b"a")
    loop.fire_moment()
    assert one.came == [b"a"]


def test_a_closed_loop_leaves_no_streams_to_the_next(pair: Callable[[], Pair]) -> None:
    ended, loop, one, two = Loop(), Loop(), pair(), pair()
    one.join(ended)
    two.join(loop)
    one.there.send(b"a")
    two.there.send(b"b")
    loop.fire_moment()
    assert (one.came, two.came) == ([], [b"b"])
    one.leave_coalescing()
    assert len(loop.moments) == 1


def moments_until_all_leave(loop: Loop, streams: list[Pair], *, bring_in_four: int) -> int | None:
    """Returns after how many moments all streams leave if this many of four have data; None if they stay."""
    for at in range(400):
        if not loop.moments:
            return at
        if at % 4 < bring_in_four:
            streams[0].there.send(b"a")
        loop.fire_moment()
    return None


@pytest.mark.parametrize(("bring_in_four", "moments"), [(0, 17), (1, 32), (2, None), (3, None), (4, None)])
def test_all_streams_leave_if_most_moments_bring_nothing(
    pair: Callable[[], Pair], bring_in_four: int, moments: int | None
) -> None:
    loop, streams = Loop(), [pair() for _ in range(3)]
    for each in streams:
        each.join(loop)
    assert moments_until_all_leave(loop, streams, bring_in_four=bring_in_four) == moments
    assert [each.left for each in streams] == [0 if moments is None else 1] * 3


def test_streams_that_flowed_for_long_are_not_waited_for_longer(pair: Callable[[], Pair]) -> None:
    loop, one = Loop(), pair()
    one.join(loop)
    assert moments_until_all_leave(loop, [one], bring_in_four=4) is None
    assert moments_until_all_leave(loop, [one], bring_in_four=0) == 17


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(coalescing, "monotonic", clock)
    return clock


@pytest.mark.parametrize(
    ("apart_ms", "pays_after_ms"), [(1.1, 35.2), (3.9, 62.4), (4.1, 32.8), (7.9, 63.2), (8.1, None), (20, None)]
)
def test_joining_pays_after_eight_spans_in_a_row_with_a_request(
    clock: Clock, together: ReadCoalescer, apart_ms: float, pays_after_ms: float | None
) -> None:
    began = clock.now
    answers = [together.should_join(ANY_LOOP)]
    while not answers[-1] and len(answers) < 100:
        clock.now += apart_ms / 1000
        answers.append(together.should_join(ANY_LOOP))
    assert (pytest.approx((clock.now - began) * 1000) if answers[-1] else None) == pays_after_ms


def test_joining_does_not_pay_if_steps_of_an_engine_are_sent_at_once(clock: Clock, together: ReadCoalescer) -> None:
    answers = []
    for _ in range(100):
        for _ in range(64):
            clock.now += 0.00005
            answers.append(together.should_join(ANY_LOOP))
        clock.now += 0.0168
    assert not any(answers)


def test_streams_that_begin_together_request_joining_at_different_reads(together: ReadCoalescer) -> None:
    assert sorted(together.next_stagger() for _ in range(2 * READS_PER_JOIN_CHECK)) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_joining_others_of_the_same_loop_pays(together: ReadCoalescer, pair: Callable[[], Pair]) -> None:
    loop: Any = Loop()
    one = pair()
    one.join(loop)
    assert together.should_join(loop)
    assert not together.should_join(ANY_LOOP)
    one.leave_coalescing()
    assert not together.should_join(loop)
