"""Converts blocks that the API requires back verbatim in later turns to `details` of items, and back."""

from collections.abc import Mapping
from typing import Any, Final

from translation.representation.json_types import Item, Json

_PREFIX: Final = "anthropic."

_BLOCK_KEYS: Final[Mapping[str, Mapping[str, type[Any] | tuple[type[Any], ...]]]] = {
    "thinking": {"thinking": str, "signature": str},
    "redacted_thinking": {"data": str},
    "server_tool_use": {"id": str, "name": str, "input": dict},
    "web_search_tool_result": {"tool_use_id": str, "content": (dict, list)},
}
"""Type of a block -> its keys and their types. A thinking block with a signature may have an empty text."""

_OPTIONAL_KEYS: Final[Mapping[str, type[Any]]] = {"caller": dict}
"""Keys that newer versions of tools add to their blocks: whether the model itself has made the call."""

THINKING_BLOCKS: Final = frozenset({"thinking", "redacted_thinking"})


def detail_of(block: Json) -> Json:
    """Returns a whole block as an entry of an item's `details`."""
    keys = [*_BLOCK_KEYS[block["type"]], *_list_optional_keys(block)]
    return {"type": _PREFIX + block["type"], **{key: block[key] for key in keys}}


def blocks_of(item: Item) -> list[Json]:
    """Returns the blocks in an item's `details`, in order. An item of another vendor's model has none."""
    return [block for detail in item.get("details") or () if (block := _parse_block(detail)) is not None]


def _parse_block(detail: object) -> Json | None:
    """Returns the block of a detail, `None` if it is malformed or another vendor's. Details may come from clients."""
    if not isinstance(detail, dict) or not isinstance(detail_type := detail.get("type"), str):
        return None
    kind = detail_type.removeprefix(_PREFIX)
    if detail_type == kind or kind not in _BLOCK_KEYS:
        return None
    keys = _BLOCK_KEYS[kind]
    if not all(isinstance(detail.get(key), expected) for key, expected in keys.items()):
        return None
    return {"type": kind, **{key: detail[key] for key in (*keys, *_list_optional_keys(detail))}}


def _list_optional_keys(entry: Json) -> list[str]:
    return [key for key, expected in _OPTIONAL_KEYS.items() if isinstance(entry.get(key), expected)]
