"""Lines reach a stream in order, and an unread stream blocks nobody."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from gateway.log_writer import LogWriter
from tests.own_process import DESCRIPTORS, find_threads

LINE = b"x" * 99 + b"\n"
WAIT_S = 5.0


@pytest.fixture
def pipe() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The end that is read, and the end that is written."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as reading, os.fdopen(writer, "wb", buffering=0) as writing:
        yield reading, writing


def dropped_line(count: int) -> bytes:
    return b"dropped %d\n" % count


def count_lines(reading: BinaryIO) -> int:
    """Reads up to the line that says how many were dropped. Returns how many `LINE`s were written, with those."""
    got = bytearray()
    while b"dropped" not in got or not got.endswith(b"\n"):
        got += reading.read(65536)
    text = got.decode().splitlines()
    (dropped_count,) = (int(line.removeprefix("dropped ")) for line in text if line.startswith("dropped"))
    return text.count(LINE.decode().strip()) + dropped_count


def test_lines_are_written_in_order(pipe: tuple[BinaryIO, BinaryIO]) -> None:
    writer = LogWriter(pipe[1])
    lines = [b"%d\n" % number for number in range(1000)]
    for line in lines:
        writer.write(line)
    writer.drain(WAIT_S)
    assert pipe[0].read(65536) == b"".join(lines)


def test_lines_that_come_together_are_written_in_pieces_that_no_other_writer_can_cut(
    pipe: tuple[BinaryIO, BinaryIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(pipe[1])
    pieces: list[bytes] = []
    monkeypatch.setattr(writer, "write", pieces.append)
    lines = [b"%d" % number * 100 for number in range(200)] + [b"x" * 5000, b"y"]
    writer.write_lines(lines)
    assert b"".join(pieces) == b"".join(line + b"\n" for line in lines)
    assert [len(piece) for piece in pieces if len(piece) > 4096] == [5001]
    assert len(pieces) < 20
    pieces.clear()
    writer.write_lines([])
    assert pieces == []


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="needs Linux's /proc")
def test_a_pipe_that_is_read_needs_no_thread(pipe: tuple[BinaryIO, BinaryIO]) -> None:
    before = find_threads("log-writer")
    LogWriter(pipe[1]).write(LINE)
    assert pipe[0].read(65536) == LINE
    assert find_threads("log-writer") <= before
    assert os.get_blocking(pipe[1].fileno())


def test_lines_for_an_unread_pipe_are_dropped_and_counted(pipe: tuple[BinaryIO, BinaryIO]) -> None:
    reading, writing = pipe
    writer = LogWriter(writing, dropped_line, max_queued_bytes=100_000)
    began = time.monotonic()
    for _ in range(10_000):
        writer.write(LINE)
    assert time.monotonic() - began < WAIT_S
    assert count_lines(reading) == 10_000
    writer.write(b"and on\n")
    assert reading.read(100) == b"and on\n"


def test_each_line_of_a_dropped_piece_is_counted(pipe: tuple[BinaryIO, BinaryIO]) -> None:
    reading, writing = pipe
    writer = LogWriter(writing, dropped_line, max_queued_bytes=10_000)
    for _ in range(200):
        writer.write_lines([LINE.strip()] * 10)
    assert count_lines(reading) == 2000


def test_the_end_of_the_process_does_not_wait_long_for_a_reader(pipe: tuple[BinaryIO, BinaryIO]) -> None:
    writer = LogWriter(pipe[1])
    for _ in range(1000):
        writer.write(LINE)
    began = time.monotonic()
    writer.drain(0.1)
    assert 0.05 < time.monotonic() - began < WAIT_S


def test_a_closed_reader_raises_nowhere() -> None:
    reader, descriptor = os.pipe()
    os.close(reader)
    with os.fdopen(descriptor, "wb", buffering=0) as writing:
        writer = LogWriter(writing)
        for _ in range(10):
            writer.write(LINE)
            writer.drain(WAIT_S)


def test_a_pipe_that_does_not_block_is_waited_for(pipe: tuple[BinaryIO, BinaryIO]) -> None:
    reading, writing = pipe
    os.set_blocking(writing.fileno(), False)
    writer = LogWriter(writing)
    for _ in range(5000):
        writer.write(LINE)
    got = 0
    while got < 5000 * len(LINE):
        got += len(reading.read(65536))
    assert got == 5000 * len(LINE)


def test_a_file_has_each_line_at_once_and_needs_no_thread(tmp_path: Path) -> None:
    before = find_threads("log-writer")
    with (tmp_path / "log").open("wb") as file:
        LogWriter(file).write(LINE)
        assert (tmp_path / "log").read_bytes() == LINE
    assert find_threads("log-writer") <= before
