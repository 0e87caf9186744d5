"""How many values a JSON text has, however it is cut and whatever its strings contain."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.http import json_size, large_bodies
from gateway.http.json_size import has_more_values
from gateway.http.large_bodies import weigh_body

VALUES = some.recursive(
    some.none() | some.integers() | some.text(alphabet='a\\",[{:é'),
    lambda inner: some.lists(inner, min_size=1) | some.dictionaries(some.text(alphabet='a\\",[{'), inner, min_size=1),
)


def count(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, children))


@given(value=VALUES, size=some.integers(min_value=1, max_value=40))
def test_the_values_are_counted_in_slices_of_any_size(value: Any, size: int) -> None:
    text, values = json.dumps(value, ensure_ascii=False).encode(), count(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_size, "_SLICE_BYTES", size)
        assert not has_more_values(text, values)
        assert has_more_values(text, values - 1)


@pytest.mark.parametrize("content", [b'\\"', b",", b"["], ids=["quotes", "commas", "brackets"])
def test_what_is_in_a_string_is_no_value(content: bytes) -> None:
    assert not has_more_values(b'"%b"' % (content * 200_000), 1)


@given(value=VALUES, inline_bytes=some.integers(min_value=1, max_value=40))
def test_a_light_body_has_no_more_values_than_its_weight(value: Any, inline_bytes: int) -> None:
    body = {"a": value}
    text = json.dumps(body, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_bodies, "INLINE_BYTES", inline_bytes)
        weight = weigh_body(text)
    assert weight > inline_bytes or count(body) <= weight
