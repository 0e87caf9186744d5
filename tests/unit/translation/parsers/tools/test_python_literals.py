"""Arguments of calls that are written in Python."""

import pytest

from tests.unit.support.tool_texts import parse, summarize_items, unreadable
from translation.parsers.tools import CallStarted, MalformedCall

LITERALS: dict[str, object] = {
    "1": 1,
    "-2.5e1": -25.0,
    ".5": 0.5,
    "True": True,
    "false": False,
    "None": None,
    "'a'": "a",
    '"it\'s"': "it's",
    "'a' \"b\"": "ab",
    r"'\x41\u00e9\n\'\\\q\0'": "Aé\n'\\\\q\0",
    r"r'\d'": "\\d",
    "[1, [2], ]": [1, [2]],
    "(1, 2)": [1, 2],
    "(1,)": [1],
    "(1)": 1,
    "()": [],
    "{'a': {\"b\": 1}, }": {"a": {"b": 1}},
    "{}": {},
}
"""Python literal -> its value."""


@pytest.mark.parametrize(("written", "means"), LITERALS.items(), ids=LITERALS)
def test_arguments_in_python_are_literals(written: str, means: object) -> None:
    assert summarize_items("pythonic", f"[f(a={written}, b = 2 , )]") == [("f", {"a": means, "b": 2})]


@pytest.mark.parametrize(
    "arguments",
    [
        "a=b",
        "a=f(1)",
        "a=1 b=2",
        "a",
        "a=",
        "a=1 + 1",
        "a={1: 2}",
        "a={'b'}",
        "a={'b' 1}",
        "a=[1 2]",
        "a=[1}",
        "a=1e999",
        "a=99999999999999999999",
        "a=" + "9" * 5000,
        "a='\\ud800'",
        "a=" + "[" * 60 + "]" * 60,
        "**a",
    ],
)
def test_expressions_that_need_evaluation_are_no_arguments(arguments: str) -> None:
    (broken,) = unreadable("pythonic", f"[f({arguments})]")
    assert broken.raw == f"f({arguments})"
    assert not broken.truncated


def test_arguments_that_take_long_to_parse_are_refused() -> None:
    long = "a='" + "x" * 1_000_001 + "'"
    output = parse("pythonic", [f"[f({long}), g(b=1)]"])
    (broken,) = [each for each in output if isinstance(each, MalformedCall)]
    assert "longer than 1000000 characters" in broken.reason
    assert CallStarted("g") in output, "the next call is read"


@pytest.mark.parametrize("separator", [", ", "]\n["])
def test_the_values_of_all_calls_of_an_answer_are_bounded(separator: str) -> None:
    calls = separator.join(f"f(a=[{'1,' * 20_000}])" for _ in range(4))
    output = parse("pythonic", [f"[{calls}]"])
    assert [type(each) for each in output].count(CallStarted) == 2
    assert {each.reason for each in output if isinstance(each, MalformedCall)} == {
        "the calls of this answer have too many values"
    }
