"""References of the API's schemas lead to the definitions of the JSON schema."""

from typing import Any

import pytest

from translation.gemini.client.json_schemas import lift_schema
from translation.gemini.client.lift import lift
from translation.gemini.client.value_replies import find_value_form
from translation.representation.json_types import Json

STRING: Json = {"type": "STRING"}
TEXT: Json = {"type": "string"}
DEFS: Json = {"defs": {"X": STRING}}
LIFTED: Json = {"$defs": {"X": TEXT}}
REF: Json = {"$ref": "#/$defs/X"}


def put_at(place: str, inner: Json) -> Json:
    """A schema with another one at a place."""
    return {
        "the top": inner,
        "a property": {"properties": {"a": inner}},
        "an item": {"items": inner},
        "a tuple": {"prefixItems": [inner]},
        "an alternative": {"anyOf": [inner]},
        "other properties": {"additionalProperties": inner},
        "a depth of three": {"properties": {"a": {"items": {"anyOf": [inner]}}}},
    }[place]


PLACES = (*("the top", "a property", "an item", "a tuple", "an alternative", "other properties", "a depth of three"),)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("key", ["ref", "$ref"])
@pytest.mark.parametrize("written", ["#/defs/X", "#/$defs/X"])
def test_a_reference_leads_to_a_definition(written: str, key: str, place: str) -> None:
    assert lift_schema({**put_at(place, {key: written}), **DEFS}) == {**put_at(place, REF), **LIFTED}


def test_a_definition_may_refer_to_another_one() -> None:
    defs = {"X": STRING, "Y": {"properties": {"x": {"ref": "#/defs/X"}}}}
    assert lift_schema({"ref": "#/defs/Y", "defs": defs}) == {
        "$ref": "#/$defs/Y",
        "$defs": {"X": TEXT, "Y": {"properties": {"x": REF}}},
    }


def test_definitions_under_both_names_are_kept() -> None:
    schema = {"anyOf": [{"ref": "#/defs/X"}, {"ref": "#/$defs/Y"}], **DEFS, "$defs": {"Y": STRING}}
    assert lift_schema(schema) == {"anyOf": [REF, {"$ref": "#/$defs/Y"}], "$defs": {"X": TEXT, "Y": TEXT}}


UNCHANGED: dict[str, Json] = {
    "a property named so": {"properties": {"defs": {"properties": {"X": TEXT}}, "a": {"$ref": "#/properties/defs"}}},
    "a reference to all": {"items": {"$ref": "#"}},
    "a reference to a property": {"items": {"$ref": "#/properties/defs/X"}},
    "another document": {"items": {"$ref": "http://a/#/defs/X"}},
}


@pytest.mark.parametrize("schema", UNCHANGED.values(), ids=UNCHANGED)
def test_other_references_stay(schema: Json) -> None:
    assert lift_schema(schema) == schema
    assert lift_schema({**schema, **DEFS}) == {**schema, **LIFTED}


def test_a_reference_to_definitions_that_are_not_there_stays() -> None:
    schema = {"items": {"$ref": "#/defs/X"}}
    assert lift_schema(schema) == schema


def test_a_property_named_defs_is_none() -> None:
    properties = {"defs": {"type": "OBJECT", "properties": {"ref": STRING}}}
    assert lift_schema({"properties": properties}) == {
        "properties": {"defs": {"type": "object", "properties": {"ref": TEXT}}}
    }


VALUES: dict[str, tuple[Json, str | None]] = {
    "the API's definitions": ({"responseSchema": {"type": "ARRAY", "items": {"ref": "#/defs/X"}, **DEFS}}, "json"),
    "the API's, as JSON schemas refer": (
        {"responseSchema": {"type": "ARRAY", "items": {"$ref": "#/$defs/X"}, **DEFS}},
        "json",
    ),
    "no definitions": ({"responseSchema": {"type": "ARRAY", "items": {"ref": "#/defs/X"}}}, None),
    "a place in a JSON schema": (
        {"responseJsonSchema": {"type": "array", "items": {"$ref": "#/defs/X"}, **LIFTED, "defs": {"X": TEXT}}},
        None,
    ),
    "the schema itself": ({"responseSchema": {"type": "ARRAY", "items": {"ref": "#"}, **DEFS}}, None),
}


@pytest.mark.parametrize(("config", "form"), VALUES.values(), ids=VALUES)
def test_a_value_may_have_definitions(config: Json, form: str | None) -> None:
    given = {"responseMimeType": "application/json", **config}
    assert find_value_form({"generationConfig": given}) == form


def test_a_list_of_defined_values_is_wrapped_with_its_definitions() -> None:
    config: dict[str, Any] = {"responseMimeType": "application/json", **VALUES["the API's definitions"][0]}
    body = {"model": "m", "contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "generationConfig": config}
    turn = lift(body)
    assert turn.text_format is not None
    schema = turn.text_format["schema"]
    assert schema["properties"]["value"]["items"] == REF
    assert schema["$defs"] == LIFTED["$defs"]
