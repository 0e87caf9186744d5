"""Groups the items of an input that belong together, selects items to drop or to summarize, and keeps an empty end."""

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from translation.representation.json_types import Item

_SYSTEM_ROLES = ("system", "developer")

_CLIENT_ITEM_TYPES = frozenset(
    {
        "additional_tools",
        "compaction",
        "compaction_trigger",
        "configuration_update",
        "item_reference",
        "mcp_approval_response",
    }
)
"""Types of items that a model does not write, besides messages and outputs."""

_RETAINED_TYPES = frozenset({"additional_tools", "compaction"})
"""Types of items that are never left out, besides some messages: they apply to the whole input."""

SUMMARY_ID_PREFIX = "cmp"
"""The prefix of the ids of compaction items. The message that stands for a compaction item has the same id."""


class CompactionInput(NamedTuple):
    """An input, split for its compaction.

    `instructions` are system and developer messages, `summarizable` can be replaced by a summary, `retained` must stay.
    """

    instructions: list[Item]
    summarizable: list[Item]
    retained: list[Item]


def group_items(items: Sequence[Item]) -> list[list[int]]:
    """Returns groups of indexes of items that belong together, in order of the first item of each group.

    Consecutive items of a model (reasoning, text, calls) and the outputs of their calls are one group. Any other item
    is a group of its own. Upstreams refuse a call without its output, and some refuse a call without its reasoning.
    """
    groups: list[list[int]] = []
    calls: dict[str, list[int]] = {}
    after_model_item = False
    for index, item in enumerate(items):
        if is_model_item(item):
            if not after_model_item:
                groups.append([])
            groups[-1].append(index)
            calls |= dict.fromkeys(filter(None, (item.get("call_id"), item.get("id"))), groups[-1])
        elif (group := calls.get(_answered_call_id(item) or "")) is not None:
            group.append(index)
        else:
            groups.append([index])
        after_model_item = is_model_item(item)
    return groups


def trim_items(items: Sequence[Item], share: float) -> list[Item]:
    """Returns the items without the oldest groups, so that at most `share` of the removable JSON bytes remain.

    Never removed are instructions, tools, summaries, the last user message, calls that wait for their outputs, and the
    last group. Items of a model at the start of the remaining groups are removed too, because some chat templates
    require a user message there.
    """
    groups = group_items(items)
    last = _last_user_message(items)
    removable = [group for group in groups[:-1] if last not in group and not _must_retain(items, group)]
    sizes = [_json_size(items, group) for group in removable]
    allowed, remaining, removed_count = sum(sizes) * share, sum(sizes), 0
    while remaining > allowed:
        remaining -= sizes[removed_count]
        removed_count += 1
    if removed_count:
        while removed_count < len(removable) and is_model_item(items[removable[removed_count][0]]):
            removed_count += 1
    dropped = {index for group in removable[:removed_count] for index in group}
    return [item for index, item in enumerate(items) if index not in dropped]


def split_for_compaction(items: Sequence[Item], *, awaits_answer: bool) -> CompactionInput:
    """Splits an input into instructions, items that a summary can replace, and items that must stay.

    Groups with a call that waits for its output stay. `awaits_answer`: the input is yet to be answered, so its last
    user message stays too, and of the groups after it the last ones, up to half of the size of the whole input.
    """
    groups = group_items(items)
    retained_groups = {tuple(group) for group in groups if _is_pending(items, group)}
    if awaits_answer:
        last = _last_user_message(items)
        retained_groups |= {tuple(group) for group in groups if last in group}
        budget = sum(_json_size(items, group) for group in groups) / 2
        for group in reversed(groups):
            budget -= _json_size(items, group)
            if group[0] <= last or (budget < 0 and group is not groups[-1]):
                break
            retained_groups.add(tuple(group))
    retained = {index for group in retained_groups for index in group}
    indexes = range(len(items))
    instructions = [items[index] for index in indexes if index not in retained and _is_instruction(items[index])]
    summarizable = [items[index] for index in indexes if index not in retained and not _is_instruction(items[index])]
    return CompactionInput(instructions, summarizable, [items[index] for index in sorted(retained)])


def is_model_item(item: Item) -> bool:
    """Whether a model writes such an item: a message of the assistant, reasoning, a call."""
    kind = item["type"]
    if kind == "message":
        return bool(item["role"] == "assistant")
    return not kind.endswith("_output") and kind not in _CLIENT_ITEM_TYPES


def is_user_message(item: Item) -> bool:
    """Whether this is a message of the user, and not a summary with the role of the user."""
    return item["type"] == "message" and item["role"] == "user" and not is_summary_message(item)


def add_empty_end(items: list[Item], role: str) -> None:
    """Adds an empty message of `role` if the items end with those of a model.

    Call it if the last message of a client is not the assistant's: then no item came of it, and without one a model
    would continue the answer before it, which the client did not ask for.
    """
    if items and is_model_item(items[-1]):
        items.append({"type": "message", "role": role, "content": []})


def is_summary_message(item: Item) -> bool:
    """Whether this item is a message that stands for a compaction item."""
    return item["type"] == "message" and str(item.get("id")).startswith(SUMMARY_ID_PREFIX)


def _answered_call_id(item: Item) -> str | None:
    """Returns the id of the call that this item answers. The output of a local shell may have it in its own `id`."""
    if item["type"] == "mcp_approval_response":
        return str(item["approval_request_id"])
    return (item.get("call_id") or item.get("id")) if item["type"].endswith("_output") else None


def _is_instruction(item: Item) -> bool:
    return item.get("role") in _SYSTEM_ROLES


def _must_retain(items: Sequence[Item], group: Sequence[int]) -> bool:
    first = items[group[0]]
    if _is_instruction(first) or is_summary_message(first) or first["type"] in _RETAINED_TYPES:
        return True
    return _is_pending(items, group)


def _is_pending(items: Sequence[Item], group: Sequence[int]) -> bool:
    """Whether a call in this group waits for its output."""
    members = [items[index] for index in group]
    answered = {_answered_call_id(item) for item in members} - {None}
    calls = (item for item in members if is_model_item(item))
    return any(
        answered.isdisjoint((call.get("call_id"), call.get("id")))
        for call in calls
        if call.get("call_id") or call["type"] == "mcp_approval_request"
    )


def _last_user_message(items: Sequence[Item]) -> int:
    return max((index for index, item in enumerate(items) if is_user_message(item)), default=-1)


def _json_size(items: Sequence[Item], group: Sequence[int]) -> int:
    return sum(len(orjson.dumps(items[index])) for index in group)
