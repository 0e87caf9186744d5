"""translation/representation/json_types.py"""

from translation.representation.json_types import mapping_or_empty


def test_values_that_are_no_object_count_as_an_empty_one() -> None:
    assert mapping_or_empty({"a": 1}) == {"a": 1}
    assert [mapping_or_empty(value) for value in (None, [1], "a", 1)] == [{}] * 4
