"""Who opens a file, a socket or a process and is cancelled leaves nothing open, at whichever wait it was cancelled."""

import asyncio
import gc
import tempfile
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import uvloop

from gateway.blobs.bucket import Bucket
from gateway.blobs.folder import BlobFolder
from gateway.config.storage_settings import BucketSettings
from gateway.retrieval.chunks import ChunkSizes
from gateway.retrieval.parsing.parsed_text import ParsingBounds
from gateway.retrieval.parsing.parser_pool import ParserPool
from gateway.tools.web_search.page_text import PageContent, WebPageReader
from tests.faults.cancelled.strikes import Strike, run_struck
from tests.own_process import list_open_files
from tests.polling import wait_until
from tests.processes import needs_proc
from tests.state.s3_server import s3_server
from tests.unit.gateway.retrieval.parsing.documents import build_pdf

LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
BLOB_ID = "file-0123456789"

Works = AsyncGenerator[Callable[[], Coroutine[Any, Any, None]], None]


def has_no_more_than(before: set[tuple[int, str]]) -> bool:
    return list_open_files() <= before


async def parse_text(pool: ParserPool) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"Some words.")
        file.seek(0)
        async with aclosing(pool.parse(file.fileno(), "a.txt", ParsingBounds(), ChunkSizes(100, 50))) as parts:
            assert [part async for part in parts]


async def parse_with_running_server() -> Works:
    pool = ParserPool(2)
    await parse_text(pool)
    try:
        yield lambda: parse_text(pool)
    finally:
        await pool.close()


async def parse_with_new_server() -> Works:
    async def parse() -> None:
        pool = ParserPool(2)
        try:
            await parse_text(pool)
        finally:
            await pool.close()

    yield parse


async def read_page() -> Works:
    data = build_pdf("A page")
    page = PageContent("http://page.test", "application/pdf", "", data, is_whole=True, max_bytes=len(data))
    reader = WebPageReader(ParsingBounds())

    async def read() -> None:
        assert (await reader.read(page)).text == "A page"

    await read()
    try:
        yield read
    finally:
        await reader.close()


async def open_file_of_folder() -> Works:
    with tempfile.TemporaryDirectory() as folder:
        yield partial(write_and_open, BlobFolder(Path(folder)))


async def open_copy_of_object() -> Works:
    with s3_server() as server:
        yield partial(write_and_open, Bucket(BucketSettings.model_validate(server.make_bucket().settings)))


async def write_and_open(blobs: BlobFolder | Bucket) -> None:
    async with blobs.write_blob(BLOB_ID) as writer:
        await writer.write(b"content")
        await writer.finish()
    async with blobs.open_descriptor(BLOB_ID):
        pass
    await blobs.remove_blobs([BLOB_ID])


OPENERS: dict[str, Callable[[], Works]] = {
    "a file, by a parser server that runs": parse_with_running_server,
    "a file, by a parser server that starts": parse_with_new_server,
    "a page with a PDF": read_page,
    "a blob in a folder": open_file_of_folder,
    "a blob in a bucket": open_copy_of_object,
}


@needs_proc
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("late", [False, True], ids=["as it begins to wait", "when the wait is over"])
def test_a_cancelled_opener_leaves_nothing_open(opener: str, loop: str, late: bool) -> None:
    async def cancel_at_each_wait() -> int:
        async with aclosing(OPENERS[opener]()) as works:
            open_work = await anext(works)
            await open_work()
            for number in count(1):
                before = list_open_files()
                strike = Strike(number, late=late)
                task = asyncio.create_task(run_struck(open_work(), strike))
                await asyncio.wait([task])
                gc.collect()  # what nobody refers to is an error of this test
                await wait_until(has_no_more_than, before)
                if not task.cancelled():
                    await task
                    return number
        raise AssertionError("not reached")

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        assert runner.run(cancel_at_each_wait()) > 1
