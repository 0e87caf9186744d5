"""Who opens a file, a socket or a process and is cancelled leaves nothing open, at whichever wait it was cancelled."""

import asyncio
import gc
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
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
from tests.own_process import list_open_files
from tests.polling import wait_until
from tests.processes import needs_proc
from tests.state.s3_server import s3_server
from tests.unit.gateway.retrieval.parsing.documents import build_pdf

LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
BLOB_ID = "file-0123456789"

Works = AsyncGenerator[Callable[[], Coroutine[Any, Any, None]], None]


class CancelledAt:
    """Lets the running task be cancelled when it waits for the nth time in `work`."""

    def __init__(self, work: Coroutine[Any, Any, object], number: int) -> None:
        self._work = work
        self._number = number

    def __await__(self) -> Generator[Any, Any, None]:
        steps = self._work.__await__()
        resume: Callable[[], Any] = partial(next, steps)
        for number in count(1):
            try:
                awaited = resume()
            except StopIteration:
                return
            if number == self._number:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                yield awaited
            except BaseException as error:  # it is for the work
                resume = partial(steps.throw, error)
            else:
                resume = partial(next, steps)


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
def test_a_cancelled_opener_leaves_nothing_open(opener: str, loop: str) -> None:
    async def cancel_at_each_wait() -> int:
        async with aclosing(OPENERS[opener]()) as works:
            open_work = await anext(works)
            await open_work()
            for number in count(1):
                before = list_open_files()
                task = asyncio.create_task(run(CancelledAt(open_work(), number)))
                await asyncio.wait([task])
                gc.collect()  # what nobody refers to is an error of this test
                await wait_until(has_no_more_than, before)
                if not task.cancelled():
                    await task
                    return number
        raise AssertionError("not reached")

    async def run(work: Awaitable[None]) -> None:
        await work

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        assert runner.run(cancel_at_each_wait()) > 1
