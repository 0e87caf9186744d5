"""The search engines as a table: how each is asked, and where its reply has the results."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

import httpx2
import orjson

from gateway.config.tool_settings import SearchEngineName
from gateway.retrieval.html_text import unescape_html
from gateway.tools.web_search.domains import DomainRules
from translation.hosted.citations.citables import MAX_URL_CHARS
from translation.hosted.citations.citation_table import remove_markers
from translation.representation.json_types import Json, mapping_or_empty

_MAX_QUERY_CHARS: Final = 400
"""The longest query that all engines take."""

_MAX_QUERY_WORDS: Final = 50
_MAX_TITLE_CHARS: Final = 200
_MAX_RESULTS: Final = 20
_TAG: Final = re.compile(r"<[^<>]{0,200}>")

_BRAVE_COUNTRIES: Final = frozenset(
    [
        "AR",
        "AU",
        "AT",
        "BE",
        "BR",
        "CA",
        "CL",
        "DK",
        "FI",
        "FR",
        "DE",
        "GR",
        "HK",
        "IN",
        "ID",
        "IT",
        "JP",
        "KR",
        "MY",
        "MX",
        "NL",
        "NZ",
        "NO",
        "CN",
        "PL",
        "PT",
        "PH",
        "RU",
        "SA",
        "ZA",
        "ES",
        "SE",
        "CH",
        "TW",
        "TR",
        "GB",
        "US",
    ]
)
"""The countries that Brave takes; it refuses others."""


class SearchQuery(NamedTuple):
    """One search. `country` is a code of two letters, or empty."""

    text: str
    limit: int
    rules: DomainRules
    country: str = ""


class PageFound(NamedTuple):
    """A result of a search. `text` is the engine's excerpt of the page."""

    url: str
    title: str
    text: str


class SearchBackend(Protocol):
    """Finds pages for web searches: an engine, or a tool of an MCP server."""

    def finds_country(self, country: object) -> bool:
        """Whether it can search for a country. The value is as the client wrote it."""
        ...

    def list_secrets(self) -> Sequence[str]:
        """Returns its current credentials, which are removed from every text that leaves the gateway."""
        ...

    async def search(self, query: SearchQuery, deadline_s: float, allows: Callable[[str], bool]) -> list[PageFound]:
        """Returns the results whose URLs `allows` accepts, at most `query.limit`. Raises SearchUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class SearchEngine:
    """A search engine. `path` is that of a search, below the engine's address."""

    address: str | None
    """The address that it has by default."""
    path: str
    build: Callable[[httpx2.URL, str, SearchQuery], httpx2.Request]
    """Builds the request of a search, for the URL and the key."""
    list_results: Callable[[Json], Any]
    text_key: str
    """The key of a result's excerpt."""
    countries: frozenset[str] = frozenset()
    """The countries for which it can search."""

    def build_url(self, address: str | None) -> httpx2.URL:
        """Returns the URL of a search at this address, or at the default one."""
        return httpx2.URL(((address or self.address or "").rstrip("/")) + self.path)

    def read_results(self, body: Json) -> Iterator[PageFound]:
        """Yields the results of a reply. Entries without a URL, or with a very long one, and what is no text, are left
        out."""
        entries = self.list_results(body)
        for entry in entries if isinstance(entries, list) else ():
            result = mapping_or_empty(entry)
            url = result.get("url")
            page = build_page(url, result.get("title"), result.get(self.text_key)) if isinstance(url, str) else None
            if page is not None:
                yield page


def build_page(url: str, title: Any, text: Any) -> PageFound | None:
    """Returns a result from what an engine says of it; None without a URL, and for one that is too long to be cited."""
    quoted = quote_forgeries(url[: MAX_URL_CHARS + 1])
    if not 0 < len(quoted) <= MAX_URL_CHARS:
        return None
    return PageFound(quoted, _clean_text(title)[:_MAX_TITLE_CHARS] or url, _clean_text(text))


def quote_forgeries(url: str) -> str:
    """Returns a URL in which no character can begin a line or a marker in what the model reads."""
    return "".join(quote(char) if char.isspace() or remove_markers(char) != char else char for char in url)


def _build_searxng(url: httpx2.URL, _key: str, query: SearchQuery) -> httpx2.Request:
    params = {"q": _cut_query(query.text) + query.rules.site_terms, "format": "json", "pageno": "1", "language": "all"}
    return httpx2.Request("GET", url, params=params)


def _build_brave(url: httpx2.URL, key: str, query: SearchQuery) -> httpx2.Request:
    params = {"q": _cut_query(query.text + query.rules.site_terms), "count": str(min(query.limit, _MAX_RESULTS))}
    if query.country:
        params["country"] = query.country
    headers = {"x-subscription-token": key, "accept": "application/json", "cache-control": "no-cache"}
    return httpx2.Request("GET", url, params=params, headers=headers)


def _build_tavily(url: httpx2.URL, key: str, query: SearchQuery) -> httpx2.Request:
    body: Json = {"query": _cut_query(query.text), "max_results": min(query.limit, _MAX_RESULTS)}
    if query.rules.allowed:
        body["include_domains"] = [*query.rules.allowed]
    if query.rules.blocked:
        body["exclude_domains"] = [*query.rules.blocked]
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json", "accept": "application/json"}
    return httpx2.Request("POST", url, content=orjson.dumps(body), headers=headers)


ENGINES: Final[Mapping[SearchEngineName, SearchEngine]] = {
    "searxng": SearchEngine(None, "/search", _build_searxng, lambda body: body.get("results"), "content"),
    "brave": SearchEngine(
        "https://api.search.brave.com",
        "/res/v1/web/search",
        _build_brave,
        lambda body: mapping_or_empty(body.get("web")).get("results"),
        "description",
        _BRAVE_COUNTRIES,
    ),
    "tavily": SearchEngine(
        "https://api.tavily.com", "/search", _build_tavily, lambda body: body.get("results"), "content"
    ),
}


def _cut_query(text: str) -> str:
    """Returns a query that is no longer than engines take."""
    return " ".join(text.split()[:_MAX_QUERY_WORDS])[:_MAX_QUERY_CHARS]


def _clean_text(value: Any) -> str:
    """Returns a text on one line and without markup: some engines mark the words that were found."""
    return " ".join(unescape_html(_TAG.sub("", value)).split()) if isinstance(value, str) else ""
