"""Which items of an input only make sense together, and which of them a conversation can do without."""

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
"""Types that are no model's, beside messages and outputs."""

SUMMARY_ID_PREFIX = "cmp"
"""What ids of compaction items begin with; the message that says one has the same."""


class CompactionInput(NamedTuple):
    """An input taken apart for its compaction: what instructs, what can be summed up, what has to stay as it is."""

    instructions: list[Item]
    summarizable: list[Item]
    retained: list[Item]


def group_items(items: Sequence[Item]) -> list[list[int]]:
    """The places of items that belong together, in order of the first of each.

    What a model said at one go (thoughts, text, calls) is one round with the outputs of its calls; any other item is
    one by itself. Upstreams refuse a call without its output, and some a call without the thought that led to it.
    """
    found: list[list[int]] = []
    calls: dict[str, list[int]] = {}
    speaking = False
    for place, item in enumerate(items):
        if _is_model_item(item):
            if not speaking:
                found.append([])
            found[-1].append(place)
            calls |= dict.fromkeys(filter(None, (item.get("call_id"), item.get("id"))), found[-1])
        elif (asked := calls.get(_answered_call_id(item) or "")) is not None:
            asked.append(place)
        else:
            found.append([place])
        speaking = _is_model_item(item)
    return found


def trim_items(items: Sequence[Item], share: float) -> list[Item]:
    """`items` without their oldest rounds, so that by size at most `share` of what can be left out is still there.

    Never left out: what instructs, a summary of what came before, the last user message, calls that wait for their
    outputs, and the end of the input. What stays begins with a user's word where it can: some templates insist on it.
    """
    chain = group_items(items)
    last = _last_user_message(items)
    spare = [each for each in chain[:-1] if last not in each and not _must_retain(items, each)]
    sizes = [_json_size(items, each) for each in spare]
    allowed, left, gone = sum(sizes) * share, sum(sizes), 0
    while left > allowed:
        left -= sizes[gone]
        gone += 1
    if gone:
        while gone < len(spare) and _is_model_item(items[spare[gone][0]]):
            gone += 1
    dropped = {place for each in spare[:gone] for place in each}
    return [item for place, item in enumerate(items) if place not in dropped]


def split_for_compaction(items: Sequence[Item], *, awaits_answer: bool) -> CompactionInput:
    """What of an input a summary can stand for.

    Calls that wait for their outputs stay. `question`: the input is yet to be answered, so its last user message stays
    too, with what followed it, or as much of its end as is at most half of the whole.
    """
    chain = group_items(items)
    staying = {tuple(each) for each in chain if _is_pending(items, each)}
    if awaits_answer:
        last = _last_user_message(items)
        staying |= {tuple(each) for each in chain if last in each}
        budget = sum(_json_size(items, each) for each in chain) / 2
        for each in reversed(chain):
            budget -= _json_size(items, each)
            if each[0] <= last or (budget < 0 and each is not chain[-1]):
                break
            staying.add(tuple(each))
    kept = {place for each in staying for place in each}
    places = range(len(items))
    lead = [items[place] for place in places if place not in kept and _is_instruction(items[place])]
    older = [items[place] for place in places if place not in kept and not _is_instruction(items[place])]
    return CompactionInput(lead, older, [items[place] for place in sorted(kept)])


def is_user_message(item: Item) -> bool:
    """Whether a user said this, and not a summary in a user's place."""
    return item["type"] == "message" and item["role"] == "user" and not is_summary_message(item)


def is_summary_message(item: Item) -> bool:
    """Whether this message stands for a compaction item."""
    return item["type"] == "message" and str(item.get("id")).startswith(SUMMARY_ID_PREFIX)


def _is_model_item(item: Item) -> bool:
    kind = item["type"]
    if kind == "message":
        return bool(item["role"] == "assistant")
    return not kind.endswith("_output") and kind not in _CLIENT_ITEM_TYPES


def _answered_call_id(item: Item) -> str | None:
    """The id of what this item answers. A local shell's output may have it in its own `id`."""
    if item["type"] == "mcp_approval_response":
        return str(item["approval_request_id"])
    return (item.get("call_id") or item.get("id")) if item["type"].endswith("_output") else None


def _is_instruction(item: Item) -> bool:
    return item.get("role") in _SYSTEM_ROLES


def _must_retain(items: Sequence[Item], places: Sequence[int]) -> bool:
    first = items[places[0]]
    if _is_instruction(first) or is_summary_message(first) or first["type"] == "compaction":
        return True
    return _is_pending(items, places)


def _is_pending(items: Sequence[Item], places: Sequence[int]) -> bool:
    """Whether a call of this round waits for its output."""
    said = [items[place] for place in places]
    answered = {_answered_call_id(item) for item in said} - {None}
    calls = (item for item in said if _is_model_item(item))
    return any(
        answered.isdisjoint((call.get("call_id"), call.get("id")))
        for call in calls
        if call.get("call_id") or call["type"] == "mcp_approval_request"
    )


def _last_user_message(items: Sequence[Item]) -> int:
    return max((place for place, item in enumerate(items) if is_user_message(item)), default=-1)


def _json_size(items: Sequence[Item], places: Sequence[int]) -> int:
    return sum(len(orjson.dumps(items[place])) for place in places)
