"""Runs the web searches of one response: asks the engine, opens pages, and searches in them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import orjson

from gateway.config.tool_settings import WebSearchSettings
from gateway.tools.executors.executor import Allows, CacheKey, ListedTools, OnProgress, ToolSource
from gateway.tools.web_search.domains import DomainRules
from gateway.tools.web_search.engines import PageFound, SearchBackend, SearchQuery
from gateway.tools.web_search.form import FORM, build_action
from gateway.tools.web_search.page_text import PageUnavailable, WebPage, WebPageReader
from gateway.tools.web_search.pages import fetch_page
from gateway.tools.web_search.shape import ResultText, SearchShape, WebCall
from providers.egress import EgressClient
from translation.hosted.calls import HostedCall
from translation.hosted.citations.citation_table import build_result_details
from translation.hosted.outcomes import ToolOutcome, build_execution_error
from translation.hosted.tools import HostedTool, ToolKey
from translation.representation.json_types import Json
from translation.tools.searches import WEB_SEARCH

_MAX_PAGES: Final = 16
"""The most pages that are kept for one response, so that each is fetched once."""

_MAX_URL_CHARS: Final = 2000
_NO_RULES: Final = DomainRules()
_PAGE_CHOICE: Final = "web_page"
"""Pages are opened only after a search, so a `tool_choice` that names the web search forces the search tool alone."""

_MAX_USES: Final = "max_uses_exceeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """What a request says about its searches."""

    rules: DomainRules = _NO_RULES
    results: int = 8
    """The most results of a search."""
    country: str = ""
    max_uses: int | None = None
    """The most searches of the response; None if the request has no limit."""
    opens_pages: bool = True
    """Whether the model may open pages."""


class WebSearchExecutor:
    """Searches the web for one response. Each page is fetched once."""

    source: Final = ToolSource(label=WEB_SEARCH, shows_list=False, has_clean_lists=True)

    def __init__(
        self,
        settings: WebSearchSettings,
        engine: SearchBackend,
        egress: EgressClient,
        options: SearchOptions,
        shape: SearchShape,
        reader: WebPageReader,
    ) -> None:
        self.cache_key: Final = CacheKey([{"label": WEB_SEARCH, "pages": options.opens_pages, "shape": shape.name}])
        self._settings = settings
        self._engine = engine
        self._egress = egress
        self._options = options
        self._shape = shape
        self._reader = reader
        self._pages: dict[str, asyncio.Task[WebPage]] = {}
        self._uses = 0

    def list_secrets(self) -> Sequence[str]:
        return self._engine.list_secrets()

    def find_known_tools(self, allows: Allows) -> ListedTools | None:
        definitions = self._shape.definitions
        listed = (
            definitions if self._options.opens_pages else [each for each in definitions if each["name"] == WEB_SEARCH]
        )
        return ListedTools([each for each in listed if allows(each["name"], True)])

    async def list_tools(self, allows: Allows, *, must_be_fresh: bool = False) -> ListedTools:
        return self.find_known_tools(allows) or ListedTools(())

    def keep_list(self) -> None:
        """Does nothing: the tools are always the same."""

    def build_tools(self, definitions: Sequence[Json]) -> list[HostedTool]:
        return [
            HostedTool(
                key=ToolKey(WEB_SEARCH, each["name"]),
                parameters=each["input_schema"],
                description=each["description"],
                is_read_only=True,
                needs_approval=False,
                prefix="",
                form=FORM,
                choice_type=WEB_SEARCH if each["name"] == WEB_SEARCH else _PAGE_CHOICE,
                is_repeatable=True,
                checks_arguments=self._shape.checks_arguments,
                trained_name=self._shape.trained_names.get(each["name"]),
                adapt_arguments=self._shape.adapt_arguments,
            )
            for each in definitions
        ]

    async def run(self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None = None) -> ToolOutcome:
        arguments: Json = orjson.loads(call.arguments)
        name = call.key.name
        try:
            web_call = self._shape.read_call(name, arguments)
        except PageUnavailable as fault:
            return _build_failure(build_action(name, arguments), str(fault))
        if name == WEB_SEARCH:
            return await self._search(web_call, deadline_s)
        if len(web_call.action["url"]) > _MAX_URL_CHARS:
            return _build_failure(
                web_call.action, f"page_unavailable: its URL is longer than {_MAX_URL_CHARS} characters"
            )
        try:
            result = await self._shape.show_page(web_call, await self._open_page(web_call.action["url"], deadline_s))
        except PageUnavailable as fault:
            return _build_failure(web_call.action, str(fault))
        return _build_outcome(web_call.action, result)

    async def close(self) -> None:
        """Stops what is still being fetched."""
        for task in self._pages.values():
            task.cancel()
        await asyncio.gather(*self._pages.values(), return_exceptions=True)
        await self._reader.close()

    async def _search(self, web_call: WebCall, deadline_s: float) -> ToolOutcome:
        action, queries = web_call.action, web_call.queries
        if not queries:
            return _build_failure(action, "The call was not run: it has no queries")
        if len(queries) > self._settings.max_queries:
            return _build_failure(
                action, f"The call was not run: it has more than {self._settings.max_queries} queries"
            )
        limit = self._options.max_uses
        if limit is not None and self._uses + 1 > limit:
            skipped = _build_failure(
                action, f"{_MAX_USES}: this response may search {limit} times. Answer now.", code=_MAX_USES
            )
            return replace(skipped, notes=("skipped",))
        self._uses += 1
        options = self._options
        searches = [
            self._engine.search(
                SearchQuery(query, options.results, options.rules, options.country), deadline_s, options.rules.allows
            )
            for query in queries
        ]
        results = await asyncio.gather(*searches, return_exceptions=True)
        lists: list[list[PageFound]] = []
        for result in results:
            if isinstance(result, list):
                lists.append(result)
            elif not isinstance(result, Exception):
                raise result
        if not lists:  # a search fails only if all of its queries fail
            return _build_failure(action, str(results[0]))
        pages = _merge_results(lists, min(options.results, web_call.results or options.results))
        sources = [{"type": "url", "url": page.url, "title": page.title} for page in pages]
        return _build_outcome({**action, "sources": sources}, self._shape.show_results(web_call, pages))

    async def _open_page(self, url: str, deadline_s: float) -> WebPage:
        """Returns a page, which is fetched once. Raises PageUnavailable."""
        task = self._pages.get(url)
        if task is None:
            if len(self._pages) >= _MAX_PAGES:
                self._pages.pop(next(iter(self._pages))).cancel()
            fetching = fetch_page(
                self._egress,
                url,
                self._reader,
                max_bytes=self._settings.max_page_bytes,
                deadline_s=min(deadline_s, self._settings.page_deadline_s),
                allows=self._options.rules.allows,
            )
            task = self._pages[url] = asyncio.get_running_loop().create_task(fetching)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():  # it was the oldest of `_MAX_PAGES`
                raise PageUnavailable("too many pages were opened at once") from None
            raise


def _build_outcome(action: Json, result: ResultText) -> ToolOutcome:
    fields: Json = {"action": action}
    if result.sources:
        fields["details"] = build_result_details(result.text, result.sources)
    return ToolOutcome(output=result.text, fields=fields, notes=("cut",) if result.is_cut else ())


def _build_failure(action: Json, text: str, code: str | None = None) -> ToolOutcome:
    fields: Json = {"action": action} if code is None else {"action": action, "error": code}
    return replace(build_execution_error(text), fields=fields)


def _merge_results(lists: Sequence[Sequence[PageFound]], count: int) -> list[PageFound]:
    """Returns the results of several queries, taken from each in turn, without pages that occur twice."""
    merged: dict[str, PageFound] = {}
    for place in range(max(map(len, lists))):
        for pages in lists:
            if place < len(pages):
                merged.setdefault(pages[place].url, pages[place])
    return [*merged.values()][: count * len(lists)]
