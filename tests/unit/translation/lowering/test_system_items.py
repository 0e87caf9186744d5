"""System messages that become instructions."""

from typing import Any

import pytest

from translation.lowering.system_items import merge_system_items
from translation.representation.json_types import Item
from translation.representation.loss import Loss

USER: Item = {"role": "user", "content": "Hi"}
CALL: Item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
IMAGE: Item = {"role": "system", "content": [{"type": "input_image", "image_url": "data:"}]}


def system(content: Any, role: str = "system") -> Item:
    return {"type": "message", "role": role, "content": content}


def text(*texts: str) -> list[Item]:
    return [{"type": "input_text", "text": text} for text in texts]


MERGED: dict[str, tuple[str | None, list[Item], str | None, list[Item], bool]] = {
    "one that comes late": (None, [USER, system("a")], "a", [USER], True),
    "one that comes first": ("a", [system("b", "developer"), USER], "a\n\nb", [USER], False),
    "several": ("a", [system("b"), USER, CALL, system(text("c", "d"))], "a\n\nb\n\nc\nd", [USER, CALL], True),
    "one without text": (None, [system([]), USER], None, [USER], False),
    "one with an image stays": (None, [USER, IMAGE, system("a")], "a", [USER, IMAGE], True),
}


@pytest.mark.parametrize(("before", "items", "after", "rest", "is_loss"), MERGED.values(), ids=MERGED)
def test_system_messages_become_instructions(
    before: str | None, items: list[Item], after: str | None, rest: list[Item], is_loss: bool
) -> None:
    losses: list[Loss] = []
    assert merge_system_items(before, items, losses) == (after, rest)
    assert losses == ([Loss("input", "system messages merged")] if is_loss else [])


def test_items_without_system_messages_stay_the_same_object() -> None:
    items = [USER, CALL]
    assert merge_system_items("a", items, [])[1] is items
    assert merge_system_items(None, [IMAGE], []) == (None, [IMAGE])
    assert merge_system_items(None, [system(None), USER], []) == (None, [USER])
