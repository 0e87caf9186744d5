"""Web searches as the browser that gpt-oss was trained with: views with numbered lines, links and cursors.

Every view gets a new number, its cursor, and the highest cursor is the current view. Cursors are the numbers of
citations, so they run on over the response and its history.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import orjson

from dataplane.sharing.work_pool import run_in_pool
from gateway.retrieval.search_params import read_queries
from gateway.tools.web_search.engines import PageFound
from gateway.tools.web_search.form import FIND_IN_PAGE, OPEN_PAGE, build_action, read_written_arguments
from gateway.tools.web_search.page_lines import PageLines, number_lines, split_lines
from gateway.tools.web_search.page_text import PageUnavailable, WebPage
from gateway.tools.web_search.shape import NO_RESULTS, WEB_NOTE, ResultText, TextBounds, WebCall
from translation.hosted.citations.citables import BrowserView, CitablePage, MarkedSource, ViewLink, find_host
from translation.hosted.citations.citation_table import CitationTable, remove_markers
from translation.representation.json_types import Json
from translation.tools.searches import WEB_SEARCH

_VIEW_CHARS: Final = 5000
"""About as many characters as a view had in the training, if the model does not say how many lines it wants."""

_MAX_MATCHES: Final = 20
_MATCH_LINES: Final = 4
_MAX_NUMBER: Final = 10_000_000
_UNSET: Final = -1
"""The value of a number that the model leaves out."""

_CITE: Final = (
    "Each view begins with its cursor in brackets: [3]. Cite what you use by its cursor and lines, as in 【3†L9-L11】 "
    "or 【3†L9】."
)
_CURSOR: Final[Json] = {"type": "number", "default": _UNSET}

_DEFINITIONS: Final[Sequence[Json]] = (
    {
        "name": WEB_SEARCH,
        "description": f"Searches the web for `query` and shows `topn` results, each with the id of its link. {_CITE}",
        "input_schema": {
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "topn": {"type": "number", "default": 10},
                "source": {"type": "string"},
            },
            "required": ["query"],
        },
        "annotations": {"read_only": True},
    },
    {
        "name": OPEN_PAGE,
        "description": (
            "Opens the link `id` of the view `cursor`, or the URL `id`, from line `loc` on. Without `id` it moves to "
            f"another line of a page. Without `cursor` the latest view is meant. {_CITE}"
        ),
        "input_schema": {
            "type": "object",
            "properties": {
                "id": {"type": ["number", "string"], "default": _UNSET},
                "cursor": _CURSOR,
                "loc": {"type": "number", "default": _UNSET},
                "num_lines": {"type": "number", "default": _UNSET},
                "view_source": {"type": "boolean", "default": False},
                "source": {"type": "string"},
            },
        },
        "annotations": {"read_only": True},
    },
    {
        "name": FIND_IN_PAGE,
        "description": "Shows where the text `pattern` occurs in the page of the latest view, or of the view `cursor`.",
        "input_schema": {
            "type": "object",
            "properties": {"pattern": {"type": "string"}, "cursor": _CURSOR},
            "required": ["pattern"],
        },
        "annotations": {"read_only": True},
    },
)


class BrowserShape:
    """The views of one response."""

    name: ClassVar[str] = "browser"
    definitions: ClassVar[Sequence[Json]] = _DEFINITIONS
    checks_arguments: ClassVar[bool] = True
    trained_names: ClassVar[Mapping[str, str]] = {
        WEB_SEARCH: "browser.search",
        OPEN_PAGE: "browser.open",
        FIND_IN_PAGE: "browser.find",
    }

    def __init__(self, citations: CitationTable, bounds: TextBounds) -> None:
        self._citations = citations
        self._bounds = bounds

    @staticmethod
    def adapt_arguments(arguments: str) -> str:
        past = read_written_arguments(arguments)
        if queries := read_queries(past):
            return orjson.dumps({"query": " | ".join(queries)}).decode()
        if "pattern" in past:
            return orjson.dumps({"pattern": past["pattern"]}).decode()
        return orjson.dumps({"id": past["url"]} if "url" in past else {}).decode()

    def read_call(self, name: str, arguments: Json) -> WebCall:
        if name == WEB_SEARCH:
            results = _read_number(arguments, "topn")
            return WebCall(build_action(name, arguments), read_queries(arguments), results if results > 0 else None)
        link_id, lines = arguments.get("id", _UNSET), _read_number(arguments, "num_lines")
        if isinstance(link_id, str) and not link_id.isdecimal():
            target = ViewLink(0, link_id, "")
        else:
            target = self._find_target(_read_number(arguments, "cursor"), _read_number({"id": link_id}, "id"))
        first_line = _read_number(arguments, "loc")
        return WebCall(
            build_action(name, {"url": target.url, "pattern": arguments.get("pattern")}),
            first_line=target.target if first_line < 0 else first_line,
            lines=lines if lines > 0 else None,
            wants_source=arguments.get("view_source") is True,
        )

    def show_results(self, call: WebCall, pages: Sequence[PageFound]) -> ResultText:
        if not pages:
            return ResultText(NO_RESULTS)
        lines = ["# Search Results", ""]
        links: list[ViewLink] = []
        for number, page in enumerate(pages):
            title = _clean_title(page.title or page.url)
            links.append(ViewLink(len(lines), page.url, title))
            excerpt = remove_markers(page.text[: self._bounds.excerpt_chars])
            lines.append(f"  * {_write_link(number, title, find_host(page.url))}")
            lines += split_lines(excerpt).lines
        view = BrowserView("", _clean_title(call.action["query"]), tuple(links))
        return self._show(view, lines, 0, len(lines))

    async def show_page(self, call: WebCall, page: WebPage) -> ResultText:
        read = await run_in_pool(_read_lines, page.text)
        title = _clean_title(page.title) or page.url
        if call.action["type"] == FIND_IN_PAGE:
            return self._show_matches(call.action["pattern"], page, title, read)
        first, count = call.first_line, len(read.lines)
        if first >= max(count, 1):
            raise PageUnavailable(f"the page has no line {first}: its last line is {max(count - 1, 0)}")
        end = self._find_end(read.lines, first, call.lines)
        note = "" if page.is_whole or end < count else "\n[Cut: the page is longer than what was read of it.]"
        if call.wants_source:
            note += "\n[The source of a page cannot be shown. This is its text.]"
        view = self._show(BrowserView(page.url, title), read.lines, first, end)
        return view._replace(text=view.text + note, is_cut=not page.is_whole)

    def _find_target(self, cursor: int, link_id: int) -> ViewLink:
        """Returns what a call opens: a link of a view, or the page of the view itself."""
        kinds = (BrowserView, CitablePage)
        view = self._citations.find_latest(kinds) if cursor < 0 else self._citations.find(cursor)
        if not isinstance(view, kinds):
            which = "there is no page yet" if cursor < 0 else f"there is no page with the cursor {cursor}"
            raise PageUnavailable(f"{which}: search first, or give a URL as `id`")
        links = view.links if isinstance(view, BrowserView) else ()
        if 0 <= link_id < len(links):
            return links[link_id]
        if link_id >= 0:
            raise PageUnavailable(f"this view has no link with the id {link_id}: give a URL as `id`")
        if not view.url:
            raise PageUnavailable("this view is a list of results and no page: give the `id` of a result")
        return ViewLink(0, view.url, "")

    def _find_end(self, lines: Sequence[str], first: int, count: int | None) -> int:
        """Returns the end of a view that begins at a line."""
        room = self._bounds.page_chars if count is not None else min(_VIEW_CHARS, self._bounds.page_chars)
        last = len(lines) if count is None else min(first + count, len(lines))
        for number in range(first, last):
            room -= len(lines[number]) + 1
            if room < 0:
                return max(number, first + 1)
        return last

    def _show_matches(self, pattern: str, page: WebPage, title: str, read: PageLines) -> ResultText:
        clean_pattern = _clean_title(pattern)
        lines: list[str] = []
        links: list[ViewLink] = []
        end = 0
        for number in read.find_lines(pattern):
            if number < end:
                continue  # it is in the match before
            end = number + _MATCH_LINES
            links.append(ViewLink(len(lines), page.url, title, number))
            lines += [f"# 【{len(links) - 1}†match at L{number}】", *read.lines[number:end], ""]
            if len(links) == _MAX_MATCHES:
                break
        if not links:
            cut = "" if page.is_whole else " The page is longer than what was read of it."
            return ResultText(f"No `find` results for pattern: `{clean_pattern}`.{cut}")
        view = BrowserView(page.url, title, tuple(links))
        name = f"Find results for text: `{clean_pattern}` in `{title}`"
        return self._show(view, lines[:-1], 0, len(lines) - 1, name)

    def _show(self, view: BrowserView, lines: Sequence[str], first: int, end: int, name: str = "") -> ResultText:
        """Returns a view of lines of a page, from `first` up to `end`."""
        cursor = self._citations.append(view)
        address = f" ({view.url})" if view.url else ""
        head = f"[{cursor}] {name or view.title}{address}"
        range_text = f"**viewing lines [{first} - {max(end - 1, 0)}] of {max(len(lines) - 1, 0)}**"
        body = number_lines(lines[first:end], first) or "[The page has no text.]"
        sources: Mapping[int, MarkedSource] = {cursor: view}
        return ResultText(f"{head}\n{range_text}\n{WEB_NOTE}\n\n{body}", sources)


def _read_number(arguments: Json, key: str) -> int:
    """Returns a number that a model wrote, as a whole one; `_UNSET` if it left the number out."""
    value: Any = arguments.get(key)
    if isinstance(value, str) and value.isdecimal():
        value = int(value[:8])
    return int(min(max(value, _UNSET), _MAX_NUMBER)) if isinstance(value, int | float) else _UNSET


def _read_lines(text: str) -> PageLines:
    return split_lines(remove_markers(text))


def _clean_title(text: str) -> str:
    """Returns a text from outside as one line without anything that could end a link or a marker."""
    return " ".join(remove_markers(text).replace("†", "‡").split())


def _write_link(number: int, title: str, host: str | None) -> str:
    return f"【{number}†{title}†{host or 'link'}】"
