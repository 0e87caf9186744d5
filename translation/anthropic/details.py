"""Thinking that has to come back exactly as it was: blocks of the API as details of reasoning items, and back."""

from typing import Final

from translation.json_types import Item, Json

_PREFIX: Final = "anthropic."

_KEYS: Final = {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}
"""Type of a block -> what it says. A signed block with an empty text is as good as any."""

THINKING: Final = frozenset(_KEYS)


def detail_of(block: Json) -> Json:
    """A whole block, as a reasoning item keeps it."""
    return {"type": _PREFIX + block["type"], **{key: block[key] for key in _KEYS[block["type"]]}}


def blocks_of(item: Item) -> list[Json]:
    """The blocks a reasoning item keeps, in order; none where another vendor's model thought it."""
    return [block for detail in item.get("details") or () if (block := _block(detail)) is not None]


def _block(detail: object) -> Json | None:
    """Details come back from clients, too: what is no whole block is none."""
    if not isinstance(detail, dict) or not isinstance(named := detail.get("type"), str):
        return None
    kind = named.removeprefix(_PREFIX)
    if named == kind or kind not in _KEYS:
        return None
    said = {key: detail.get(key) for key in _KEYS[kind]}
    return {"type": kind, **said} if all(isinstance(text, str) for text in said.values()) else None
