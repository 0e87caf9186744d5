"""Pairs past calls with their outputs, and makes the id of each pair unique."""

from collections.abc import Iterable, Iterator, Sequence

from translation.representation.call_pairs import CallOutputPairs
from translation.representation.items import CALL_TYPES
from translation.representation.json_types import Item
from translation.tools.call_ids import CallIdAllocator


def call_ids_in(items: Iterable[Item]) -> Iterator[str]:
    """Returns the ids of the calls among these items."""
    return (item["call_id"] for item in items if item.get("type") in CALL_TYPES)


def validate_relayed_calls(items: Sequence[Item], *, is_self_contained: bool) -> frozenset[str]:
    """Checks that the calls and outputs of a relayed body are pairs. Returns the ids that the calls are sent with.

    A body to which the upstream adds items is not self-contained, and not checked. Raises InvalidRequest, which names
    the id, for a call without an output or an output without a call.
    """
    return frozenset(call_ids_in(with_unique_call_ids(items) if is_self_contained else items))


def with_unique_call_ids(items: Sequence[Item], pairs: CallOutputPairs | None = None) -> Sequence[Item]:
    """Gives every call a unique id, and its output and signature the same id.

    `pairs` are those of the items, if they are known. Returns `items` itself if all ids are unique. Raises
    InvalidRequest, which names the id, for a call without an output or an output without a call.
    """
    pairs = pairs or CallOutputPairs(items)
    if pairs.has_placeholders:
        return items
    pairs.check_all()
    new_ids = _new_ids(items, pairs)
    return _apply_ids(new_ids, items) if new_ids else items


def with_unique_call_ids_lenient(items: Sequence[Item]) -> Sequence[Item]:
    """Gives calls, outputs and signatures unique ids, but accepts calls and outputs without a counterpart, unlike
    `with_unique_call_ids`.

    It is for items that were already checked in another form.
    """
    pairs = CallOutputPairs(items)
    new_ids = {} if pairs.has_placeholders else _new_ids(items, pairs)
    return _apply_ids(new_ids, items) if new_ids else items


def _apply_ids(new_ids: dict[int, str], items: Sequence[Item]) -> Sequence[Item]:
    renamed = list(items)
    latest: dict[str, str] = {}
    for index in range(len(items) - 1, -1, -1):
        item = items[index]
        if item.get("type") in CALL_TYPES:
            latest[item["call_id"]] = new_ids[index] if index in new_ids else item["call_id"]
        if index in new_ids:
            renamed[index] = {**item, "call_id": new_ids[index]}
        elif isinstance(item.get("details"), list):
            # A signature belongs to the next call with its id.
            renamed[index] = with_call_ids_in_details(item, latest)
    return renamed


def with_call_ids_in_details(item: Item, ids: dict[str, str]) -> Item:
    """Returns a reasoning item with the call ids in its details replaced: `ids` maps old ids to new ones."""
    return {**item, "details": [_renamed_detail(detail, ids) for detail in item["details"]]}


def _renamed_detail(detail: object, ids: dict[str, str]) -> object:
    match detail:
        case {"call_id": str(call_id), **rest} if call_id in ids:
            return {**rest, "call_id": ids[call_id]}
        case _:
            return detail


def _new_ids(items: Sequence[Item], pairs: CallOutputPairs) -> dict[int, str]:
    """Returns index -> new id for the items whose id changes."""
    if pairs.has_unique_ids:
        return {}
    ids = CallIdAllocator()
    changed_ids: dict[int, str] = {}
    for call in pairs.calls:
        given_id = items[call]["call_id"]
        new_id = ids.claim(given_id)
        if new_id != given_id:
            changed_ids[call] = new_id
            if call in pairs.outputs:
                changed_ids[pairs.outputs[call]] = new_id
    return changed_ids
