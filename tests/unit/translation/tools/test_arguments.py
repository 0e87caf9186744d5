"""The text of a past call's arguments as an object."""

import pytest

from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.tools.arguments import (
    find_arguments_fault,
    is_same_json,
    parse_past_arguments,
    render_arguments,
    strip_code_fence,
)


@pytest.mark.parametrize(
    ("given", "text"),
    [({"a": 1}, '{"a":1}'), ('{"a"', '{"a"'), (" ", "{}"), ([], "[]"), (None, "null"), (0, "0"), (False, "false")],
)
def test_arguments_as_a_value_become_equal_json_text(given: object, text: str) -> None:
    assert render_arguments(given) == text


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ('{"a":{"b":[1]}}', {"a": {"b": [1]}}),
        ("{}", {}),
        ("", {}),
        (" \n", {}),
        ('```json\n{"a": 1}\n```\n', {"a": 1}),
        ('``` {"a": "```"} ```', {"a": "```"}),
        ('```JSON{"a": 1}```', {"a": 1}),
    ],
)
def test_an_object_is_parsed_and_missing_arguments_are_an_empty_one(arguments: str, given: Json) -> None:
    losses: list[Loss] = []
    assert parse_past_arguments(arguments, "input[0].arguments", losses) == given
    assert losses == []


@pytest.mark.parametrize(
    "arguments", ['{"a":', "[1]", '"text"', "null", "hello", "[" * 300 + "]" * 300, "```json\n[1]\n```", "```"]
)
def test_text_that_is_no_object_is_preserved_and_marked(arguments: str) -> None:
    losses: list[Loss] = []
    assert parse_past_arguments(arguments, "input[0].arguments", losses) == {"raw_arguments": arguments}
    assert losses == [Loss("input[0].arguments", "wrapped")]


def test_text_that_is_too_long_is_preserved_and_marked() -> None:
    losses: list[Loss] = []
    given = '{"a":"é"}'
    assert parse_past_arguments(given, "p", losses, max_bytes=10) == {"a": "é"}
    assert parse_past_arguments(given, "p", losses, max_bytes=9) == {"raw_arguments": given}
    assert losses == [Loss("p", "wrapped")]


def test_arguments_are_no_longer_than_two_hundred_thousand_bytes_unless_they_may_be() -> None:
    losses: list[Loss] = []
    given = '{"a":"' + "x" * 200_000 + '"}'
    assert parse_past_arguments(given, "p", losses) == {"raw_arguments": given}
    assert parse_past_arguments(given, "p", [], max_bytes=300_000) == {"a": "x" * 200_000}


@pytest.mark.parametrize("arguments", ["", " ", "{}"])
def test_no_arguments_at_all_are_no_fault(arguments: str) -> None:
    assert find_arguments_fault(arguments, 100) is None


@pytest.mark.parametrize("inner", [" " * 199_000, "`" * 199_000, "a" * 199_000, "``` " * 49_000])
def test_fences_around_much_of_nothing_are_read_at_once(inner: str) -> None:
    given = f"```{inner}"
    assert strip_code_fence(given) == given
    assert strip_code_fence(f"{given}```") == f"{given}```"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":[true,null]}', '{ "b": [true, null], "a": 1 }'),
        ('{"a":"\\u00e9"}', '{"a":"é"}'),
        ('{"a":1.10}', '{"a":1.1}'),
        ('{"a":1e2}', '{"a":100.0}'),
        ('{"a":12345678901234567890123}', '{"a": 12345678901234567890123}'),
        ('{"a":-0}', '{"a":0}'),
    ],
)
def test_one_value_may_be_written_in_two_ways(one: str, other: str) -> None:
    assert is_same_json(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1}', '{"a":true}'),
        ('{"a":0}', '{"a":false}'),
        ('{"a":1.0}', '{"a":true}'),
        ('{"a":1}', '{"a":1.0}'),
        ('{"a":100}', '{"a":1e2}'),
        ('{"a":[{"b":1}]}', '{"a":[{"b":1.0}]}'),
        ('{"a":1}', '{"a":"1"}'),
        ('{"a":null}', "{}"),
        ('{"a":12345678901234567890123}', '{"a":12345678901234567890124}'),
        ('{"a":12345678901234567890123}', '{"a":1.2345678901234568e+22}'),
        ('{"a":0.1}', '{"a":0.1000000000000000055511151231257827}'),
        ('{"a":1e-400}', '{"a":0.0}'),
        ('{"a":1e-99999999999999999999}', '{"a":0.0}'),
        ('{"a":1}', '{"a":1'),
        ('{"a":NaN}', '{"a": NaN}'),
        ("[" * 1010 + "1" + "]" * 1010, "[" * 1010 + " 1" + "]" * 1010),
    ],
)
def test_other_digits_and_other_types_are_other_values(one: str, other: str) -> None:
    assert not is_same_json(one, other)
