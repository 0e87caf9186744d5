"""Schemas that nothing can follow, kept from llama.cpp, which would try for as long as there is memory."""

from typing import Any

import pytest

from providers.llamacpp.contradictions import refuse_contradictions
from translation.errors import InvalidRequest


def inside(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, schema]}}}


@pytest.mark.parametrize("what", ["Length", "Items", "Properties"])
def test_more_at_least_than_at_most_is_refused_wherever_it_is(what: str) -> None:
    schema = inside({f"min{what}": 5, f"max{what}": 2})
    with pytest.raises(InvalidRequest, match=f"min{what} is more than max{what}") as refused:
        refuse_contradictions({"text": None, "tools": ({"parameters": schema},)})
    assert refused.value.param == "tools"


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
def test_what_can_be_followed_or_is_not_for_us_to_judge_is_left_alone(schema: Any) -> None:
    refuse_contradictions({"text": inside(schema), "seed": 3})
