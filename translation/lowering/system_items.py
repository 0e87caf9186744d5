"""Merges system and developer messages into the instructions, for upstreams that accept one system message, first."""

from collections.abc import Sequence
from typing import Any, Final

from translation.lowering.text_parts import TEXT_KEYS, text_of_part
from translation.representation.json_types import Item
from translation.representation.loss import Loss

_SYSTEM_ROLES: Final = ("system", "developer")


def merge_system_items(
    instructions: str | None, items: Sequence[Item], losses: list[Loss]
) -> tuple[str | None, Sequence[Item]]:
    """Returns the instructions with the texts of all system and developer messages, and the items without them.

    A message that comes after others is a loss, because it loses its place. One that has more than text stays where it
    is. Returns the same objects if there is no such message.
    """
    texts = [instructions] if instructions else []
    rest: list[Item] = []
    has_moved = False
    for item in items:
        text = _text_of(item.get("content")) if item.get("role") in _SYSTEM_ROLES else None
        if text is None:
            rest.append(item)
        else:
            texts.append(text)
            has_moved = has_moved or bool(rest)
    if len(rest) == len(items):
        return instructions, items
    if has_moved:
        losses.append(Loss("input", "system messages merged"))
    return "\n\n".join(filter(None, texts)) or None, rest


def _text_of(content: Any) -> str | None:
    """Returns the text of a message's content; None if it has more than text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    if not all(part.get("type") in TEXT_KEYS for part in parts):
        return None
    return "\n".join(map(text_of_part, parts))
