"""Stored prompts: which bodies describe one, and what a request with one becomes."""

from typing import Any, Final

import pytest

from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.responses.prompts import merge_prompt, read_prompt, read_version

IMAGE: Final[Json] = {"type": "input_image", "image_url": "https://a.example/x.png"}
PROMPT: Final[Json] = {
    "name": "Guide",
    "model": "m",
    "instructions": "Answer in {{language}}.",
    "messages": [
        {"role": "developer", "content": "You know {{ city }}."},
        {"role": "user", "content": "Look: {{photo}}{{city}}!"},
    ],
    "defaults": {"language": "French"},
}


def test_a_prompt_has_the_names_of_its_variables() -> None:
    assert read_prompt(PROMPT) == {**PROMPT, "variables": ["language", "city", "photo"]}
    assert read_prompt({"instructions": "Hi {not} {{ 1x }}"}) == {
        "instructions": "Hi {not} {{ 1x }}",
        "defaults": {},
        "variables": [],
    }


def test_values_take_the_places_of_variables_once() -> None:
    values = {"city": "{{language}}", "photo": "a "}
    merged, size = merge_prompt({"prompt": {"id": "p"}, "input": "Where?"}, read_prompt(PROMPT), values)
    assert size == 99
    assert merged == {
        "model": "m",
        "instructions": "Answer in French.",
        "input": [
            {"role": "developer", "content": "You know {{language}}."},
            {"role": "user", "content": "Look: a {{language}}!"},
            {"role": "user", "content": "Where?"},
        ],
    }


def test_an_image_is_a_part_of_the_message() -> None:
    values = {"city": {"type": "input_text", "text": "Rome"}, "photo": IMAGE, "language": "Latin"}
    merged = merge_prompt({"model": "own", "instructions": "Own."}, read_prompt(PROMPT), values).body
    assert (merged["model"], merged["instructions"]) == ("own", "Own.")
    assert merged["input"][1]["content"] == [
        {"type": "input_text", "text": "Look: "},
        IMAGE,
        {"type": "input_text", "text": "Rome"},
        {"type": "input_text", "text": "!"},
    ]


def test_input_of_the_request_follows_or_is_left_to_the_validator() -> None:
    content = read_prompt({"instructions": "x"})
    assert merge_prompt({"input": [{"role": "user", "content": "a"}]}, content, None).body["input"] == [
        {"role": "user", "content": "a"}
    ]
    assert merge_prompt({"input": 3}, content, None).body["input"] == 3
    assert "input" not in merge_prompt({}, content, {}).body


LONG = "x" * 200_001


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "instructions"),
        ({"messages": []}, "instructions"),
        ({"instructions": 3}, "instructions"),
        ({"instructions": LONG}, "instructions"),
        ({"instructions": "x", "name": "n" * 257}, "name"),
        ({"instructions": "x", "template": "y"}, "template"),
        ({"messages": "x"}, "messages"),
        ({"messages": [{"role": "user", "content": "x"}] * 51}, "messages"),
        ({"messages": ["x"]}, "messages[0]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "x", "id": "y"}]}, "messages[0].id"),
        ({"instructions": "".join(f"{{{{v{n}}}}}" for n in range(101))}, "messages"),
        ({"instructions": "{{v}}" * 10_001}, "messages"),
        ({"messages": [{"role": "user", "content": LONG[1:]}] * 6}, "messages"),
        ({"instructions": "x", "defaults": []}, "defaults"),
        ({"instructions": "x", "defaults": {"y": "z"}}, "defaults.y"),
        ({"instructions": "{{y}}", "defaults": {"y": 3}}, "defaults.y"),
    ],
)
def test_a_malformed_prompt_is_refused_by_name(body: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_prompt(body)
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("variables", "param", "code"),
    [
        (None, "prompt.variables.city", "missing_prompt_variable"),
        ({"city": "x"}, "prompt.variables.photo", "missing_prompt_variable"),
        ({"town": "x"}, "prompt.variables.town", "unknown_prompt_variable"),
        ({"city": 3}, "prompt.variables.city", "invalid_type"),
        ({"city": {"type": "output_text"}}, "prompt.variables.city", "invalid_type"),
        ([], "prompt.variables", "invalid_type"),
        ({"city": IMAGE, "photo": "x"}, "prompt.variables.city", None),
        ({"city": {"type": "input_text"}, "photo": "x"}, "prompt.variables.city", None),
        ({"city": "x" * 6_000_000, "photo": "x"}, "prompt.variables", None),
        ({"city": "x", "photo": {"type": "input_image", "image_url": "x" * 10_000_000}}, "prompt.variables", None),
    ],
)
def test_variables_that_do_not_fit_are_refused_by_name(variables: Any, param: str, code: str | None) -> None:
    with pytest.raises(InvalidRequest) as refused:
        merge_prompt({}, read_prompt(PROMPT), variables)
    assert refused.value.param == param
    assert code is None or refused.value.code == code


@pytest.mark.parametrize("value", [2, "two", "", "1234567", "-1"])
def test_a_version_is_a_text_with_a_number(value: Any) -> None:
    assert read_version("12", "version") == 12
    assert read_version(None, "version") is None
    with pytest.raises(InvalidRequest):
        read_version(value, "version")
