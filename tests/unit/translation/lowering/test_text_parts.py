"""translation/lowering/text_parts.py"""

import pytest

from translation.errors import Unrepresentable
from translation.lowering.text_parts import list_part_texts


def test_text_is_text_in_every_type_of_part() -> None:
    parts = [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}, {"type": "text"}]
    assert list_part_texts(parts, 0) == ["a", "b", ""]


def test_parts_without_text_are_refused_with_their_place() -> None:
    with pytest.raises(Unrepresentable) as refused:
        list_part_texts([{"type": "text", "text": "a"}, {"type": "input_image"}], 4)
    assert refused.value.param == "input[4].content[1]"
