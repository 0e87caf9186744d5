"""Web searches as three functions, for models that know no other form: each result has a marker to cite it by."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from dataplane.sharing.work_pool import run_in_pool
from gateway.retrieval.search_params import read_queries
from gateway.tools.web_search.engines import PageFound
from gateway.tools.web_search.form import FIND_IN_PAGE, OPEN_PAGE, build_action
from gateway.tools.web_search.page_text import WebPage
from gateway.tools.web_search.shape import NO_RESULTS, WEB_NOTE, ResultText, TextBounds, WebCall
from translation.hosted.citations.citables import CitablePage, MarkedSource
from translation.hosted.citations.citation_table import CitationTable, remove_markers, write_marker
from translation.representation.json_types import Json
from translation.tools.searches import WEB_SEARCH

_MAX_MATCHES: Final = 5
_MATCH_CHARS: Final = 200

_CITE: Final = "Cite a source in your answer by its marker, for example 【1】, directly behind what it supports."

_DEFINITIONS: Final[Sequence[Json]] = (
    {
        "name": WEB_SEARCH,
        "description": f"Searches the web. {_CITE}",
        "input_schema": {
            "type": "object",
            "properties": {
                "queries": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "What to search for: one query, or a few with other words.",
                }
            },
        },
        "annotations": {"read_only": True},
    },
    {
        "name": OPEN_PAGE,
        "description": f"Opens a page of the web and returns its text. {_CITE}",
        "input_schema": {
            "type": "object",
            "properties": {"url": {"type": "string", "description": "The URL of the page, as a result has it."}},
            "required": ["url"],
        },
        "annotations": {"read_only": True},
    },
    {
        "name": FIND_IN_PAGE,
        "description": "Returns the excerpts of a page that contain a text. Use it for long pages.",
        "input_schema": {
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "The URL of the page."},
                "pattern": {"type": "string", "minLength": 1, "description": "The words to find, as they are written."},
            },
            "required": ["url", "pattern"],
        },
        "annotations": {"read_only": True},
    },
)


class FunctionShape:
    """Searches, pages and excerpts of one response. Pages are named by their URLs."""

    name: ClassVar[str] = "functions"
    definitions: ClassVar[Sequence[Json]] = _DEFINITIONS
    checks_arguments: ClassVar[bool] = False
    trained_names: ClassVar[Mapping[str, str]] = {}

    def __init__(self, citations: CitationTable, bounds: TextBounds) -> None:
        self._citations = citations
        self._bounds = bounds

    @staticmethod
    def adapt_arguments(arguments: str) -> str:
        return arguments

    def read_call(self, name: str, arguments: Json) -> WebCall:
        return WebCall(build_action(name, arguments), read_queries(arguments))

    def show_results(self, call: WebCall, pages: Sequence[PageFound]) -> ResultText:
        sources: dict[int, MarkedSource] = {}
        lines: list[str] = []
        for page in pages:
            citable = CitablePage(page.url, remove_markers(page.title))
            number = self._citations.add(citable)
            sources[number] = citable
            excerpt = remove_markers(page.text[: self._bounds.excerpt_chars])
            lines.append(f"{write_marker(number)} {citable.title} {page.url}\n{excerpt}".rstrip())
        return ResultText("\n\n".join([WEB_NOTE, *lines, _CITE]) if lines else NO_RESULTS, sources)

    async def show_page(self, call: WebCall, page: WebPage) -> ResultText:
        is_whole = call.action["type"] == OPEN_PAGE
        if is_whole:
            text = self._cut_page(page)
        else:
            text = await run_in_pool(_find_excerpts, page, call.action["pattern"])
        citable = CitablePage(page.url, remove_markers(page.title) or page.url)
        number = self._citations.add(citable)
        head = f"{write_marker(number)} {citable.title} {page.url}"
        is_cut = is_whole and (not page.is_whole or len(page.text) > self._bounds.page_chars)
        return ResultText(f"{WEB_NOTE}\n\n{head}\n{remove_markers(text)}", {number: citable}, is_cut)

    def _cut_page(self, page: WebPage) -> str:
        max_chars = self._bounds.page_chars
        if len(page.text) > max_chars:
            return (
                f"{page.text[:max_chars]}\n[Cut: these are {max_chars} of {len(page.text)} characters. "
                f"{FIND_IN_PAGE} searches in all of them.]"
            )
        if not page.is_whole:
            return f"{page.text}\n[Cut: the page is longer than what was read of it.]"
        return page.text or "[The page has no text.]"


def _find_excerpts(page: WebPage, pattern: str) -> str:
    """Returns excerpts of a page around the first occurrences of a text."""
    text, words = _lower_text(page.text), _lower_text(pattern)
    # Both texts are from outside. Their product is what a regular expression costs, and their sum what this does.
    position = text.find(words) if words.strip() else -1
    excerpts: list[str] = []
    while position >= 0:
        start, end = max(position - _MATCH_CHARS, 0), position + len(words) + _MATCH_CHARS
        position = text.find(words, end)  # the occurrences before are in this excerpt
        excerpts.append(f"… {page.text[start:end].strip()} …")
        if len(excerpts) == _MAX_MATCHES:
            break
    if excerpts:
        return "\n\n".join(excerpts)
    cut = "" if page.is_whole else " in the part of the page that was read"
    return f"[{pattern[:200]!r} is not on this page{cut}.]"


def _lower_text(text: str) -> str:
    """Returns a text in small letters, each at the position of its character."""
    # The small form of this letter has two characters.
    text = text.replace("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "i")
    # The small form of a sigma depends on the letters beside it.
    for form in ("\N{GREEK CAPITAL LETTER SIGMA}", "\N{GREEK SMALL LETTER FINAL SIGMA}"):
        text = text.replace(form, "\N{GREEK SMALL LETTER SIGMA}")
    return text.lower()
