"""What items of the Responses API say and no other API has a word for."""

from collections.abc import Iterator, Sequence
from typing import Final

from translation.representation.items import CALL_OUTPUT_TYPES, CALL_TYPES
from translation.representation.json_types import Item
from translation.representation.loss import Loss

UNSUCCESSFUL_STATUSES: Final = ("incomplete", "failed")
"""Statuses of outputs that were no success. The API's own is the first; the second is that of an output whose text says
so as well."""


def history_losses(items: Sequence[Item]) -> list[Loss]:
    """Of what the assistant said before: whether it was meant as the answer, and what it cited. Of what others said
    while a call had no output: that it was then, as the output has to be what follows the call."""
    unsaid: list[Loss] = []
    unanswered: set[str] = set()
    for item in items:
        kind = item.get("type")
        if kind == "message":
            if unanswered and item["role"] != "assistant":
                unsaid.append(Loss("input", "message not between call and output"))
            if item.get("phase"):
                unsaid.append(Loss("input", "phase dropped"))
            for part in item["content"]:
                if part.get("annotations"):
                    unsaid.append(Loss("input", "annotations dropped"))
                    break
        elif kind in CALL_TYPES:
            unanswered.add(item["call_id"])
        elif kind in CALL_OUTPUT_TYPES:
            unanswered.discard(item["call_id"])
    return unsaid


def output_losses(item: Item, param: str) -> Iterator[Loss]:
    """That it was no success, where a text is all that can be said of it."""
    if item.get("status") == "incomplete":
        yield Loss(f"{param}.status", "dropped")
