"""Items that only the Responses API can express: finds the losses, and refuses whole items."""

from collections.abc import Sequence
from typing import Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.items import CALL_OUTPUT_TYPES, CALL_TYPES
from translation.representation.json_types import Item
from translation.representation.loss import Loss

UNSUCCESSFUL_STATUSES: Final = ("incomplete", "failed")
"""Statuses of outputs of calls that did not succeed. The Responses API defines `incomplete`. `failed` is the status of
an output whose text reports the failure too."""


def find_history_losses(items: Sequence[Item]) -> list[Loss]:
    """Returns the losses of past messages.

    For assistant messages these are their `phase` and their annotations. For other messages between a call and its
    output it is their position, because the output must follow the call directly.
    """
    losses: list[Loss] = []
    unanswered: set[str] = set()
    for item in items:
        kind = item.get("type")
        if kind == "message":
            if unanswered and item["role"] != "assistant":
                losses.append(Loss("input", "message not between call and output"))
            if item.get("phase"):
                losses.append(Loss("input", "phase dropped"))
            for part in item["content"]:
                if part.get("annotations"):
                    losses.append(Loss("input", "annotations dropped"))
                    break
        elif kind in CALL_TYPES:
            unanswered.add(item["call_id"])
        elif kind in CALL_OUTPUT_TYPES:
            unanswered.discard(item["call_id"])
    return losses


def find_output_losses(item: Item, index: int) -> Sequence[Loss]:
    """Returns the loss of the status `incomplete`, for upstreams that take an output as text only.

    `index` is the position of the output in the input.
    """
    return (Loss(f"input[{index}].status", "dropped"),) if item.get("status") == "incomplete" else ()


def build_unknown_item_error(item: Item, index: int) -> InvalidRequest:
    """Returns the error for an item of a type that the upstream's API does not have. `index` is its position."""
    kind, param = item.get("type", ""), f"input[{index}]"
    if kind == "item_reference":
        return InvalidRequest("Items are not stored here: send the item itself, not a reference.", param=param)
    return Unrepresentable(f"this model's API has no items of type {kind!r}", param=param)
