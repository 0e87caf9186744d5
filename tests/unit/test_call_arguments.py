"""The text of a past call's arguments as an object."""

import pytest

from translation.call_arguments import arguments_object
from translation.json_types import Json
from translation.loss import Loss


@pytest.mark.parametrize(
    ("arguments", "given"),
    [('{"a":{"b":[1]}}', {"a": {"b": [1]}}), ("{}", {}), ("", {}), (" \n", {})],
)
def test_an_object_is_read_and_nothing_is_an_empty_one(arguments: str, given: Json) -> None:
    losses: list[Loss] = []
    assert arguments_object(arguments, "input[0].arguments", losses) == given
    assert losses == []


@pytest.mark.parametrize("arguments", ['{"a":', "[1]", '"text"', "null", "hello", "[" * 300 + "]" * 300])
def test_what_is_no_object_is_kept_as_it_is_and_marked(arguments: str) -> None:
    losses: list[Loss] = []
    assert arguments_object(arguments, "input[0].arguments", losses) == {"raw_arguments": arguments}
    assert losses == [Loss("input[0].arguments", "wrapped")]
