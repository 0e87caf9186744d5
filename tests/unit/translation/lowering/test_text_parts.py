"""translation/lowering/text_parts.py"""

from typing import Any

import pytest

from translation.errors import Unrepresentable
from translation.lowering.text_parts import find_only_text, list_part_texts
from translation.representation.json_types import Item, Json


def test_text_is_text_in_every_type_of_part() -> None:
    parts = [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}, {"type": "text"}]
    assert list_part_texts(parts, 0) == ["a", "b", ""]


def test_parts_without_text_are_refused_with_their_place() -> None:
    with pytest.raises(Unrepresentable) as refused:
        list_part_texts([{"type": "text", "text": "a"}, {"type": "input_image"}], 4)
    assert refused.value.param == "input[4].content[1]"


def message(role: str, *parts: Json) -> Item:
    return {"type": "message", "role": role, "content": list(parts)}


def text(words: str, **more: Any) -> Json:
    return {"type": "input_text", "text": words, **more}


@pytest.mark.parametrize(
    ("items", "found"),
    [
        ([message("user", text("Hi"))], "Hi"),
        ([message("user", text(""))], ""),
        ([message("user", text("Hi", annotations=[]))], "Hi"),
        ([], None),
        ([message("user", text("a")), message("user", text("b"))], None),
        ([message("assistant", text("Hi"))], None),
        ([message("developer", text("Hi"))], None),
        ([{"type": "additional_tools", "role": "user", "tools": []}], None),
        ([message("user")], None),
        ([message("user", text("a"), text("b"))], None),
        ([message("user", {"type": "input_image", "image_url": "https://x"})], None),
        ([message("user", text("Hi", annotations=[{"type": "url_citation"}]))], None),
        ([{**message("user", text("Hi")), "phase": "commentary"}], None),
    ],
)
def test_only_one_plain_message_of_the_user_is_found(items: list[Item], found: str | None) -> None:
    assert find_only_text(items) == found
