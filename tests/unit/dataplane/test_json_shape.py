"""The shape of a JSON text, for every split and any contents of strings, compiled and in Python."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dataplane import core, json_shape

VALUES = some.recursive(
    some.none() | some.integers() | some.text(alphabet='a\\",[{]}:é'),
    lambda inner: some.lists(inner, min_size=1) | some.dictionaries(some.text(alphabet='a\\",[{'), inner, min_size=1),
)

Measure = Callable[[bytes], tuple[int, int]]

WAYS = [pytest.param(json_shape.measure_json, id="Python"), pytest.param(core.measure_json, id="chosen")]


def shape(value: Any) -> tuple[int, int]:
    children = [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else None
    if children is None:
        return 1, 0
    shapes = list(map(shape, children))
    return 1 + sum(values for values, _ in shapes), 1 + max(depth for _, depth in shapes)


@given(value=VALUES, size=some.integers(min_value=1, max_value=40))
def test_a_text_is_measured_in_slices_of_any_size(value: Any, size: int) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_shape, "SLICE_BYTES", size)
        assert json_shape.measure_json(text) == shape(value)
    assert core.measure_json(text) == shape(value)


@pytest.mark.parametrize("content", [b'\\"', b"\\\\", b",", b"[", b"]"], ids=repr)
@pytest.mark.parametrize("measure", WAYS)
def test_contents_of_strings_are_not_counted_as_values(measure: Measure, content: bytes) -> None:
    assert measure(b'{"a":"%b"}' % (content * 200_000)) == (2, 1)


@pytest.mark.parametrize("measure", WAYS)
def test_an_empty_list_counts_twice(measure: Measure) -> None:
    assert measure(b"[[],[]]") == (5, 2)


@given(text=some.lists(some.sampled_from([b'"', b"\\", b"[", b"]", b",", b"a"])).map(b"".join))
def test_invalid_json_is_measured_without_failing(text: bytes) -> None:
    for measure in (json_shape.measure_json, core.measure_json):
        values, depth = measure(text)
        assert 1 <= values <= 1 + len(text)
        assert 0 <= depth <= len(text)
