"""Items that only the Responses API can express: finds the losses, and refuses whole items."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.items import CALL_OUTPUT_TYPES, CALL_TYPES
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss, UnknownKey
from translation.representation.turn import Turn

UNSUCCESSFUL_STATUSES: Final = ("incomplete", "failed")
"""Statuses of outputs of calls that did not succeed. The Responses API defines `incomplete`. `failed` is the status of
an output whose text reports the failure too."""


SETTING_TYPES: Final = frozenset({"configuration_update"})
"""Types of items that have no content for the model: they change settings of the turns after them."""


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


def find_unknown_key_losses(keys: Sequence[UnknownKey], body: Json | None = None) -> list[Loss]:
    """Returns the losses of the unknown keys that are not sent: all of them, unless they are in the upstream's `body`.

    A lowering that sends parts of the turn as they are passes its body.
    """
    if not keys:
        return []
    sent = list(_list_objects(body)) if body is not None else []
    lost = [key.path for key in keys if not any(_has_key(value, key) for value in sent)]
    return [Loss(path, "dropped") for path in dict.fromkeys(lost)]


def _has_key(value: Json, key: UnknownKey) -> bool:
    """Whether an object is the one with the key, or a copy of it that still has it."""
    if value is key.holder:
        return True
    kind, name = key.holder.get("type"), str(key.holder.get("name"))
    if kind is None or value.get("type") != kind or value.get(key.key) != key.holder[key.key]:
        return False
    return str(value.get("name")).endswith(name)  # a namespace may precede it


def _list_objects(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _list_objects(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _list_objects(inner)


def find_parameter_losses(turn: Turn) -> list[Loss]:
    """Returns the losses of a provider that knows no parameters but those of the APIs."""
    return [*(Loss(name, "dropped") for name in turn.extra), *find_unknown_key_losses(turn.unknown_keys)]


def build_unknown_item_error(item: Item, index: int) -> InvalidRequest:
    """Returns the error for an item of a type that the upstream's API does not have. `index` is its position."""
    kind, param = item.get("type", ""), f"input[{index}]"
    if kind == "item_reference":
        return InvalidRequest("Items are not stored here: send the item itself, not a reference.", param=param)
    return Unrepresentable(f"this model's API has no items of type {kind!r}", param=param)
