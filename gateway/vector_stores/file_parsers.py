"""Parses files with the parser that the configuration names: in a child process, or first by a parser service."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Final

import structlog

from gateway.config.tool_settings import FileSearchSettings
from gateway.retrieval.chunks import ChunkSizes
from gateway.retrieval.parsing.parsed_text import IndexedChunk, ParsingBounds, ReadingMethod, ServiceNeeded
from gateway.retrieval.parsing.parser_pool import ParserPool
from gateway.vector_stores.parser_service import ParserService, ParserServiceAway
from gateway.vector_stores.patient_embedder import Tries

_log = structlog.get_logger(__name__)

_MOST_WORKERS: Final = 65
"""The most that `tools.file_search.workers` may be, and one. The files in progress are no more than that key allows."""


class FileParsers:
    """The parser servers of one server process: one for each way of reading that was needed so far."""

    def __init__(self) -> None:
        self._pools: Final[dict[ReadingMethod, ParserPool]] = {}

    async def parse(
        self, file: int, name: str, settings: FileSearchSettings, sizes: ChunkSizes, tries: Tries
    ) -> AsyncGenerator[str | list[IndexedChunk], None]:
        """Yields the pieces of the text of a file, and then its chunks. `file` is a descriptor of a stored file.

        Raises UnreadableFile, and IndexingPostponed while a parser service is busy or away.
        """
        bounds = ParsingBounds(settings.parse_s, settings.parse_mb, settings.parse_chars, settings.max_file_tokens)
        url = settings.parser_url
        if url is None:
            method: ReadingMethod = "markitdown" if settings.parser == "markitdown" else "builtin"
            async with aclosing(self._find_pool(method).parse(file, name, bounds, sizes)) as parts:
                async for part in parts:
                    yield part
            return
        try:
            async with aclosing(self._find_pool("service").parse(file, name, bounds, sizes)) as parts:
                async for part in parts:
                    yield part
            return
        except ServiceNeeded as needed:
            kind = needed.kind
        async with (
            _open_reply(ParserService(url, settings), file, kind, tries) as reply,
            aclosing(self._find_pool("service_reply").parse(reply, name, bounds, sizes)) as parts,
        ):
            async for part in parts:
                yield part

    async def aclose(self) -> None:
        """Ends the parser servers, and their children with them."""
        for pool in self._pools.values():
            await pool.close()

    def _find_pool(self, method: ReadingMethod) -> ParserPool:
        return self._pools.setdefault(method, ParserPool(_MOST_WORKERS, method))


@asynccontextmanager
async def _open_reply(service: ParserService, file: int, kind: str, tries: Tries) -> AsyncGenerator[int, None]:
    """Opens the reply of the service as a descriptor. Raises IndexingPostponed while the service is busy or away."""
    try:
        async with service.open_reply(file, kind) as reply:
            yield reply
    except ParserServiceAway as away:
        _log.warning("parser_service_failed", why=away.why)
        message = "The parser service has failed at every try: attach the file again later."
        raise tries.postpone(away.named_s, message) from away
