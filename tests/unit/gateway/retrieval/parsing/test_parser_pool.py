"""Files are parsed in children of a server of their own, which bounds hold."""

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.retrieval.chunks import ChunkSizes
from gateway.retrieval.parsing.parsed_text import IndexedChunk, ParsingBounds, UnreadableFile
from gateway.retrieval.parsing.parser_pool import ParserPool
from gateway.retrieval.terms import iterate_index_terms
from tests.polling import wait_until
from tests.processes import PROC, child_pids, is_running, needs_proc
from tests.unit.gateway.retrieval.parsing.documents import build_docx, build_pdf, build_pptx, build_xlsx

SLOW = b"word, " * 2_000_000


@pytest.fixture
async def pool() -> AsyncIterator[ParserPool]:
    pool = ParserPool(2)
    yield pool
    await pool.close()


async def parse(
    pool: ParserPool, folder: Path, content: bytes, bounds: ParsingBounds | None = None, name: str = "a.txt"
) -> tuple[str, list[IndexedChunk]]:
    text, chunks = "", []
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(content)
        file.seek(0)
        async for found in pool.parse(file.fileno(), name, bounds or ParsingBounds(), ChunkSizes(100, 50)):
            if isinstance(found, str):
                text += found
            else:
                chunks += found
    return text, chunks


async def test_text_and_chunks_arrive_whole(pool: ParserPool, tmp_path: Path) -> None:
    content = "\n\n".join(f"Paragraph {n} about 猫 and café." for n in range(3000))
    text, chunks = await parse(pool, tmp_path, content.encode())
    assert text == content
    assert all(each.terms.split() == list(iterate_index_terms(text[each.start : each.end])) for each in chunks)
    assert (chunks[0].start, chunks[-1].end) == (0, len(text))


async def test_many_files_are_parsed_beside_each_other(pool: ParserPool, tmp_path: Path) -> None:
    found = await asyncio.gather(*(parse(pool, tmp_path, build_pdf(f"Number {n}")) for n in range(6)))
    assert [text for text, _ in found] == [f"Number {n}" for n in range(6)]


KINDS = {
    "a.pdf": (build_pdf("In a PDF"), "In a PDF"),
    "a.docx": (build_docx("In Word"), "In Word\n"),
    "a.pptx": (build_pptx("On a slide"), "On a slide\n"),
    "a.xlsx": (build_xlsx([["In a cell"]]), "In a cell\t4.5"),
    "a.html": (b"<html><p>On a page &eacute;", "On a page \xe9"),
    "a.json": (b'{"a": "\\u00e9"}', '{\n "a": "\xe9"\n}'),
    "a.txt": ("K\xf6ln".encode("cp1252"), "K\xf6ln"),
    "b.txt": ("K\xf6ln".encode("utf-16"), "K\xf6ln"),
}


@pytest.mark.parametrize("name", KINDS)
async def test_a_child_reads_every_kind_although_it_may_open_nothing(
    pool: ParserPool, tmp_path: Path, name: str
) -> None:
    content, text = KINDS[name]
    assert (await parse(pool, tmp_path, content, name=name))[0] == text


@pytest.mark.parametrize(
    ("content", "bounds"),
    [
        (SLOW, ParsingBounds(seconds=0.2)),
        (SLOW * 2, ParsingBounds(memory_mb=24)),
        (b"a " * 600, ParsingBounds(characters=1000)),
        (b"a " * 600, ParsingBounds(tokens=599)),
    ],
    ids=["time", "memory", "characters", "tokens"],
)
async def test_a_child_beyond_its_bounds_ends_and_the_next_file_is_parsed(
    pool: ParserPool, tmp_path: Path, content: bytes, bounds: ParsingBounds
) -> None:
    with pytest.raises(UnreadableFile) as fault:
        await parse(pool, tmp_path, content, bounds)
    assert fault.value.code == "invalid_file"
    assert (await parse(pool, tmp_path, b"after"))[0] == "after"


