"""Adapts tools to the requirements of some upstreams."""

from copy import deepcopy

import pytest

from translation.errors import Unrepresentable
from translation.hygiene.schema_shims import apply_schema_shims, shim_format
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import SchemaShim

SCHEMAS: dict[str, tuple[SchemaShim, Json, Json]] = {
    "an empty required": (
        "no_empty_required",
        {"required": [], "properties": {"a": {"required": []}, "required": {"type": "string"}}},
        {"properties": {"a": {}, "required": {"type": "string"}}},
    ),
    "a required list with names": ("no_empty_required", {"required": ["a"]}, {"required": ["a"]}),
    "a $schema": (
        "no_schema_key",
        {"$schema": "https://…", "$defs": {"b": {"$schema": "https://…"}}, "items": {"$schema": "https://…"}},
        {"$defs": {"b": {}}, "items": {}},
    ),
    "unsigned formats": (
        "signed_formats",
        {"anyOf": [{"format": "uint32"}, {"format": "uint8"}], "items": [{"format": "uint64"}, {"format": "date"}]},
        {"anyOf": [{"format": "int64"}, {"format": "int32"}], "items": [{"format": "int64"}, {"format": "date"}]},
    ),
    "arrays without items": (
        "array_items",
        {
            "type": "array",
            "$defs": {"a": {"type": ["array", "null"]}, "b": {"type": ["string", "null"]}},
            "properties": {"c": {"type": "array", "items": {"type": "array"}}, "d": {"type": "string"}},
        },
        {
            "type": "array",
            "items": {},
            "$defs": {"a": {"type": ["array", "null"], "items": {}}, "b": {"type": ["string", "null"]}},
            "properties": {"c": {"type": "array", "items": {"type": "array", "items": {}}}, "d": {"type": "string"}},
        },
    ),
    "arrays whose items are described": (
        "array_items",
        {"anyOf": [{"type": "array", "prefixItems": [{}]}, {"type": "array", "$ref": "#"}]},
        {"anyOf": [{"type": "array", "prefixItems": [{}]}, {"type": "array", "$ref": "#"}]},
    ),
    "patterns that every server reads": (
        "plain_patterns",
        {"pattern": r"^[a-z]\\p{2}$", "properties": {"pattern": {"pattern": 3}}},
        {"pattern": r"^[a-z]\\p{2}$", "properties": {"pattern": {"pattern": 3}}},
    ),
    "what is no schema": (
        "signed_formats",
        {"default": {"format": "uint8"}, "enum": [{"format": "uint8"}], "format": 7, "additionalProperties": False},
        {"default": {"format": "uint8"}, "enum": [{"format": "uint8"}], "format": 7, "additionalProperties": False},
    ),
}


@pytest.mark.parametrize(("shim", "given", "expected"), SCHEMAS.values(), ids=SCHEMAS)
def test_schemas_are_changed_throughout(shim: SchemaShim, given: Json, expected: Json) -> None:
    before = deepcopy(given)
    losses: list[Loss] = []
    flat: Json = {"type": "function", "name": "f", "parameters": given}
    nested: Json = {"type": "function", "function": {"name": "f", "parameters": given}}
    assert apply_schema_shims([flat, nested], {shim}, losses) == [
        {"type": "function", "name": "f", "parameters": expected},
        {"type": "function", "function": {"name": "f", "parameters": expected}},
    ]
    assert losses == []
    assert given == before


def test_functions_may_go_without_their_descriptions() -> None:
    losses: list[Loss] = []
    tools: list[Json] = [
        {"type": "function", "name": "f", "description": "Does f.", "parameters": {"description": "Of f."}},
        {"type": "function", "name": "g"},
        {"type": "custom", "name": "h", "description": "Does h."},
    ]
    assert apply_schema_shims(tools, {"no_descriptions"}, losses) == [
        {"type": "function", "name": "f", "parameters": {"description": "Of f."}},
        {"type": "function", "name": "g"},
        tools[2],
    ]
    assert losses == [Loss("tools[0].description", "dropped")]


@pytest.mark.parametrize("pattern", [r"^\p{L}+$", r"\P{Lu}", r"[\p{L}\d]", r"\\\p{L}"])
def test_a_pattern_with_a_unicode_class_is_left_out_as_a_loss(pattern: str) -> None:
    losses: list[Loss] = []
    schema: Json = {"type": "object", "properties": {"a": {"anyOf": [{"type": "string", "pattern": pattern}]}}}
    tools = [{"type": "function", "name": "f", "parameters": schema}]
    assert apply_schema_shims(tools, {"plain_patterns"}, losses) == [
        {**tools[0], "parameters": {**schema, "properties": {"a": {"anyOf": [{"type": "string"}]}}}}
    ]
    assert losses == [Loss("tools[0].parameters.pattern", "dropped")]


def test_a_pattern_in_data_is_no_loss() -> None:
    losses: list[Loss] = []
    schema: Json = {"default": {"pattern": r"\p{L}"}, "pattern": "a"}
    tools = [{"type": "function", "name": "f", "parameters": schema}]
    assert apply_schema_shims(tools, {"plain_patterns"}, losses) == tools
    assert losses == []


def test_without_shims_tools_are_left_alone() -> None:
    tools = [{"type": "function", "name": "f", "parameters": {"required": []}}]
    assert apply_schema_shims(tools, frozenset(), []) is tools


def test_a_schema_without_an_end_is_refused() -> None:
    schema: Json = {}
    for _ in range(10_000):
        schema = {"items": schema}
    with pytest.raises(Unrepresentable) as refusal:
        apply_schema_shims([{"type": "function", "name": "f", "parameters": schema}], {"no_schema_key"}, [])
    assert refusal.value.param == "tools[0].parameters"


@pytest.mark.parametrize(("shim", "given", "expected"), SCHEMAS.values(), ids=SCHEMAS)
def test_the_schema_of_a_format_is_changed_as_that_of_a_tool(shim: SchemaShim, given: Json, expected: Json) -> None:
    losses: list[Loss] = []
    answer_format: Json = {"type": "json_schema", "name": "a", "schema": given}
    assert shim_format(answer_format, {shim}, "text.format.schema", losses) == {**answer_format, "schema": expected}
    assert losses == []


def test_a_pattern_that_a_format_loses_is_a_loss() -> None:
    losses: list[Loss] = []
    answer_format: Json = {"type": "json_schema", "schema": {"type": "string", "pattern": r"\p{L}"}}
    shimmed = shim_format(answer_format, {"plain_patterns"}, "text.format.schema", losses)
    assert shimmed["schema"] == {"type": "string"}
    assert losses == [Loss("text.format.schema.pattern", "dropped")]


@pytest.mark.parametrize("answer_format", [{"type": "text"}, {"type": "json_schema", "schema": None}])
def test_a_format_without_a_schema_is_unchanged(answer_format: Json) -> None:
    assert shim_format(answer_format, {"array_items"}, "text.format.schema", []) is answer_format
