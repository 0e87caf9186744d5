"""translation/gemini/upstream/json_schemas.py"""

from copy import deepcopy
from time import thread_time
from typing import Any

import pytest

from translation.errors import InvalidRequest
from translation.gemini.upstream.json_schemas import reduce_schema
from translation.representation.json_types import Json
from translation.representation.loss import Loss

STRING = {"type": "string"}
A = {"properties": {"a": STRING}}

CASES: dict[str, tuple[Json, Json, list[str]]] = {
    "what is read stays": (
        {"type": "object", **A, "required": ["a"], "additionalProperties": False, "title": "T", "description": "d"},
        {"type": "object", **A, "required": ["a"], "additionalProperties": False, "title": "T", "description": "d"},
        [],
    ),
    "keywords that say nothing": ({"$schema": "https://…", "$comment": "c", **A}, A, []),
    "keywords without a place are reported once": (
        {"properties": {"a": {"pattern": "x", "minLength": 1}, "b": {"pattern": "y"}}},
        {"properties": {"a": {}, "b": {}}},
        ["pattern dropped", "minLength dropped"],
    ),
    "definitions of old": (
        {"definitions": {"B": A}, "properties": {"b": {"$ref": "#/definitions/B"}}},
        {"$defs": {"B": A}, "properties": {"b": {"$ref": "#/$defs/B"}}},
        [],
    ),
    "definitions of both ages": (
        {"definitions": {"B": A}, "$defs": {"C": STRING}},
        {"$defs": {"B": A, "C": STRING}},
        [],
    ),
    "a reference with words beside it": (
        {"properties": {"b": {"$ref": "#/$defs/B", "description": "d"}}},
        {"properties": {"b": {"anyOf": [{"$ref": "#/$defs/B"}], "description": "d"}}},
        [],
    ),
    "a reference with words beside it, where definitions are": (
        {"$ref": "#/$defs/B", "description": "d", "$defs": {"B": A}},
        {"anyOf": [{"$ref": "#/$defs/B"}], "description": "d", "$defs": {"B": A}},
        [],
    ),
    "a reference beside alternatives": (
        {"properties": {"b": {"$ref": "#/$defs/B", "anyOf": [STRING]}}},
        {"properties": {"b": {"anyOf": [STRING]}}},
        ["$ref beside anyOf dropped"],
    ),
    "a constant": ({"const": "x"}, {"enum": ["x"]}, []),
    "a constant that cannot be listed": ({"const": True}, {}, ["const dropped"]),
    "an enum with null, before its type": (
        {"enum": ["x", None], "type": "string"},
        {"enum": ["x"], "type": ["string", "null"]},
        [],
    ),
    "an enum with null, after its types": (
        {"type": ["string", "null"], "enum": ["x", None]},
        {"enum": ["x"], "type": ["string", "null"]},
        [],
    ),
    "an enum with null and without a type": (
        {"enum": ["x", "y", 1, 1.5, None]},
        {"enum": ["x", "y", 1, 1.5], "type": ["string", "integer", "number", "null"]},
        [],
    ),
    "an enum of what cannot be listed": ({"enum": [True, 1]}, {}, ["enum dropped"]),
    "an enum of nothing": ({"enum": [None]}, {}, ["enum dropped"]),
    "a format that is known": (
        {"type": "string", "format": "date-time"},
        {"type": "string", "format": "date-time"},
        [],
    ),
    "a format that is not": ({"type": "string", "format": "uri"}, STRING, ["format uri dropped"]),
    "bounds of whole numbers": (
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9},
        {"type": "integer", "minimum": 1, "maximum": 8},
        [],
    ),
    "bounds of numbers": ({"type": "number", "exclusiveMinimum": 0}, {"type": "number"}, ["exclusiveMinimum dropped"]),
    "alternatives": ({"oneOf": [STRING, {"type": "null"}]}, {"anyOf": [STRING, {"type": "null"}]}, []),
    "alternatives twice": ({"anyOf": [STRING], "oneOf": [{}]}, {"anyOf": [STRING]}, ["oneOf beside anyOf dropped"]),
    "lists": ({"items": STRING, "minItems": 1}, {"items": STRING, "minItems": 1}, []),
    "tuples of old": ({"items": [STRING]}, {"prefixItems": [STRING]}, []),
    "tuples": ({"prefixItems": [STRING]}, {"prefixItems": [STRING]}, []),
    "anything": ({"properties": {"a": True}}, {"properties": {"a": {}}}, []),
    "nothing": ({"properties": {"a": False}}, {"properties": {"a": {}}}, ["false dropped"]),
    "other names": (
        {"additionalProperties": {"pattern": "x"}},
        {"additionalProperties": {}},
        ["pattern dropped"],
    ),
    "names that are required and not there": (
        {**A, "required": ["a", "z"]},
        {**A, "required": ["a"]},
        ["required without a property dropped"],
    ),
    "no name that is required": ({**A, "required": []}, A, []),
    "parts that all hold": (
        {"allOf": [{**A, "required": ["a"]}, {"properties": {"b": STRING}, "required": ["a", "b"]}], "title": "T"},
        {"properties": {"a": STRING, "b": STRING}, "required": ["a", "b"], "title": "T"},
        [],
    ),
    "parts that differ": (
        {"allOf": [{"title": "S"}], "title": "T"},
        {"title": "T"},
        ["allOf.title dropped"],
    ),
    "a property that two parts speak of": (
        {"allOf": [{"properties": {"a": {"minimum": 3}, "b": STRING}}, {"properties": {"a": {"maximum": 9}}}, A, A]},
        {"properties": {"a": STRING, "b": STRING}},
        ["allOf.properties dropped"],
    ),
}


