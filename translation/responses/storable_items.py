"""What a request said, as items that can be kept: each in full form, each with an id."""

from collections.abc import Sequence

from translation.representation.items import NewId
from translation.representation.json_types import Item, Json
from translation.responses.input_items import expand_item

_MAX_ID_CHARS = 128

_ID_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "computer_call": "cu",
    "computer_call_output": "cuo",
    "local_shell_call": "lsh",
    "local_shell_call_output": "lsho",
    "shell_call": "sh",
    "shell_call_output": "sho",
    "apply_patch_call": "apc",
    "apply_patch_call_output": "apco",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
    "compaction": "cmp",
}
"""Item type -> how its ids begin. Source: ids seen in OpenAI's traffic; outputs of calls follow their naming habit."""

_STATUS_TYPES = frozenset({"message", "function_call", "function_call_output", "custom_tool_call_output"})
"""Items that lists show with a status, which requests leave out."""


def to_storable_items(given: str | Sequence[Json] | None, new_id: NewId) -> list[Item]:
    """A validated request's `input` as items; one whose id can be used keeps it, others get one.

    An id of another type than text, empty, longer than 128 characters or with characters that do not print is replaced.
    """
    if given is None:
        return []
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    return [_to_storable_item(expand_item(item), new_id) for item in given]


def with_distinct_ids(items: Sequence[Item], new_id: NewId) -> list[Item]:
    """The same items, each with an id that none before it has: whoever pages through them goes on from an id."""
    taken: set[str] = set()
    each: list[Item] = []
    for item in items:
        if not item.get("id") or item["id"] in taken:
            item = {**item, "id": new_id(_ID_PREFIXES.get(item["type"], "item"))}
        taken.add(item["id"])
        each.append(item)
    return each


def _to_storable_item(item: Item, new_id: NewId) -> Item:
    kind = item["type"]
    given = item.get("id")
    usable = isinstance(given, str) and 0 < len(given) <= _MAX_ID_CHARS and given.isprintable()
    stored: Item = {"type": kind, "id": given if usable else new_id(_ID_PREFIXES.get(kind, "item"))}
    if kind in _STATUS_TYPES:
        stored["status"] = item.get("status") or "completed"
    return stored | {key: value for key, value in item.items() if key not in stored}
