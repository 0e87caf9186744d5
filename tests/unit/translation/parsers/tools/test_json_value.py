"""JSON in model text: where a value ends, and what is no JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translation.parsers.tools.json_value import JsonValueReader

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.sampled_from([None, 2]), st.booleans())
def test_json_is_read_to_its_end(value: Any, indent: int | None, in_ascii: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=in_ascii)
    reader = JsonValueReader()
    end, said = reader.feed(f"{text} ", 0)
    assert (reader.is_complete, reader.is_broken) == (True, False)
    assert (end, json.loads(said)) == (len(text), value)


def test_json_with_spaces_everywhere_may_arrive_one_character_at_a_time() -> None:
    text = ' [ { } , [ ] , { "a" : 1 , "b" : [ null ] } ] '
    reader = JsonValueReader()
    assert "".join(reader.feed(each, 0)[1] for each in text) == text.rstrip()
    assert reader.is_complete


@given(st.text(alphabet='{}[]",:\\u0aE1-+. \n\x01truefalsn', max_size=30))
def test_accepted_text_is_valid_json(text: str) -> None:
    reader = JsonValueReader()
    end, said = reader.feed(text, 0)
    if reader.is_complete:
        json.loads(said)
    else:
        assert reader.is_broken or end == len(text)


@pytest.mark.parametrize(
    "text", ["[1 2]", '{"a" 1}', "{1: 2}", "[tru]", "[01]", '["\\x"]', '["\\u00g0"]', "[,]", "[1,]"]
)
def test_invalid_json_breaks_at_the_first_wrong_character(text: str) -> None:
    reader = JsonValueReader()
    end, _ = reader.feed(text, 0)
    assert reader.is_broken
    assert end < len(text)


def test_endless_numbers_are_refused() -> None:
    reader = JsonValueReader()
    reader.feed("[" + "1" * 1000 + "]", 0)
    assert reader.is_broken
