"""A client that reads nothing is given up after some looks in a row without progress."""

import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import pytest

from dataplane.client_watches import UnreadWatch
from tests.polling import block_until

LOOKS = 4
SECONDS = 120.0


class Loop:
    """An event loop whose only timer fires when the test says so."""

    def __init__(self) -> None:
        self.pending: Callable[[], None] | None = None

    def call_later(self, seconds: float, callback: Callable[[], None]) -> "Loop":
        assert seconds == SECONDS / LOOKS
        assert self.pending is None
        self.pending = callback
        return self

    def cancel(self) -> None:
        self.pending = None

    def fire(self) -> None:
        callback, self.pending = self.pending, None
        assert callback is not None
        callback()


class Transport:
    """A transport with some bytes that wait, and a socket that may have some too."""

    def __init__(self, waiting: int, sent: socket.socket | None = None) -> None:
        self.waiting = waiting
        self.is_aborted = False
        self._socket = sent

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def get_extra_info(self, name: str) -> object:
        assert name == "socket"
        return self._socket

    def abort(self) -> None:
        self.is_aborted = True


def watch(transport: Transport, loop: Loop) -> tuple[UnreadWatch, list[int]]:
    stalls: list[int] = []
    return UnreadWatch(cast("Any", transport), cast("Any", loop), SECONDS, stalls.append), stalls


@pytest.mark.parametrize(
    ("sizes", "look"),
    [
        pytest.param([9] * 20, LOOKS, id="reads nothing"),
        pytest.param(list(range(10, 30)), LOOKS, id="reads nothing while more is written"),
        pytest.param(list(range(30, 10, -1)), None, id="reads slowly"),
        pytest.param([9, 9, 9, 8, 8, 8, 8, 8], 3 + LOOKS, id="stops reading"),
        pytest.param([9, 9, 9, 0], None, id="has read all"),
    ],
)
def test_the_look_at_which_a_client_is_given_up(sizes: Sequence[int], look: int | None) -> None:
    transport, loop = Transport(sizes[0]), Loop()
    unread, stalls = watch(transport, loop)
    unread.begin()
    aborted_at = None
    for number, size in enumerate(sizes[1:], 1):
        transport.waiting = size
        loop.fire()
        if transport.is_aborted:
            aborted_at = number
            break
    assert aborted_at == look
    assert stalls == ([] if look is None else [sizes[look]])
    assert (loop.pending is None) == (look is not None or sizes[-1] == 0)


def test_a_watch_begins_once_and_may_end_and_begin_again() -> None:
    transport, loop = Transport(9), Loop()
    unread, _ = watch(transport, loop)
    unread.end()
    for _ in range(LOOKS):
        unread.begin()
        unread.begin()
        loop.fire()
        loop.fire()
        unread.end()
        assert loop.pending is None
    assert not transport.is_aborted


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell what a client has acknowledged")
def test_bytes_that_the_system_has_sent_count_as_progress() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        accepted, _ = listener.accept()
        with accepted:
            accepted.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    accepted.send(bytes(65536))
            transport, loop = Transport(9, accepted), Loop()
            unread, _ = watch(transport, loop)
            unread.begin()
            for _ in range(LOOKS - 1):
                loop.fire()
            before = unread._count_sent()
            block_until(lambda: client.recv(1024 * 1024) and unread._count_sent() < before)
            loop.fire()
            assert not transport.is_aborted
