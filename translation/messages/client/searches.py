"""Web searches of an upstream as blocks of the Messages API: the call, and its result.

What only the upstream can read of a search is sealed, and travels in the `encrypted_content` of its first page.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from translation.representation.json_types import Item, Json
from translation.tools.searches import (
    SEARCH_ITEM,
    SEARCH_RESULT,
    SEARCH_USE,
    WEB_SEARCH,
    add_results,
    build_input,
    build_results,
    read_action,
)

_ID_PREFIX: Final = "srvtoolu_"
_ITEM_PREFIX: Final = "ws_"


def build_search_use(item: Item) -> Json:
    """Returns the block of a search's call."""
    return {"type": SEARCH_USE, "id": _build_id(item), "name": WEB_SEARCH, "input": build_input(item)}


def build_search_result(item: Item, sealed: str) -> Json:
    """Returns the result block of a search that has ended, with the sealed data in its first page, if any."""
    content = build_results(item)
    if sealed and has_pages(content):
        content[0]["encrypted_content"] = sealed
    return {"type": SEARCH_RESULT, "tool_use_id": _build_id(item), "content": content}


def has_pages(content: Any) -> TypeGuard[list[Json]]:
    """Whether the content of a result is a list of pages, and neither empty nor an error."""
    return isinstance(content, list) and bool(content)


def build_search_usage(count: int) -> Json:
    """Returns the key of a usage object that has the number of searches; no key without any."""
    return {"server_tool_use": {"web_search_requests": count, "web_fetch_requests": 0}} if count else {}


def is_search_use(block: Json) -> bool:
    """Whether a block is the call of a web search, and not of another tool that Anthropic runs."""
    return block["type"] == SEARCH_USE and bool(block["name"] == WEB_SEARCH)


def lift_search_use(block: Json) -> Item:
    """Returns the item of a past search. Its results are added by `add_search_result`."""
    return {
        "type": SEARCH_ITEM,
        "id": _ITEM_PREFIX + block["id"].removeprefix(_ID_PREFIX),
        "status": "failed",
        "action": read_action(block["input"]),
    }


def add_search_result(block: Json, calls: Mapping[tuple[str, str], Item]) -> Item | None:
    """Adds the result of a past search to its item, one of `calls` by type and id, and returns it; None if there is
    none."""
    item = calls.get((SEARCH_ITEM, _ITEM_PREFIX + block["tool_use_id"].removeprefix(_ID_PREFIX)))
    if item is None:
        return None
    content = block["content"]
    item |= add_results(item, content)
    if has_pages(content) and content[0].get("encrypted_content"):
        item["encrypted_content"] = content[0]["encrypted_content"]
    return item


def _build_id(item: Item) -> str:
    return _ID_PREFIX + str(item["id"]).removeprefix(_ITEM_PREFIX)
