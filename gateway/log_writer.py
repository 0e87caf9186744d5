"""Writes lines to a stream that may not be read, without ever waiting for it."""

import atexit
import os
import select
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import BinaryIO, Final

_MAX_QUEUED_BYTES: Final = 1024 * 1024
"""Lines beyond this are dropped: some five thousand lines of the access log, a second of the busiest server."""

_ATOMIC_BYTES: Final = 4096
"""The most bytes that a pipe takes in one piece (PIPE_BUF on Linux). Worker processes share the pipe, so a larger write
of one could have a line of another in its middle."""

_EXIT_WAIT_S: Final = 1.0
"""The longest wait for the reader of the last lines, when the process ends."""


class LogWriter:
    """Writes lines to a pipe or terminal that takes them, else from a thread, through a bounded queue. Regular files
    are written directly.

    A pipe whose reader has stopped is full after 64 KiB, and the next write to it would wait for ever: on the event
    loop, with every client. Lines that find the queue full are dropped and counted. Once the stream takes lines again,
    it gets the line of `render_dropped` with their number. It is a file for structlog: it has `write` and `flush`.
    """

    def __init__(
        self,
        stream: BinaryIO,
        render_dropped: Callable[[int], bytes] | None = None,
        *,
        max_queued_bytes: int = _MAX_QUEUED_BYTES,
    ) -> None:
        self._stream = stream
        self._descriptor = _descriptor_of(stream)
        self._pipe = None if self._descriptor is None else _reopen_pipe(self._descriptor)
        """The same pipe, where a write fails instead of waiting. To wake the thread for each line costs more than the
        write: the two take the interpreter from each other."""
        self._render_dropped = render_dropped
        self._max_queued_bytes = max_queued_bytes
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._queued_bytes = 0
        self._dropped = 0
        self._thread: threading.Thread | None = None
        self._waits_for_lines = False
        if self._descriptor is not None:
            atexit.register(self.drain, _EXIT_WAIT_S)

    def write_lines(self, lines: Iterable[bytes]) -> None:
        """Writes several lines, to which it adds their line breaks. Never waits and never raises, as `write`."""
        piece = b""
        for line in lines:
            if piece and len(piece) + len(line) >= _ATOMIC_BYTES:
                self.write(piece)
                piece = b""
            piece += line + b"\n"
        if piece:
            self.write(piece)

    def write(self, line: bytes) -> int:
        """Writes whole lines, or queues them. Never waits for a reader, and never raises because of the stream."""
        if self._pipe is not None and not self._queued_bytes and len(line) <= _ATOMIC_BYTES:
            try:
                return os.write(self._pipe, line)
            except OSError:
                pass  # the thread waits for the reader, or finds out that there is none
        if self._descriptor is None:
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):
                pass  # there is no other place to report it
            return len(line)
        with self._changed:
            if self._queued_bytes + len(line) > self._max_queued_bytes:
                self._dropped += line.count(b"\n")
                return len(line)
            self._lines.append(line)
            self._queued_bytes += len(line)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._write_lines, args=(self._descriptor,), name="log-writer", daemon=True
                )
                self._thread.start()
            elif self._waits_for_lines:
                self._waits_for_lines = False
                self._changed.notify_all()
        return len(line)

    def flush(self) -> None:
        """Does nothing: lines are written as soon as the stream takes them."""

    def drain(self, max_s: float) -> None:
        """Waits until all lines are written, at most `max_s` seconds."""
        deadline = time.monotonic() + max_s
        with self._changed:
            while self._queued_bytes and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)

    def _write_lines(self, descriptor: int) -> None:
        while True:
            with self._changed:
                while not self._lines:
                    self._waits_for_lines = True
                    self._changed.wait()
                piece = self._lines.popleft()
                while self._lines and len(piece) + len(self._lines[0]) <= _ATOMIC_BYTES:
                    piece += self._lines.popleft()
            _write_all(descriptor, piece)
            with self._changed:
                self._queued_bytes -= len(piece)
                dropped = 0
                if not self._lines:  # lines were dropped after the queued lines
                    dropped, self._dropped = self._dropped, 0
                self._changed.notify_all()
            if dropped and self._render_dropped is not None:
                _write_all(descriptor, self._render_dropped(dropped))


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:  # the stream was opened as non-blocking
            select.select([], [descriptor], [])
        except OSError:  # the stream has no reader any more, and there is no other place to report this
            return


def _descriptor_of(stream: BinaryIO) -> int | None:
    """Returns the descriptor of a stream whose reader may stop reading; None for a regular file, or one in memory."""
    try:
        descriptor = stream.fileno()
        return None if stat.S_ISREG(os.fstat(descriptor).st_mode) else descriptor
    except (OSError, ValueError):
        return None


def _reopen_pipe(descriptor: int) -> int | None:
    """Returns a descriptor of the same pipe that does not block; None if it is no pipe, or the system cannot do that.

    To set the flag of the given one would change it for the processes that share it.
    """
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return None
        return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None
