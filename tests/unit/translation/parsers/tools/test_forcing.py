"""Calls that a model is made to write."""

import json
from typing import Any

import jsonschema_rs
import pytest

from tests.unit.support.tool_texts import summarize_items
from translation.parsers.tools import PARSER_FACTORIES, block_stop_of, call_opening_of, force_call, force_text_call

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "name": "weather", "description": "Tells.", "parameters": CITY}
TIME = {"type": "function", "function": {"name": "time"}}
SHAPED = {
    "type": "function",
    "name": "draw",
    "parameters": {
        "$defs": {"point": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
        "type": "object",
        "properties": {
            "at": {"$ref": "#/$defs/point"},
            "more": {"type": "array", "prefixItems": [{"$ref": "#/$defs/point"}]},
        },
        "required": ["at"],
    },
}


def test_hermes_is_forced_by_its_opening_tag() -> None:
    named = force_call("hermes", [WEATHER])
    assert named is not None
    assert tuple(named) == (
        "<tool_call>\n",
        {
            "type": "object",
            "properties": {"name": {"const": "weather"}, "arguments": CITY},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        },
        "\n</tool_call>",
    )


@pytest.mark.parametrize("tools", [[WEATHER], [WEATHER, TIME]], ids=["one tool", "several"])
@pytest.mark.parametrize(
    ("parser", "key"),
    [("hermes", "arguments"), ("llama3_json", "parameters"), ("mistral", "arguments"), ("json", "arguments")],
)
def test_output_that_fits_the_schema_is_a_call(parser: str, key: str, tools: list[dict[str, Any]]) -> None:
    way = force_call(parser, tools)
    assert way is not None
    call = {"name": "weather", key: {"city": "Paris"}}
    schema = jsonschema_rs.validator_for(way.schema)
    assert schema.is_valid(call)
    assert not schema.is_valid({"name": "weather", key: {}})
    assert not schema.is_valid({"name": "other", key: {}})
    assert not schema.is_valid({**call, "more": 1})
    assert schema.is_valid({"name": "time", key: {}}) == (len(tools) == 2)
    assert summarize_items(parser, way.prefix + json.dumps(call) + way.suffix) == [("weather", {"city": "Paris"})]


def test_llama_is_forced_to_one_function_by_its_name() -> None:
    way = force_call("llama", [WEATHER])
    assert way is not None
    assert tuple(way) == ("<function=weather>", CITY, "</function>")
    assert summarize_items("llama", f'{way.prefix}{{"city": "Rome"}}{way.suffix}') == [("weather", {"city": "Rome"})]
    assert force_call("llama", [WEATHER, TIME]) is None


@pytest.mark.parametrize("parser", ["pythonic", "openai", "vllm:granite"])
def test_formats_without_json_cannot_be_forced(parser: str) -> None:
    assert force_call(parser, [WEATHER]) is None


def test_nothing_is_forced_without_functions() -> None:
    assert force_call("hermes", []) is None
    assert force_call("hermes", [{"type": "web_search"}]) is None


@pytest.mark.parametrize("tools", [[SHAPED], [WEATHER, SHAPED]], ids=["one tool", "several"])
def test_references_in_parameters_stay_true(tools: list[dict[str, Any]]) -> None:
    way = force_call("hermes", tools)
    assert way is not None
    schema = jsonschema_rs.validator_for(way.schema, offline=True)
    assert schema.is_valid({"name": "draw", "arguments": {"at": {"x": 1}}})
    assert not schema.is_valid({"name": "draw", "arguments": {"at": {}}})


def test_a_block_ends_with_its_closing_tag() -> None:
    assert {parser: block_stop_of(parser) for parser in PARSER_FACTORIES} == {
        "hermes": "</tool_call>",
        "llama": "</function>",
        "llama3_json": None,
        "mistral": None,
        "json": None,
        "pythonic": None,
    }


def test_calls_are_distinguished_from_json_by_their_opening() -> None:
    assert {parser: call_opening_of(parser) for parser in PARSER_FACTORIES} == {
        "hermes": "<tool_call>",
        "llama": "<function=",
        "llama3_json": None,
        "mistral": "[TOOL_CALLS]",
        "json": None,
        "pythonic": None,
    }


@pytest.mark.parametrize("parser", ["hermes", "llama", "llama3_json", "mistral", "json"])
def test_text_between_prefix_and_suffix_is_the_argument_of_a_call(parser: str) -> None:
    form = force_text_call(parser, "note", "input")
    assert form is not None
    inside = json.dumps('say "hi"\n')[1:-1]
    calls = [entry for entry in summarize_items(parser, form.prefix + inside + form.suffix) if entry]
    assert calls == [("note", {"input": 'say "hi"\n'})]


def test_a_format_without_a_known_call_cannot_be_forced() -> None:
    assert force_text_call("pythonic", "note", "input") is None
