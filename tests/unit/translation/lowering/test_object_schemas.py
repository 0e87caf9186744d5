"""translation/lowering/object_schemas.py: an object at the top, which accepts what the client's schema accepts."""

from copy import deepcopy
from time import thread_time

import jsonschema_rs
import pytest

from translation.errors import Unrepresentable
from translation.lowering.object_schemas import to_object_schema
from translation.representation.json_types import Json
from translation.representation.loss import Loss

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def merged(*keys: str) -> list[Loss]:
    return [Loss("p", f"{key} merged") for key in keys]


def an_object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


KEPT: dict[str, tuple[Json, Json]] = {
    "nothing": ({}, an_object()),
    "an object": (an_object(a={"anyOf": [TEXT, NUMBER]}), an_object(a={"anyOf": [TEXT, NUMBER]})),
    "an object that does not say so": ({"properties": {"a": TEXT}}, an_object(a=TEXT)),
}


@pytest.mark.parametrize(("schema", "expected"), KEPT.values(), ids=KEPT)
def test_supported_schemas_are_unchanged(schema: Json, expected: Json) -> None:
    losses: list[Loss] = []
    assert to_object_schema(schema, "p", losses) == expected
    assert losses == []


MERGED: dict[str, tuple[Json, Json, list[Loss]]] = {
    "one of two objects": (
        {"oneOf": [{**an_object(a=TEXT), "required": ["a"]}, {**an_object(b=NUMBER), "required": ["b"]}]},
        {**an_object(a=TEXT, b=NUMBER), "description": '{"oneOf":[{"required":["a"]},{"required":["b"]}]}'},
        merged("oneOf"),
    ),
    "one of two requirements": (
        {
            **an_object(a=TEXT, b=TEXT, c=TEXT),
            "required": ["c"],
            "description": "Either.",
            "additionalProperties": False,
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        {
            **an_object(a=TEXT, b=TEXT, c=TEXT),
            "required": ["c"],
            "description": 'Either. {"anyOf":[{"required":["a"]},{"required":["b"]}]}',
            "additionalProperties": False,
        },
        merged("anyOf"),
    ),
    "a requirement of all": (
        {"anyOf": [{"required": ["a", "b"]}, {"required": ["b"]}], "properties": {"b": TEXT}},
        {
            **an_object(b=TEXT),
            "required": ["b"],
            "description": '{"anyOf":[{"required":["a","b"]},{"required":["b"]}]}',
        },
        merged("anyOf"),
    ),
    "a property in two forms": (
        {"anyOf": [an_object(a=TEXT), an_object(a=NUMBER), an_object(a=TEXT)]},
        an_object(a={"anyOf": [TEXT, NUMBER]}),
        merged("anyOf"),
    ),
    "a property that a choice narrows": (
        {**an_object(a=TEXT), "oneOf": [an_object(a={"const": "x"}), an_object(a={"const": "y"})]},
        an_object(a={"allOf": [TEXT, {"anyOf": [{"const": "x"}, {"const": "y"}]}]}),
        merged("oneOf"),
    ),
    "a property that one choice narrows": (
        {**an_object(a=TEXT), "anyOf": [an_object(a={"const": "x"}), an_object(b=TEXT)]},
        an_object(a=TEXT, b=TEXT),
        merged("anyOf"),
    ),
    "all of several": (
        {"allOf": [{**an_object(a={}), "required": ["a"]}, an_object(a=TEXT, b=TEXT), {"anyOf": [an_object(c=TEXT)]}]},
        {**an_object(a=TEXT, b=TEXT, c=TEXT), "required": ["a"]},
        merged("allOf"),
    ),
    "references": (
        {
            "$ref": "#/$defs/base",
            "anyOf": [{"$ref": "#/$defs/x~1y"}, {"$ref": "#/$defs/gone"}],
            "$defs": {"base": an_object(a=TEXT), "x/y": {"$ref": "#/$defs/x~1y", **an_object(b=TEXT)}},
        },
        {
            **an_object(a=TEXT, b=TEXT),
            "$defs": {"base": an_object(a=TEXT), "x/y": {"$ref": "#/$defs/x~1y", **an_object(b=TEXT)}},
        },
        merged("anyOf"),
    ),
    "what is no object": (
        {
            "type": ["object", "null"],
            "anyOf": [an_object(a=TEXT), {"type": "null"}, {"type": ["object", "null"]}, True],
        },
        an_object(a=TEXT),
        [Loss("p", "made an object"), *merged("anyOf")],
    ),
    "what is no schema": (
        {"properties": 1, "required": "a", "anyOf": 2, "oneOf": [3], "allOf": [{"properties": []}]},
        an_object(),
        merged("anyOf", "oneOf", "allOf"),
    ),
}


@pytest.mark.parametrize(("schema", "expected", "expected_losses"), MERGED.values(), ids=MERGED)
def test_a_choice_at_the_top_is_merged(schema: Json, expected: Json, expected_losses: list[Loss]) -> None:
    before, losses = deepcopy(schema), list[Loss]()
    assert to_object_schema(schema, "p", losses) == expected
    assert losses == expected_losses
    assert schema == before


VALID: list[Json] = [{}, {"a": "x"}, {"a": "y"}, {"a": "z"}, {"a": 1}, {"b": "x"}, {"b": "x", "c": "z"}]

UNTESTABLE = ("references", "what is no object", "what is no schema")
"""No schemas, or some that mean nothing."""


@pytest.mark.parametrize("name", [name for name in MERGED if name not in UNTESTABLE])
def test_a_merged_schema_accepts_arguments_of_each_choice(name: str) -> None:
    schema, told, _ = MERGED[name]
    fitting = [each for each in VALID if jsonschema_rs.is_valid(schema, each)]
    assert fitting
    assert [each for each in fitting if jsonschema_rs.is_valid(told, each)] == fitting


def test_a_reference_at_the_top_is_merged_for_apis_that_do_not_read_it() -> None:
    definitions: Json = {"base": {**an_object(a=TEXT), "required": ["a"]}}
    schema: Json = {"$ref": "#/$defs/base", "description": "d", "$defs": definitions}
    losses: list[Loss] = []
    expected = {**an_object(a=TEXT), "required": ["a"], "description": "d", "$defs": definitions}
    assert to_object_schema(schema, "p", losses, ("anyOf", "$ref")) == expected
    assert losses == merged("$ref")


@pytest.mark.parametrize("key", ["anyOf", "allOf"])
def test_a_schema_nested_too_deep_is_refused(key: str) -> None:
    schema: Json = {}
    for _ in range(2000):
        schema = {key: [schema]}
    with pytest.raises(Unrepresentable) as refused:
        to_object_schema(schema, "p", [])
    assert refused.value.param == "p"


def test_choices_are_compared_as_json() -> None:
    choices: list[Json] = [{"const": 1}, {"const": True}, {"const": 1.0}, {"const": 1}]
    choices += [{"type": "string", "minLength": 2}, {"minLength": 2, "type": "string"}]
    schema = to_object_schema({"anyOf": [an_object(a=choice) for choice in choices]}, "p", [])
    assert str(schema["properties"]["a"]["anyOf"]) == str([*choices[:3], choices[4]])


def test_names_of_required_properties_that_are_no_texts_are_left_out() -> None:
    choice = {**an_object(a=TEXT), "required": ["a", {}, 1]}
    told = to_object_schema({"anyOf": [choice, choice], "required": [[], "b"]}, "p", [])
    assert told["required"] == ["b", "a"]


def count_up(size: int) -> Json:
    return {"anyOf": [{**an_object(**{f"p{number}": TEXT}), "required": [f"p{number}"]} for number in range(size)]}


def test_many_choices_are_merged_in_one_step_for_each() -> None:
    told = to_object_schema(count_up(4_000), "p", [])
    assert len(told["properties"]) == 4_000


def test_a_long_schema_is_compared_once_however_often_it_is_referred_to() -> None:
    values = [f"{number} é" for number in range(20_000)]
    schema = {"$defs": {"a": an_object(p={"enum": values})}, "anyOf": [{"$ref": "#/$defs/a"}] * 3_000}
    started = thread_time()
    told = to_object_schema(schema, "p", [])
    assert thread_time() - started < 2.0  # to serialize the values for each reference would take a minute
    assert told["properties"] == {"p": {"enum": values}}


def nest(schema: Json, levels: int) -> Json:
    return schema if levels == 0 else {"anyOf": [nest(schema, levels - 1)]}


LARGE: dict[str, Json] = {
    "many choices": count_up(5_001),
    "many properties on many levels": nest(an_object(**{f"p{number}": TEXT for number in range(9_000)}), 100),
    "references that double": {
        "$ref": "#/$defs/0",
        "allOf": [],
        "$defs": {str(level): {"anyOf": [{"$ref": f"#/$defs/{level + 1}"}] * 2} for level in range(40)},
    },
}


@pytest.mark.parametrize("schema", LARGE.values(), ids=LARGE)
def test_a_schema_that_stands_for_too_much_is_refused(schema: Json) -> None:
    with pytest.raises(Unrepresentable, match="more than 10000") as refused:
        to_object_schema(schema, "p", [])
    assert refused.value.param == "p"
