"""Past calls and their outputs: one makes no sense without the other, and each pair has an id of its own."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from translation.errors import InvalidRequest
from translation.representation.items import CALL_OUTPUT_TYPES, CALL_TYPES
from translation.representation.json_types import Item, Json
from translation.tools.call_ids import CallIdAllocator

_PLACEHOLDER_TYPES: Final = frozenset({"compaction", "item_reference"})
"""Items that stand for others, which may be calls or outputs."""

_HISTORY_PARAMS: Final = frozenset({"previous_response_id", "conversation", "prompt"})
"""Parameters of a relayed body by which the upstream adds items of its own."""


def call_ids_in(items: Iterable[Item]) -> Iterator[str]:
    """The ids of the calls."""
    return (item["call_id"] for item in items if item.get("type") in CALL_TYPES)


def validate_relayed_calls(body: Json, items: Sequence[Item]) -> frozenset[str]:
    """Hold the items of a relayed body to be pairs, as far as they are all there are; the ids their calls go out under.

    Raises InvalidRequest naming the id of a call without its output, or of an output without its call.
    """
    return frozenset(call_ids_in(with_unique_call_ids(items) if is_self_contained(body) else items))


def is_self_contained(body: Json) -> bool:
    """Whether a relayed body names nothing by which its upstream adds items."""
    return _HISTORY_PARAMS.isdisjoint(body) or not any(body.get(name) for name in _HISTORY_PARAMS)


def with_unique_call_ids(items: Sequence[Item]) -> Sequence[Item]:
    """The items with every call under an id of its own, its output and its signature under the same.

    The same object where that is so already. Raises as `check_relayed` does.
    """
    new_ids = _new_ids(items)
    return _apply_ids(new_ids, items) if new_ids else items


def with_unique_call_ids_lenient(items: Sequence[Item]) -> Sequence[Item]:
    """The same for items that were checked before, in another form: what is no pair is left as it is."""
    new_ids = _new_ids(items, strict=False)
    return _apply_ids(new_ids, items) if new_ids else items


def _apply_ids(new_ids: dict[int, str], items: Sequence[Item]) -> Sequence[Item]:
    renamed = list(items)
    latest: dict[str, str] = {}
    for place in range(len(items) - 1, -1, -1):
        item = items[place]
        if item.get("type") in CALL_TYPES:
            latest[item["call_id"]] = new_ids[place] if place in new_ids else item["call_id"]
        if place in new_ids:
            renamed[place] = {**item, "call_id": new_ids[place]}
        elif isinstance(item.get("details"), list):
            # What is signed is the next call by that id.
            renamed[place] = with_call_ids_in_details(item, latest)
    return renamed


def with_call_ids_in_details(item: Item, ids: dict[str, str]) -> Item:
    """A reasoning item whose details speak of calls by these ids."""
    return {**item, "details": [_renamed_detail(detail, ids) for detail in item["details"]]}


def _renamed_detail(detail: object, ids: dict[str, str]) -> object:
    match detail:
        case {"call_id": str(call_id), **rest} if call_id in ids:
            return {**rest, "call_id": ids[call_id]}
        case _:
            return detail


def _new_ids(items: Sequence[Item], *, strict: bool = True) -> dict[int, str]:
    """Place -> id, where that is another than the item has. Unless it `checks`, it raises nothing."""
    places: list[int] = []
    for place, item in enumerate(items):
        kind = item.get("type")
        if kind in _PLACEHOLDER_TYPES or item.get("async"):
            return {}
        if kind in CALL_TYPES or kind in CALL_OUTPUT_TYPES:
            places.append(place)
    if not places:
        return {}
    ids = CallIdAllocator()
    waiting: dict[str, deque[tuple[int, str]]] = defaultdict(deque)
    changed_ids: dict[int, str] = {}
    for place in places:
        item = items[place]
        kind = item["type"]
        given_id = item["call_id"]
        new_id: str = given_id
        if kind in CALL_TYPES:
            new_id = ids.claim(given_id)
            waiting[given_id].append((place, new_id))
        elif waiting[given_id]:
            new_id = waiting[given_id].popleft()[1]
        elif strict:
            message = f"No tool call with the call_id {given_id!r} comes before this output."
            raise InvalidRequest(message, param=f"input[{place}].call_id")
        if new_id != given_id:
            changed_ids[place] = new_id
    for given_id, left in waiting.items() if strict else ():
        for place, _ in left:
            raise InvalidRequest(
                f"No output for the tool call {given_id!r} follows it.", param=f"input[{place}].call_id"
            )
    return changed_ids
