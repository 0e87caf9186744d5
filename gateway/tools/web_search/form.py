"""The items by which clients see web searches: `web_search_call`, with one of three actions."""

from typing import Any, Final

import orjson

from gateway.retrieval.search_params import read_queries
from translation.hosted.call_forms import CallForm, CallView, PastHostedCall
from translation.hosted.citations.citables import MAX_NAME_CHARS, MAX_URL_CHARS, CitablePage, MarkedSource
from translation.hosted.citations.citation_table import read_result_details, remove_markers, write_marker
from translation.hosted.outcomes import ToolOutcome
from translation.representation.json_types import Item, Json, mapping_or_empty
from translation.tools.searches import SEARCH_ITEM, WEB_SEARCH

OPEN_PAGE: Final = "open_page"
FIND_IN_PAGE: Final = "find_in_page"

_UNKNOWN: Final = "A search took place. Its results are no longer known: search again if you need them."
_MAX_SOURCES: Final = 100


def build_action(name: str, arguments: Json) -> Json:
    """Returns the action of a call with these arguments."""
    link = arguments.get("id")  # a browser knows a page by its URL too
    url, pattern = (str(arguments.get(key) or "") for key in ("url", "pattern"))
    url = url or (link if isinstance(link, str) else "")
    if name == OPEN_PAGE:
        return {"type": OPEN_PAGE, "url": url}
    if name == FIND_IN_PAGE:
        return {"type": FIND_IN_PAGE, "url": url, "pattern": pattern}
    queries = read_queries(arguments)
    return {"type": "search", "query": queries[0] if queries else "", "queries": queries}


class WebSearchForm(CallForm):
    """Items of the type `web_search_call`. Their action is added when the call ends."""

    item_type = SEARCH_ITEM
    id_prefix = "ws"
    run_phases = ("searching",)

    def build_fields(self, call: CallView) -> Json:
        if call.outcome.fields is not None:
            return {**call.outcome.fields}
        return (
            {"action": build_action(call.name, read_written_arguments(call.arguments))} if call.outcome.failed else {}
        )

    def count_results(self, outcome: ToolOutcome) -> int:
        action = mapping_or_empty((outcome.fields or {}).get("action"))
        return super().count_results(outcome) if "sources" not in action else len(action["sources"])

    def read_past(self, item: Item) -> PastHostedCall:
        action = mapping_or_empty(item.get("action"))
        kind = action.get("type")
        name = kind if kind in (OPEN_PAGE, FIND_IN_PAGE) else WEB_SEARCH
        keys = ("queries",) if name == WEB_SEARCH else ("url", "pattern")
        values = {key: action[key] for key in keys if action.get(key)}
        if name == WEB_SEARCH and not values:
            values = {"queries": read_queries({**action})}
        arguments = orjson.dumps(values).decode()
        result = read_result_details(item.get("details"))
        if result is not None:
            return PastHostedCall(WEB_SEARCH, name, arguments, result.text, result.citables)
        if item.get("status") == "failed":
            return PastHostedCall(WEB_SEARCH, name, arguments, "This call failed.")
        pages = [*_read_sources(action.get("sources"))]
        lines = [f"{write_marker(number)} {page.title} {page.url}" for number, page in enumerate(pages, 1)]
        citables: dict[int, MarkedSource] = dict(enumerate(pages, 1))
        return PastHostedCall(WEB_SEARCH, name, arguments, "\n".join(lines) or _UNKNOWN, citables)


FORM: Final = WebSearchForm()


def _read_sources(sources: Any) -> list[CitablePage]:
    """Returns the pages of an item that a client wrote."""
    entries = map(mapping_or_empty, sources if isinstance(sources, list) else ())
    named = [
        (url, each.get("title") or url)
        for each in entries
        if isinstance(url := each.get("url"), str) and len(url) <= MAX_URL_CHARS
    ]
    return [CitablePage(url, remove_markers(str(title))[:MAX_NAME_CHARS]) for url, title in named[:_MAX_SOURCES]]


def read_written_arguments(arguments: str) -> Json:
    """Returns the arguments of a call, which a client may have written; none if they are no JSON object."""
    try:
        parsed = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
