"""Items as lists show them: with what requests may leave out and the API's own types require."""

from typing import Any

from translation.representation.json_types import Item

_WITH_STATUS = frozenset(
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
_WITH_EXECUTION = frozenset({"tool_search_call", "tool_search_output"})

_HOLDERS = ("content", "output")
"""Where an item has its parts."""


def listed(item: Item) -> Item:
    """The same item. What a request said was done by then, by the client where that is asked, and its images are seen
    as the model chooses."""
    shown = {**item}
    for key in _HOLDERS:
        if isinstance(shown.get(key), list):
            shown[key] = [_part(part) for part in shown[key]]
    if item["type"] in _WITH_STATUS and not item.get("status"):
        shown["status"] = "completed"
    if item["type"] in _WITH_EXECUTION and not item.get("execution"):
        shown["execution"] = "client"
    return shown


def _part(part: Any) -> Any:
    if isinstance(part, dict) and part.get("type") == "input_image" and not part.get("detail"):
        return {**part, "detail": "auto"}
    return part
