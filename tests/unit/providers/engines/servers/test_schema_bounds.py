"""Unsatisfiable schemas are refused, because llama.cpp would use all memory for them."""

from typing import Any

import pytest

from providers.engines.servers.schema_bounds import refuse_invalid_bounds
from translation.errors import InvalidRequest


def inside(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, schema]}}}


@pytest.mark.parametrize("what", ["Length", "Items", "Properties"])
def test_contradictory_bounds_are_refused_wherever_they_are(what: str) -> None:
    schema = inside({f"min{what}": 5, f"max{what}": 2})
    with pytest.raises(InvalidRequest, match=f"min{what} is larger than max{what}") as refused:
        refuse_invalid_bounds({"text": None, "tools": ({"parameters": schema},)})
    assert refused.value.param == "tools"


@pytest.mark.parametrize(
    "grammar",
    ["root ::= [a-z]{5,2}", 'root ::= "a"{1000000}', "root ::= x{20000,}\nx ::= [}]", 'x{5,2} "[', 'x ["]{5,2}'],
)
def test_a_grammar_that_repeats_without_end_is_refused(grammar: str) -> None:
    with pytest.raises(InvalidRequest, match="is larger than") as refused:
        refuse_invalid_bounds({"grammar": grammar})
    assert refused.value.param == "grammar"


def test_bounds_over_the_limit_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="is larger than 10000"):
        refuse_invalid_bounds({"text": inside({"minLength": 10**9})})


@pytest.mark.parametrize(
    "grammar", ['root ::= "{5,2}" [{5,2}] [a-z]{2,5}', "root ::= [a-z]{2} [0-9]{1,}", r'root ::= "\"{5,2}"']
)
def test_grammars_that_end_are_left_alone(grammar: str) -> None:
    refuse_invalid_bounds({"grammar": grammar, "seed": "{5,2}"})


@pytest.mark.parametrize(
    "schema",
    [
        {"minLength": 2, "maxLength": 2},
        {"minLength": 5},
        {"maxItems": 0},
        {"minLength": 5, "maxItems": 2},
        {"minItems": "5", "maxItems": 2},
        True,
    ],
)
def test_satisfiable_and_unknown_schemas_are_left_alone(schema: Any) -> None:
    refuse_invalid_bounds({"text": inside(schema), "seed": 3})


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        ({"minimum": 10, "maximum": 5}, "no number satisfies both minimum and maximum"),
        ({"minimum": 5, "exclusiveMaximum": 5}, "no number satisfies both minimum and exclusiveMaximum"),
        ({"exclusiveMinimum": 5.0, "maximum": 5}, "no number satisfies both exclusiveMinimum and maximum"),
        (
            {"exclusiveMinimum": 5, "exclusiveMaximum": 6},
            "no whole number satisfies both exclusiveMinimum and exclusiveMaximum",
        ),
        ({"minimum": 1.5, "maximum": 1.6}, "no whole number satisfies both minimum and maximum"),
        ({"minimum": -1.5, "exclusiveMaximum": -1}, "no whole number satisfies both minimum and exclusiveMaximum"),
    ],
)
def test_bounds_that_leave_no_number_are_refused_by_name(bounds: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest, match=f"'text.format': {why}") as refused:
        refuse_invalid_bounds({"text.format": inside({"type": "integer", **bounds})})
    assert refused.value.param == "text.format"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 5, "maximum": 5},
        {"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 7},
        {"type": "number", "exclusiveMinimum": 5, "exclusiveMaximum": 6},
        {"type": "integer", "minimum": -1.5, "maximum": -1},
        {"type": "integer", "minimum": 5, "exclusiveMinimum": True, "maximum": 6},
        {"type": "integer", "minimum": "5", "maximum": 2},
        {"type": "integer", "minimum": float("inf"), "maximum": 2},
        {"const": {"minimum": 5, "maximum": 2}},
        {"properties": {"minimum": {"type": "integer"}, "maximum": {"type": "integer"}}},
    ],
)
def test_bounds_that_leave_a_number_are_left_alone(schema: Any) -> None:
    refuse_invalid_bounds({"text.format": inside(schema)})


def test_a_property_may_be_called_as_a_keyword_is() -> None:
    with pytest.raises(InvalidRequest, match="minLength is larger than maxLength"):
        refuse_invalid_bounds({"tools": [{"properties": {"enum": {"minLength": 5, "maxLength": 2}}}]})
