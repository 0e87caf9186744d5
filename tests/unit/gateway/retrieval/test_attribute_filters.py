"""Filters by attributes: what each condition means, and where each fault is."""

from typing import Any

import pytest

from gateway.retrieval.attribute_filters import MAX_CONDITIONS, MAX_DEPTH, Attributes, FilterFault, compile_filter

ATTRIBUTES: Attributes = {"year": 2021, "price": 9.5, "city": "Zürich", "is_new": True, "digits": "2021", "zero": 0}


def condition(kind: str, key: str, value: object) -> dict[str, Any]:
    return {"type": kind, "key": key, "value": value}


@pytest.mark.parametrize(
    ("kind", "key", "value", "expected"),
    [
        ("eq", "year", 2021, True),
        ("eq", "year", 2021.0, True),
        ("eq", "year", "2021", False),
        ("eq", "digits", "2021", True),
        ("eq", "is_new", True, True),
        ("eq", "is_new", 1, False),
        ("eq", "zero", False, False),
        ("eq", "city", "zürich", False),
        ("eq", "missing", "x", False),
        ("ne", "year", 2020, True),
        ("ne", "year", 2021, False),
        ("ne", "year", "2021", True),
        ("ne", "missing", "x", True),
        ("gt", "year", 2020, True),
        ("gt", "year", 2021, False),
        ("gte", "year", 2021, True),
        ("lt", "price", 10, True),
        ("lte", "price", 9.5, True),
        ("lt", "digits", 3000, False),
        ("gt", "is_new", 0, False),
        ("gt", "city", "Zoo", True),
        ("lt", "missing", 1, False),
        ("in", "year", [2020, 2021], True),
        ("in", "is_new", [1, "True"], False),
        ("in", "is_new", [True], True),
        ("in", "year", [], False),
        ("in", "missing", ["x"], False),
        ("nin", "year", [2020], True),
        ("nin", "year", [2021], False),
        ("nin", "missing", ["x"], True),
    ],
)
def test_each_condition_compares_values_of_one_kind(kind: str, key: str, value: object, expected: bool) -> None:
    assert compile_filter(condition(kind, key, value))(ATTRIBUTES) is expected


def test_groups_join_their_conditions() -> None:
    right, wrong = condition("eq", "year", 2021), condition("eq", "year", 2020)
    for kind, parts, expected in (
        ("and", [right], True),
        ("and", [right, wrong], False),
        ("or", [wrong, right], True),
        ("or", [wrong, wrong], False),
        ("and", [right, {"type": "or", "filters": [wrong, right]}], True),
    ):
        assert compile_filter({"type": kind, "filters": parts})(ATTRIBUTES) is expected


def nest(levels: int) -> dict[str, Any]:
    value = condition("eq", "a", 1)
    for _ in range(levels - 1):
        value = {"type": "and", "filters": [value]}
    return value


def test_depth_and_conditions_have_bounds() -> None:
    compile_filter(nest(MAX_DEPTH))
    with pytest.raises(FilterFault, match="16 levels"):
        compile_filter(nest(MAX_DEPTH + 1))
    conditions = [condition("eq", "a", 1)] * MAX_CONDITIONS
    compile_filter({"type": "or", "filters": conditions})
    with pytest.raises(FilterFault, match="256 conditions") as fault:
        compile_filter({"type": "or", "filters": [*conditions, conditions[0]]})
    assert fault.value.path == ".filters[256]"


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({}, ".type"),
        ([], ""),
        ("eq", ""),
        (None, ""),
        ({"type": "like", "key": "a", "value": "b"}, ".type"),
        ({"type": ["eq"], "key": "a", "value": "b"}, ".type"),
        ({"type": "eq", "value": 1}, ".key"),
        ({"type": "eq", "key": 1, "value": 1}, ".key"),
        ({"type": "eq", "key": "a"}, ".value"),
        ({"type": "eq", "key": "a", "value": [1]}, ".value"),
        ({"type": "eq", "key": "a", "value": None}, ".value"),
        ({"type": "gt", "key": "a", "value": True}, ".value"),
        ({"type": "in", "key": "a", "value": 1}, ".value"),
        ({"type": "nin", "key": "a", "value": [1, {}]}, ".value[1]"),
        ({"type": "eq", "key": "a", "value": 1, "boost": 2}, ".boost"),
        ({"type": "and"}, ".filters"),
        ({"type": "or", "filters": []}, ".filters"),
        ({"type": "and", "filters": {}}, ".filters"),
        (
            {"type": "and", "filters": [{"type": "eq", "key": "a", "value": 1}, {"type": "or", "filters": [3]}]},
            ".filters[1].filters[0]",
        ),
    ],
)
def test_each_fault_has_its_place(value: object, path: str) -> None:
    with pytest.raises(FilterFault) as fault:
        compile_filter(value)
    assert fault.value.path == path
    assert fault.value.message
