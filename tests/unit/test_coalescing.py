"""Streams that together bring much are read at common moments; all others as it comes."""

import os
import select
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from providers import coalescing
from providers.coalescing import READS, Coalescing

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="epoll(7) is Linux's")

APART_S = 0.004


def test_nobody_joins_where_there_is_no_epoll(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Coalescing(APART_S).is_possible
    monkeypatch.setattr(coalescing, "_HAS_EPOLL", False)
    assert not Coalescing(APART_S).is_possible


class Loop:
    """An event loop as far as it is asked for moments."""

    def __init__(self) -> None:
        self.moments: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, come: Callable[[], None]) -> "Loop":
        self.moments.append((seconds, come))
        return self

    def cancel(self) -> None:
        self.moments.pop()

    def come(self) -> None:
        """The next moment."""
        [(seconds, come)] = self.moments
        assert seconds == APART_S
        self.moments.clear()
        come()


@dataclass
class Pair:
    """A stream on a real socket."""

    together: Coalescing
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

    def read_as_it_comes(self) -> None:
        self.left += 1
        self.together.leave(self.here.fileno(), self)

    def fail(self, error: Exception) -> None:
        self.failed.append(error)
        self.read_as_it_comes()


ANY_LOOP: Any = Loop()


@pytest.fixture
def together() -> Coalescing:
    return Coalescing(APART_S)


@pytest.fixture
def pair(together: Coalescing) -> Iterator[Callable[[], Pair]]:
    with ExitStack() as open_sockets:

        def make() -> Pair:
            here, there = socket.socketpair()
            here.setblocking(False)
            return Pair(together, open_sockets.enter_context(here), open_sockets.enter_context(there))

        yield make


def test_all_that_has_come_by_a_moment_is_read_then(together: Coalescing, pair: Callable[[], Pair]) -> None:
    loop, one, two = Loop(), pair(), pair()
    one.join(loop)
    two.join(loop)
    one.there.send(b"a")
    one.there.send(b"b")
    two.there.send(b"c")
    loop.come()
    assert (one.came, two.came) == ([b"ab"], [b"c"])
    two.there.send(b"d")
    loop.come()
    assert (one.came, two.came) == ([b"ab"], [b"c", b"d"])


def test_the_end_of_a_stream_is_not_read_here(pair: Callable[[], Pair]) -> None:
    loop, one, two = Loop(), pair(), pair()
    one.join(loop)
    two.join(loop)
    one.there.send(b"last words")
    one.there.close()
    loop.come()
    assert (one.came, one.left) == ([], 1)
    assert one.here.recv(100) == b"last words"
    two.there.send(b"a")
    loop.come()
    assert two.came == [b"a"]


def test_the_last_words_of_one_that_says_no_more_are_not_read_here(together: Coalescing) -> None:
    loop = Loop()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as here:
        there, _ = server.accept()
        with there:
            one = Pair(together, here, there)
            one.join(loop)
            there.send(b"last words")
            there.shutdown(socket.SHUT_WR)
            loop.come()
            assert (one.came, one.left) == ([], 1)


def test_one_that_has_been_reset_is_not_read_here(together: Coalescing) -> None:
    loop = Loop()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as here:
        there, _ = server.accept()
        one = Pair(together, here, there)
        one.join(loop)
        there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        there.close()
        loop.come()
        assert (one.came, one.left) == ([], 1)


def test_one_that_leaves_while_another_is_read_is_not_read(pair: Callable[[], Pair]) -> None:
    loop, one, two = Loop(), pair(), pair()
    for each, other in ((one, two), (two, one)):
        each.join(loop)
        each.then = other.read_as_it_comes
        each.there.send(b"a")
    loop.come()
    assert one.came + two.came == [b"a"]


def test_one_that_has_nothing_after_all_stays(pair: Callable[[], Pair]) -> None:
    loop, one, two = Loop(), pair(), pair()
    for each, other in ((one, two), (two, one)):
        each.join(loop)
        each.then = partial(other.here.recv, 100)
        each.there.send(b"a")
    loop.come()
    assert one.came + two.came == [b"a"]
    one.then = two.then = lambda: None
    one.there.send(b"b")
    two.there.send(b"b")
    loop.come()
    assert one.came + two.came in ([b"a", b"b", b"b"], [b"b", b"a", b"b"])


def test_with_the_last_that_leaves_there_are_no_moments(pair: Callable[[], Pair]) -> None:
    loop, one, two = Loop(), pair(), pair()
    for each in (one, two):
        each.join(loop)
    one.read_as_it_comes()
    assert len(loop.moments) == 1
    two.read_as_it_comes()
    assert not loop.moments
    two.join(loop)
    two.there.send(b"a")
    loop.come()
    assert two.came == [b"a"]