@pytest.mark.parametrize("content", [b"a,b\n" * 1_000_000, b"x" * 24_000_000, "猫".encode() * 1_000_000])
async def test_a_text_with_too_many_tokens_is_refused_before_any_part_of_it_is_sent(
    pool: ParserPool, tmp_path: Path, content: bytes
) -> None:
    bounds = ParsingBounds(characters=30_000_000, tokens=500_000)
    with (tmp_path / "table.csv").open("w+b") as file:
        file.write(content)
        file.seek(0)
        with pytest.raises(UnreadableFile) as fault:
            await anext(pool.parse(file.fileno(), "table.csv", bounds, ChunkSizes(100, 50)))
    assert fault.value.message == "The file has more than 500000 tokens."


async def test_a_text_may_have_as_many_tokens_as_the_bound(pool: ParserPool, tmp_path: Path) -> None:
    text, _ = await parse(pool, tmp_path, b"a " * 600, ParsingBounds(tokens=600))
    assert text == "a " * 600


def read_command(pid: int) -> bytes:
    """Returns the command line of a process, or nothing if it has ended."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""


def find_server() -> int:
    """Returns the parser server of this process."""
    [server] = [pid for pid in child_pids(os.getpid()) if b"parser_server" in read_command(pid)]
    return server


async def wait_for_no_children(server: int) -> None:
    """A child that has sent all it found may still be listed."""
    await wait_until(lambda: not child_pids(server))


@needs_proc
async def test_a_child_may_open_nothing_and_ends_with_who_asked(pool: ParserPool, tmp_path: Path) -> None:
    await parse(pool, tmp_path, b"first")
    server = find_server()
    await wait_for_no_children(server)
    with (tmp_path / "slow.txt").open("w+b") as file:
        file.write(SLOW)
        file.seek(0)
        found = pool.parse(file.fileno(), "slow.txt", ParsingBounds(), ChunkSizes(100, 50))
        assert await anext(found)
        # It has far more to send than its pipe holds, so that it remains until it is read further.
        [child] = child_pids(server)
        limits = (PROC / str(child) / "limits").read_text().splitlines()
        [files] = [line.split() for line in limits if line.startswith("Max open files")]
        assert files[3:5] == ["0", "0"]
        await found.aclose()
    await wait_until(lambda: not is_running(child))


@needs_proc
async def test_a_child_ends_when_who_asked_is_cancelled(pool: ParserPool, tmp_path: Path) -> None:
    await parse(pool, tmp_path, b"first")
    server = find_server()
    await wait_for_no_children(server)
    # A file that is a pipe without an end: the child waits for more of it.
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as file, os.fdopen(theirs, "wb") as writer:

        async def read_all() -> None:
            async for _ in pool.parse(file.fileno(), "a.txt", ParsingBounds(), ChunkSizes(100, 50)):
                raise AssertionError("nothing can have been found")

        task = asyncio.create_task(read_all())
        [child] = await wait_until(child_pids, server)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        writer.write(SLOW)
    await wait_until(lambda: not is_running(child))


@needs_proc
async def test_a_parser_server_that_was_killed_is_started_again(pool: ParserPool, tmp_path: Path) -> None:
    await parse(pool, tmp_path, b"first")
    server = find_server()
    os.kill(server, signal.SIGKILL)
    await wait_until(lambda: not is_running(server))
    assert (await parse(pool, tmp_path, b"second"))[0] == "second"
    assert find_server() != server


@needs_proc
async def test_the_end_of_the_parser_server_is_no_fault_of_the_file(pool: ParserPool, tmp_path: Path) -> None:
    with (tmp_path / "slow.txt").open("w+b") as file:
        file.write(SLOW)
        file.seek(0)
        found = pool.parse(file.fileno(), "slow.txt", ParsingBounds(), ChunkSizes(100, 50))
        assert await anext(found)
        os.kill(find_server(), signal.SIGKILL)
        with pytest.raises(UnreadableFile) as fault:
            async for _ in found:
                pass
    assert fault.value.code == "server_error"
