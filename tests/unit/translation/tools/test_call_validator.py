"""Validates calls by the schemas of their tools."""

import json
import time
from typing import Any

import pytest

from translation.representation.json_types import Json
from translation.tools.call_validator import CallValidator
from translation.tools.schema_cost import SchemaTooLarge, count_subschemas


def judge(parameters: Any, **more: Any) -> CallValidator:
    return CallValidator([{"type": "function", "name": "f", "parameters": parameters, **more}], 1000)


def doubling(levels: int) -> Json:
    """Returns a schema of few definitions, each twice as large as the one before."""
    refs = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**refs, f"d{levels}": {"type": "object"}}}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"a": 1}', None),
        ('{"a": 1, "b": [{"c": "x"}]}', None),
        ("{}", 'arguments: "a" is a required property'),
        ('{"a": "x"}', 'arguments.a: "x" is not of type "integer"'),
        ('{"a": 1, "b": [{"c": 2}]}', 'arguments.b[0].c: 2 is not of type "string"'),
        ("{", "the arguments are not valid JSON"),
        ("[]", "the arguments are not an object"),
        (json.dumps({"a": 1, "b": "x" * 1000}), "the arguments are longer than 1000 bytes"),
        (json.dumps({"a": 1, "b": "é" * 900}, ensure_ascii=False), "the arguments are longer than 1000 bytes"),
        ('{"a": 1, "d": ' + "[" * 400 + "]" * 400 + "}", "the arguments are too deep"),
    ],
)
def test_arguments_fit_their_schema_or_not(arguments: str, why: str | None) -> None:
    inner = {"type": "array", "items": {"type": "object", "properties": {"c": {"type": "string"}}}}
    integer = {"type": "integer"}
    schema = {"type": "object", "properties": {"a": integer, "b": inner, "d": integer}, "required": ["a"]}
    held = judge(schema)
    assert held.fault_of("f", arguments) == why
    assert held.fault_of("f", '{"a": 1}') is None


def test_a_call_needs_a_tool() -> None:
    assert judge({}).fault_of("g", "{}") == "there is no such tool"


def test_a_long_reason_is_cut() -> None:
    why = judge({"properties": {"a": {"const": 1}}}).fault_of("f", json.dumps({"a": "x" * 900}))
    assert why is None or len(why) <= 300
    why = judge({"properties": {"a": {"type": "integer"}}}).fault_of("f", json.dumps({"a": "x" * 900}))
    assert why is not None
    assert len(why) == 300


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "nonsense"},
        {"$ref": "http://127.0.0.1:1/schema.json"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#name"},
        {"allOf": [{"$dynamicRef": "#name"}]},
        {"properties": {"a": {"$id": "http://127.0.0.1:1/schema.json"}}},
        {"properties": {"a": {"pattern": "(?=x)"}}},
        {"properties": {"a": {"pattern": "(a{1000}){1000}"}}},
        doubling(40),
        {"anyOf": [{"const": n} for n in range(30_000)]},
    ],
    ids=[
        "no schema",
        "elsewhere",
        "nowhere",
        "by a name",
        "dynamic",
        "an id",
        "look-ahead",
        "large pattern",
        "doubling",
        "large",
    ],
)
def test_an_invalid_schema_constrains_nothing(parameters: Any) -> None:
    began = time.thread_time()
    assert judge(parameters).fault_of("f", '{"a": 1}') is None
    assert time.thread_time() - began < 2


def test_a_schema_may_have_an_id_and_refer_to_itself() -> None:
    tree: Json = {
        "$id": "http://example/tree",
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "a~/b": {"$ref": "#/$defs/a~0~1b"}},
        "additionalProperties": False,
        "$defs": {"a~/b": {"type": "string"}},
    }
    assert judge(tree).fault_of("f", '{"children": [{"children": []}], "a~/b": ""}') is None
    assert judge(tree).fault_of("f", '{"children": [{"x": 1}]}') is not None


def test_expensive_schemas_are_not_checked() -> None:
    many = {"properties": {"a": {"items": {"anyOf": [{"const": n} for n in range(6000)]}}}}
    held = CallValidator([{"type": "function", "name": "f", "parameters": many}], 1_000_000)
    assert held.fault_of("f", '{"a": ["x"]}') is not None
    began = time.thread_time()
    assert held.fault_of("f", json.dumps({"a": ["x"] * 100_000})) is None
    assert time.thread_time() - began < 2


def test_work_is_counted_as_often_as_it_is_referred_to() -> None:
    assert count_subschemas({"type": "object"}) == 1
    assert count_subschemas(doubling(2)) < count_subschemas(doubling(3)) < count_subschemas(doubling(4))
    with pytest.raises(SchemaTooLarge):
        count_subschemas(doubling(20))


def test_a_schema_that_is_too_deep_is_not_walked() -> None:
    deep: Json = {}
    for _ in range(1000):
        deep = {"not": deep}
    with pytest.raises(SchemaTooLarge):
        count_subschemas(deep)