def test_one_that_leaves_twice_has_left(pair: Callable[[], Pair]) -> None:
    loop, one = Loop(), pair()
    one.join(loop)
    one.read_as_it_comes()
    one.read_as_it_comes()
    assert not loop.moments


def test_whose_socket_has_been_closed_does_not_take_the_place_of_the_next(pair: Callable[[], Pair]) -> None:
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
    loop.come()
    assert two.came == [b"a"]
    two.here.close()
    two.together.leave(number, two)
    assert not loop.moments


def test_who_raises_has_failed_and_the_others_are_read(pair: Callable[[], Pair]) -> None:
    loop, one, two = Loop(), pair(), pair()
    defect = BlockingIOError("not of the read")

    def fail() -> None:
        raise defect

    one.then = fail
    for each in (one, two):
        each.join(loop)
        each.there.send(b"a")
    loop.come()
    assert (one.failed, one.left, two.came) == ([defect], 1, [b"a"])
    two.there.send(b"b")
    loop.come()
    assert two.came == [b"a", b"b"]


def test_one_that_cannot_be_read_has_failed(pair: Callable[[], Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    loop, one = Loop(), pair()
    one.join(loop)
    one.there.send(b"a")
    reset = ConnectionResetError()
    monkeypatch.setattr(os, "read", Mock(side_effect=reset))
    loop.come()
    assert (one.failed, one.came) == ([reset], [])


def test_one_that_brings_more_than_a_read_leaves(pair: Callable[[], Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    loop, one, two = Loop(), pair(), pair()
    monkeypatch.setattr(coalescing, "_MOST_BYTES", 4)
    for each in (one, two):
        each.join(loop)
    one.there.send(b"abcde")
    two.there.send(b"abc")
    loop.come()
    assert (one.came, one.left, two.came, two.left) == ([b"abcd"], 1, [b"abc"], 0)


def test_where_the_system_has_no_room_nothing_has_changed(
    together: Coalescing, pair: Callable[[], Pair], monkeypatch: pytest.MonkeyPatch
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
    loop.come()
    assert one.came == [b"a"]


def test_a_loop_that_ended_keeps_nobody_in_the_next(pair: Callable[[], Pair]) -> None:
    ended, loop, one, two = Loop(), Loop(), pair(), pair()
    one.join(ended)
    two.join(loop)
    one.there.send(b"a")
    two.there.send(b"b")
    loop.come()
    assert (one.came, two.came) == ([], [b"b"])
    one.read_as_it_comes()
    assert len(loop.moments) == 1


def test_all_leave_where_moments_bring_less_than_two_reads(pair: Callable[[], Pair]) -> None:
    loop, streams = Loop(), [pair() for _ in range(3)]
    for each in streams:
        each.join(loop)
    for _ in range(100):
        for each in streams[:2]:
            each.there.send(b"a")
        loop.come()
    assert [each.left for each in streams] == [0, 0, 0]
    moments = 0
    while loop.moments:
        streams[0].there.send(b"1\r\na\r\n")
        loop.come()
        moments += 1
    assert moments == 17
    assert [each.left for each in streams] == [1, 1, 1]


@pytest.mark.parametrize(("chunks", "stays"), [(1, False), (2, True)])
def test_a_single_stream_stays_where_it_brings_two_chunks(pair: Callable[[], Pair], chunks: int, stays: bool) -> None:
    loop, one = Loop(), pair()
    one.join(loop)
    for _ in range(17):
        one.there.send(b"1\r\na\r\n" * chunks)
        loop.come()
    assert bool(loop.moments) == stays


def test_steps_of_an_engine_keep_its_streams_together(pair: Callable[[], Pair]) -> None:
    loop, streams = Loop(), [pair() for _ in range(16)]
    for each in streams:
        each.join(loop)
    for _ in range(20):
        for each in streams:
            each.there.send(b"a")
        for _ in range(5):
            loop.come()
    assert not any(each.left for each in streams)


@pytest.mark.parametrize(("reads_per_s", "pays"), [(400, False), (499, False), (501, True), (3200, True)])
def test_it_pays_from_two_reads_in_a_moment_on(
    monkeypatch: pytest.MonkeyPatch, reads_per_s: int, pays: bool, together: Coalescing
) -> None:
    now = 0.0
    monkeypatch.setattr(coalescing, "monotonic", lambda: now)
    answers = []
    for _ in range(40):
        now += READS / reads_per_s
        answers.append(together.pays(ANY_LOOP))
    assert answers == [pays and at % 4 == 3 and at > 3 for at in range(40)]


def test_it_pays_to_join_others_of_the_same_loop(together: Coalescing, pair: Callable[[], Pair]) -> None:
    loop: Any = Loop()
    one = pair()
    assert not together.pays(loop)
    one.join(loop)
    assert together.pays(loop)
    assert not together.pays(ANY_LOOP)
    one.read_as_it_comes()
    assert not together.pays(loop)
