"""Web searches that an upstream runs: the fields of `web_search_call` items, and those of the Messages API's blocks.

The API has two blocks for a search: the call with its input, and the result, which is a list or an error. An item has
both. Source: `anthropic` 2.12.0, types/web_search_result_block.py and web_search_tool_result_error_code.py; `openai`
2.x, types/responses/response_function_web_search.py.
"""

from collections.abc import Mapping
from typing import Any, Final

from translation.representation.json_types import Item, Json, mapping_or_empty

WEB_SEARCH: Final = "web_search"
"""The name of the tool in the Messages API, and the beginning of its types in every API."""

SEARCH_KINDS: Final = frozenset(
    {WEB_SEARCH, "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"}
)
"""The types of the tool in the Responses API so far."""

SEARCH_ITEM: Final = "web_search_call"
SEARCH_USE: Final = "server_tool_use"
SEARCH_RESULT: Final = "web_search_tool_result"

_ERROR_TYPE: Final = "web_search_tool_result_error"

_UNKNOWN_ERROR: Final = "unavailable"

_ERROR_CODES: Final = frozenset(
    {
        _UNKNOWN_ERROR,
        "invalid_tool_input",
        "max_uses_exceeded",
        "query_too_long",
        "request_too_large",
        "too_many_requests",
    }
)
"""The codes that the API's clients accept."""

_PAGE_ACTIONS: Final = ("open_page", "find_in_page")
"""The actions of OpenAI's search besides searching. The Messages API has no blocks for them.

It is no set, because values of any type are looked up in it.
"""

_PAGE_KEYS: Final = ("url", "pattern")

_SOURCE_KEYS: Final = ("title", "page_age")


def is_search_tool(tool: Mapping[str, Any]) -> bool:
    """Whether a tool, or a choice of one, is a web search. Its type may have a version: web_search_20250305."""
    return str(tool.get("type")).startswith(WEB_SEARCH)


def read_action(tool_input: Mapping[str, Any]) -> Json:
    """Returns the action of an item for the input of a call."""
    if (kind := tool_input.get("type")) in _PAGE_ACTIONS:
        return {"type": kind, **{key: tool_input[key] for key in _PAGE_KEYS if isinstance(tool_input.get(key), str)}}
    query, queries = tool_input.get("query"), _texts_in(tool_input.get("queries"))
    action: Json = {"type": "search", "query": query if isinstance(query, str) else ""}
    return {**action, "queries": queries} if queries else action


def build_input(item: Item) -> Json:
    """Returns the input of a call for an item.

    It always has a `query`, which clients show: empty if it is unknown. The query of an action on a page is the
    searched text, or the page's URL. Items come from upstreams, whose values may have any type.
    """
    action = mapping_or_empty(item.get("action"))
    if action.get("type") in _PAGE_ACTIONS:
        page = {key: action[key] for key in _PAGE_KEYS if isinstance(action.get(key), str)}
        return {"query": page.get("pattern") or page.get("url") or "", "type": action["type"], **page}
    queries = _texts_in(action.get("queries"))
    query = text if isinstance(text := action.get("query"), str) and text else "; ".join(queries)
    return {"query": query, "queries": queries} if queries and queries != [query] else {"query": query}


def _texts_in(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def add_results(item: Item, content: Any) -> Item:
    """Returns the item of a search with the data of its result block: `sources` of the action, or an `error` code."""
    if isinstance(content, dict):
        code = content.get("error_code")
        return {**item, "status": "failed", "error": code if isinstance(code, str) else _UNKNOWN_ERROR}
    ended: Item = {**item, "status": "completed"}
    if item["action"]["type"] == "search":
        ended["action"] = {**item["action"], "sources": [_read_source(entry) for entry in _pages_in(content)]}
    return ended


def _read_source(entry: Json) -> Json:
    known = {key: entry[key] for key in _SOURCE_KEYS if isinstance(entry.get(key), str) and entry[key] != entry["url"]}
    return {"type": "url", "url": entry["url"], **known}


def build_results(item: Item) -> list[Json] | Json:
    """Returns the content of the result block for an item that has ended: a list of pages, or an error.

    A page without a title has its URL as the title. Pages have an empty `encrypted_content`.
    """
    if item.get("status") not in (None, "completed"):
        code = item.get("error")
        is_known = isinstance(code, str) and code in _ERROR_CODES
        return {"type": _ERROR_TYPE, "error_code": code if is_known else _UNKNOWN_ERROR}
    action = mapping_or_empty(item.get("action"))
    sources = [action] if action.get("type") in _PAGE_ACTIONS else action.get("sources")
    return [_build_result(source) for source in _pages_in(sources)]


def _pages_in(entries: object) -> list[Json]:
    """Returns the entries that have a URL. Upstreams have sources without one too, such as a weather service."""
    pages = map(mapping_or_empty, entries if isinstance(entries, list) else ())
    return [dict(page) for page in pages if isinstance(page.get("url"), str) and page["url"]]


def _build_result(source: Json) -> Json:
    known = {key: source[key] for key in _SOURCE_KEYS if isinstance(source.get(key), str) and source[key]}
    return {"type": "web_search_result", "url": source["url"], "title": source["url"], "encrypted_content": ""} | known


def is_paused(item: Item) -> bool:
    """Whether the upstream will run the search of an item when it gets the call back."""
    return item.get("status") == "incomplete" and bool(item.get("details"))


def count_queries(item: Item) -> int:
    """Returns the number of searches that an item stands for: one for each query, and none if it failed."""
    if not is_counted(item):
        return 0
    return len(_texts_in(mapping_or_empty(item.get("action")).get("queries"))) or 1


def is_counted(item: Item) -> bool:
    """Whether an item counts as a search that was made, and not as a page that was opened, or as a failure."""
    return (
        item["type"] == SEARCH_ITEM
        and item.get("status") in (None, "completed")
        and mapping_or_empty(item.get("action")).get("type") not in _PAGE_ACTIONS
    )
