"""What has to come back exactly as it was: blocks of the API as details of items, and back."""

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
"""Type of a block -> what it says. A signed thought with an empty text is as good as any."""

THINKING_BLOCKS: Final = frozenset({"thinking", "redacted_thinking"})


def detail_of(block: Json) -> Json:
    """A whole block, as an item keeps it."""
    return {"type": _PREFIX + block["type"], **{key: block[key] for key in _BLOCK_KEYS[block["type"]]}}


def blocks_of(item: Item) -> list[Json]:
    """The blocks an item keeps, in order; none where another vendor's model made it."""
    return [block for detail in item.get("details") or () if (block := _parse_block(detail)) is not None]


def _parse_block(detail: object) -> Json | None:
    """Details come back from clients, too: what is no whole block is none."""
    if not isinstance(detail, dict) or not isinstance(detail_type := detail.get("type"), str):
        return None
    kind = detail_type.removeprefix(_PREFIX)
    if detail_type == kind or kind not in _BLOCK_KEYS:
        return None
    keys = _BLOCK_KEYS[kind]
    if not all(isinstance(detail.get(key), expected) for key, expected in keys.items()):
        return None
    return {"type": kind, **{key: detail[key] for key in keys}}
