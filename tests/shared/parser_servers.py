"""Gives servers of this process forked parser servers, which saves 0.3 seconds of CPU for the imports of each."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.forking import Forked, fork_parser_server

_END_S = 60.0


class ForkedParserServer:
    """A forked parser server, with the part of the interface of `asyncio.subprocess.Process` that its pool needs."""

    def __init__(self, process: Forked) -> None:
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        self._process.kill()

    async def wait(self) -> int:
        return await asyncio.to_thread(self._process.wait, _END_S)


async def start_parser_server(control: int, method: str) -> ForkedParserServer:
    # The caller closes its descriptor when it is cancelled, while the thread goes on.
    return ForkedParserServer(await asyncio.to_thread(_fork_and_close, os.dup(control), method))


def _fork_and_close(control: int, method: str) -> Forked:
    try:
        return fork_parser_server(control, method)
    finally:
        os.close(control)


@contextmanager
def forked_parser_servers() -> Iterator[None]:
    """Has pools of parsers fork their servers. Tests of the start and the end of a parser server do without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gateway.retrieval.parsing.parser_pool.start_parser_server", start_parser_server)
        yield
