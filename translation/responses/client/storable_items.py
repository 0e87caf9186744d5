"""Converts the input of a request to items that can be stored: each in full form and with an id."""

from collections.abc import Sequence

from translation.representation.items import ID_PREFIXES, NewId
from translation.representation.json_types import Item, Json
from translation.responses.input_items import expand_item

_MAX_ID_CHARS = 128

_ID_PREFIXES = {
    **ID_PREFIXES,
    "function_call_output": "fco",
    "agent_message": "amsg",
    "multi_agent_call": "mac",
    "multi_agent_call_output": "maco",
    "custom_tool_call_output": "ctco",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "computer_call_output": "cuo",
    "local_shell_call_output": "lsho",
    "shell_call_output": "sho",
    "apply_patch_call_output": "apco",
    "tool_search_output": "tso",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
    "compaction": "cmp",
}
"""Item type -> prefix of its ids. Source: ids seen in OpenAI's traffic. Ids of call outputs follow the same pattern."""

_STATUS_TYPES = frozenset({"message", "function_call", "function_call_output", "custom_tool_call_output"})
"""Types of items that have a status in lists. Requests may omit it."""


def to_storable_items(input_value: str | Sequence[Json] | None, new_id: NewId) -> list[Item]:
    """Returns a validated request's `input` as items with ids.

    An item keeps a usable id. It gets a new one if it has none or if its id is not a string, is empty, is longer than
    128 characters or has characters that are not printable.
    """
    if input_value is None:
        return []
    if isinstance(input_value, str):
        input_value = [{"role": "user", "content": input_value}]
    return [_to_storable_item(expand_item(item), new_id) for item in input_value]


def with_distinct_ids(items: Sequence[Item], new_id: NewId) -> list[Item]:
    """Returns the items with unique ids, because clients page through a list by item id.

    An item gets a new id if it has none or if an earlier item has the same.
    """
    used_ids: set[str] = set()
    distinct: list[Item] = []
    for item in items:
        if not item.get("id") or item["id"] in used_ids:
            item = {**item, "id": new_id(_ID_PREFIXES.get(item["type"], "item"))}
        used_ids.add(item["id"])
        distinct.append(item)
    return distinct


def _to_storable_item(item: Item, new_id: NewId) -> Item:
    kind = item["type"]
    item_id = item.get("id")
    usable = isinstance(item_id, str) and 0 < len(item_id) <= _MAX_ID_CHARS and item_id.isprintable()
    stored: Item = {"type": kind, "id": item_id if usable else new_id(_ID_PREFIXES.get(kind, "item"))}
    if kind in _STATUS_TYPES:
        stored["status"] = item.get("status") or "completed"
    return stored | {key: value for key, value in item.items() if key not in stored}
