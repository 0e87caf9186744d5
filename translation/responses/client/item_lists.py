"""Completes stored items for the endpoints that list them: adds keys that requests may omit and the API requires."""

from collections.abc import Collection
from typing import Any

from translation.representation.json_types import Item
from translation.responses.client.item_view import show_item

_STATUS_TYPES = frozenset(
    {
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "shell_call",
        "shell_call_output",
        "computer_call_output",
        "tool_search_call",
        "tool_search_output",
    }
)
_EXECUTION_TYPES = frozenset({"tool_search_call", "tool_search_output"})

_PART_KEYS = ("content", "output")
"""Keys of an item that may hold a list of parts."""


def to_listed_item(item: Item, included: Collection[str] = ()) -> Item:
    """Returns a copy of an item with the keys that a list requires, for a client that asked for `included`.

    A missing `status` is `completed`, a missing `execution` is `client`, and a missing `detail` of an image is `auto`.
    """
    result = {**show_item(item, included)}
    for key in _PART_KEYS:
        if isinstance(result.get(key), list):
            result[key] = [_with_detail(part) for part in result[key]]
    if item["type"] in _STATUS_TYPES and not item.get("status"):
        result["status"] = "completed"
    if item["type"] in _EXECUTION_TYPES and not item.get("execution"):
        result["execution"] = "client"
    return result


def _with_detail(part: Any) -> Any:
    if isinstance(part, dict) and part.get("type") == "input_image" and not part.get("detail"):
        return {**part, "detail": "auto"}
    return part