@pytest.mark.parametrize(("given", "expected", "lost"), CASES.values(), ids=CASES)
def test_a_schema_has_only_keywords_that_gemini_reads(given: Json, expected: Json, lost: list[str]) -> None:
    losses: list[Loss] = []
    before = deepcopy(given)
    assert reduce_schema(given, "tools[0].parameters", losses) == expected
    assert losses == [Loss("tools[0].parameters", what) for what in lost]
    assert given == before


def deep() -> Json:
    schema: Json = {}
    for _ in range(5_000):
        schema = {"items": schema}
    return schema


REFUSED: dict[str, Any] = {
    "properties that are no object": {"properties": [1]},
    "alternatives that are none": {"anyOf": 7},
    "a property that is no schema": {"properties": {"a": 7}},
    "a schema too deep": deep(),
}


@pytest.mark.parametrize("schema", REFUSED.values(), ids=REFUSED)
def test_an_invalid_schema_is_refused_by_name(schema: Json) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        reduce_schema(schema, "tools[0].parameters", [])
    assert refusal.value.param == "tools[0].parameters"


NAMES = [f"n{number}" for number in range(20_000)]
WHOLE = {"properties": dict.fromkeys(NAMES, STRING), "required": NAMES}


def nest(schema: Json, levels: int) -> Json:
    return schema if levels == 0 else {"allOf": [nest(schema, levels - 1)]}


LONG: dict[str, Json] = {
    "two long ones": {"allOf": [WHOLE, WHOLE]},
    "a long one, in many levels": nest(WHOLE, 200),
    "many short ones": {"allOf": [{"properties": {name: STRING}, "required": [name]} for name in NAMES]},
    "many names": {"properties": WHOLE["properties"], "allOf": [{"required": [name]} for name in NAMES]},
}


@pytest.mark.parametrize("schema", LONG.values(), ids=LONG)
def test_joining_many_schemas_or_names_takes_linear_time(schema: Json) -> None:
    started = thread_time()
    reduced = reduce_schema(schema, "tools[0].parameters", [])
    assert thread_time() - started < 1.0
    assert reduced == {"properties": dict.fromkeys(NAMES, STRING), "required": NAMES}
