"""Searches the web by a tool of an MCP server that the configuration maps onto `web_search`."""

from collections.abc import Callable, Sequence
from typing import Final

from gateway.tools.mapped_tools.found_entries import EntryLimits, MappedToolFailed
from gateway.tools.mapped_tools.mapped_tool import MappedTool
from gateway.tools.web_search.engine_client import SearchUnavailable
from gateway.tools.web_search.engines import PageFound, SearchQuery, build_page, quote_forgeries

_COUNTRY_CHARS: Final = 2


class MappedEngine:
    """Is to a web search what the client of an engine is."""

    def __init__(self, tool: MappedTool) -> None:
        self._tool = tool

    def finds_country(self, country: object) -> bool:
        is_code = isinstance(country, str) and len(country) == _COUNTRY_CHARS and country.isalpha()
        return is_code and self._tool.takes("country")

    def list_secrets(self) -> Sequence[str]:
        return self._tool.list_secrets()

    async def search(self, query: SearchQuery, deadline_s: float, allows: Callable[[str], bool]) -> list[PageFound]:
        values = {
            "results": query.limit,
            "country": query.country or None,
            "allowed_domains": [*query.rules.allowed] or None,
            "blocked_domains": [*query.rules.blocked] or None,
        }
        wanted = EntryLimits(query.limit, lambda entry: allows(quote_forgeries(entry.url)))
        try:
            entries = await self._tool.search(query.text, values, deadline_s, wanted)
        except MappedToolFailed as failed:
            raise SearchUnavailable(failed.why, detail=failed.detail) from None
        pages = [build_page(entry.url, entry.title, entry.text) for entry in entries]
        return [page for page in pages if page is not None]
