"""Checks the form of whole items that an upstream sent, because clients and later turns read them.

Upstreams leave out what is empty, which is completed. In items of known types, nobody can read what has the wrong
type.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from translation.representation.items import CALL_TYPES, TEXT_FIELDS
from translation.representation.json_types import Item, Json

PART_LISTS: Final[Mapping[str, Sequence[str]]] = {"message": ("content",), "reasoning": ("summary", "content")}
"""Item type -> the keys of its lists of parts. Items of other types may have anything there: some have a text."""

_LISTS_OF_PARTS: Final = ("annotations", "logprobs")

_NAMES: Final = {
    **dict.fromkeys(CALL_TYPES, ("call_id", "name")),
    "mcp_call": ("name", "server_label"),
    "mcp_approval_request": ("name", "server_label"),
    "mcp_list_tools": ("server_label",),
}
"""Item type -> the keys that say what an item calls. It has them from its first event on."""

_REQUIRED_LISTS: Final[Mapping[str, Sequence[str]]] = {
    "message": ("content",),
    "reasoning": ("summary",),
    "output_text": ("annotations",),
}
"""Type of an item or a part -> the keys of the lists that the API's schema requires, empty or not."""

HIDES_TEXT: Final = "code_interpreter_call"
"""The type of item whose text may be null: its code, if the server does not show it."""


def complete_items(output: list[Any]) -> list[Item]:
    """Returns whole items with all that `complete_item` adds, the same object if they lack nothing.

    Raises TypeError for a value that is no item or not in the form of its type.
    """
    return rewrite_each(output, complete_item)


def rewrite_each(values: list[Any], rewrite: Callable[[Any], Any]) -> list[Any]:
    """Returns the values as `rewrite` returns them, the same list if it returned each as it was."""
    rewritten = [rewrite(value) for value in values]
    return rewritten if any(new is not old for new, old in zip(rewritten, values, strict=True)) else values


def is_blank(text: Any) -> bool:
    """Returns whether a value is no text, or one that shows nothing."""
    return not isinstance(text, str) or not text.strip()


def complete_item(item: Any) -> Item:
    """Returns a whole item with empty texts, the lists that the API requires and a role where it has none, the same
    object if it lacks nothing.

    Raises TypeError for a value that is no item, a call without its names, a compaction without content, and ids,
    parts, texts, annotations and log probabilities of the wrong type.
    """
    if not isinstance(item, dict) or not isinstance(kind := item.get("type"), str) or not kind:
        raise TypeError("an item is not an object with a type")
    if not isinstance(item.get("id"), str | None):
        raise TypeError("the id of an item is not a string")
    check_names(item)
    if kind == "compaction" and not isinstance(item.get("encrypted_content"), str):
        raise TypeError("a compaction has no content")
    added = {**_find_missing_text(kind, None, item), **find_missing_lists(kind, item)}
    if kind == "message" and item.get("role") is None:
        added["role"] = "assistant"
    for key in PART_LISTS.get(kind, ()):
        if (parts := item.get(key)) is not None:
            completed = _complete_parts(kind, parts)
            if completed is not parts:
                added[key] = completed
    return {**item, **added} if added else item


def check_names(item: Item) -> None:
    """Raises TypeError for a call without the name of its tool, its id or its server."""
    for key in _NAMES.get(item["type"], ()):
        name = item.get(key)
        if not isinstance(name, str) or (key == "name" and not name):
            raise TypeError(f"an item of type {item['type']} has no {key}")


def _complete_parts(item_type: str, parts: Any) -> list[Json]:
    if not isinstance(parts, list):
        raise TypeError("the parts of an item are not a list")
    return rewrite_each(parts, lambda part: complete_part(item_type, part))


def complete_part(item_type: str, part: Any) -> Json:
    """Returns a whole part with an empty text and the lists that the API requires where it has none, the same object if
    it lacks nothing.

    Raises TypeError for a value that is no part, and a text, annotations or log probabilities of the wrong type.
    """
    if not isinstance(part, dict) or not isinstance(part_type := part.get("type"), str):
        raise TypeError("a part of an item is not an object with a type")
    for key in _LISTS_OF_PARTS:
        entries = part.get(key)
        if entries is not None and not (isinstance(entries, list) and all(isinstance(each, dict) for each in entries)):
            raise TypeError(f"{key} are not a list of objects")
    added = {**_find_missing_text(item_type, part_type, part), **find_missing_lists(part_type, part)}
    return {**part, **added} if added else part


def find_missing_lists(type_: Any, whole: Json) -> Json:
    """Returns an empty list for each key of an item or a part of this type whose list is missing or null."""
    return {key: [] for key in _REQUIRED_LISTS.get(type_, ()) if whole.get(key) is None}


def _find_missing_text(item_type: str, part_type: str | None, whole: Json) -> Json:
    """Returns the empty text that an item or a part lacks, by its key. Raises TypeError for a text of another type."""
    field = TEXT_FIELDS.get((item_type, part_type))
    if field is None or isinstance(text := whole.get(field.key), str):
        return {}
    if text is not None:
        raise TypeError("a text is not a string")
    return {} if item_type == HIDES_TEXT else {field.key: ""}
