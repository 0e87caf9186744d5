"""Searches files by a tool of an MCP server that the configuration maps onto `file_search`."""

import asyncio
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Final

from gateway.tools.file_search.file_searcher import FileSearchFailed, FoundChunk, FoundChunks
from gateway.tools.mapped_tools.found_entries import EntryLimits, FoundEntry, MappedToolFailed
from gateway.tools.mapped_tools.mapped_tool import MappedTool
from translation.hosted.citations.citation_table import remove_markers
from translation.representation.json_types import Json

_UNAVAILABLE: Final = "The search is not available now."


class MappedSearcher:
    """Calls the tool once for each query. `values` are further arguments that the request gives."""

    def __init__(self, tool: MappedTool, values: Json, limit: int) -> None:
        self._tool = tool
        self._values = values
        self._limit = limit

    def list_secrets(self) -> Sequence[str]:
        return self._tool.list_secrets()

    async def check(self) -> None:
        """Does nothing: what the server has is not known before it is asked."""

    async def search(self, queries: Sequence[str], deadline_s: float) -> FoundChunks:
        wanted = EntryLimits(self._limit, lambda entry: bool(entry.text and (entry.file_id or entry.filename)))
        searches = [self._tool.search(query, self._values, deadline_s, wanted) for query in queries]
        results = await asyncio.gather(*searches, return_exceptions=True)
        lists: list[Sequence[FoundEntry]] = []
        details: list[str] = []
        for result in results:
            if isinstance(result, MappedToolFailed):
                details.append(remove_markers(result.detail))
            elif isinstance(result, BaseException):
                raise result
            else:
                lists.append(result)
        if not lists:  # a search fails only if all of its queries fail
            raise FileSearchFailed(f"The search failed: {details[0]}" if any(details) else _UNAVAILABLE)
        return FoundChunks(_merge(lists))


def _merge(lists: Sequence[Sequence[FoundEntry]]) -> Sequence[FoundChunk]:
    """Returns the results of several queries: by their scores, or taken from each query in turn if some have none."""
    in_turn = [entry for entry in chain.from_iterable(zip_longest(*lists)) if entry is not None]
    if all(entry.score is not None for entry in in_turn):
        in_turn.sort(key=lambda entry: -(entry.score or 0))
    return [
        FoundChunk(
            entry.file_id or entry.filename,
            " ".join((entry.filename or entry.file_id).split()),
            entry.text,
            entry.score,
        )
        for entry in in_turn
    ]
