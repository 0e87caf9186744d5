"""Which schemas can be closed, and what they are then."""

from typing import Any, Optional

import anthropic
import pydantic
import pytest

from translation.lowering.closed_schemas import close_objects
from translation.representation.json_types import Json

TEXT: Json = {"type": "string"}
NULLABLE: Json = {"anyOf": [{"type": "string"}, {"type": "null"}]}


OR_NULL = ["object", "null"]


def an_object(properties: Json, *required: str, **more: Any) -> Json:
    return {"type": "object", "properties": properties, "required": list(required), **more}


CLOSED_EMPTY: Json = {"type": "object", "properties": {}, "additionalProperties": False}
CLOSED: dict[str, tuple[Json, Json]] = {
    "all properties are required": (
        an_object({"a": TEXT}, "a"),
        an_object({"a": TEXT}, "a", additionalProperties=False),
    ),
    "no properties": ({"type": "object", "properties": {}}, CLOSED_EMPTY),
    "closed and without properties": ({"type": "object", "additionalProperties": False}, CLOSED_EMPTY),
    "an optional property that may be null": (
        an_object({"a": TEXT, "b": NULLABLE, "c": {"type": ["integer", "null"]}, "d": {"type": "null"}}, "a"),
        an_object(
            {"a": TEXT, "b": NULLABLE, "c": {"type": ["integer", "null"]}, "d": {"type": "null"}},
            *("a", "b", "c", "d"),
            additionalProperties=False,
        ),
    ),
    "an object that may be null": (
        {**an_object({"a": TEXT}, "a"), "type": OR_NULL},
        {**an_object({"a": TEXT}, "a", additionalProperties=False), "type": OR_NULL},
    ),
    "properties with the names of keywords that are refused": (
        an_object({"not": TEXT, "default": TEXT}, "not", "default"),
        an_object({"not": TEXT, "default": TEXT}, "not", "default", additionalProperties=False),
    ),
    "a default is left out": (
        an_object({"a": {**NULLABLE, "default": None}}),
        an_object({"a": NULLABLE}, "a", additionalProperties=False),
    ),
    "a definition at the top": (
        {"$ref": "#/$defs/x", "$defs": {"x": an_object({"next": {"$ref": "#/$defs/x"}}, "next")}},
        {
            "$ref": "#/$defs/x",
            "$defs": {"x": an_object({"next": {"$ref": "#/$defs/x"}}, "next", additionalProperties=False)},
        },
    ),
    "objects within": (
        an_object({"a": {"type": "array", "items": an_object({"b": TEXT}, "b")}}, "a", **{"$defs": {"x": TEXT}}),
        an_object(
            {"a": {"type": "array", "items": an_object({"b": TEXT}, "b", additionalProperties=False)}},
            "a",
            additionalProperties=False,
            **{"$defs": {"x": TEXT}},
        ),
    ),
}


@pytest.mark.parametrize(("schema", "closed"), CLOSED.values(), ids=CLOSED)
def test_a_schema_is_closed(schema: Json, closed: Json) -> None:
    assert close_objects(schema) == closed


KEPT: dict[str, Any] = {
    "an optional property": an_object({"a": TEXT}),
    "an optional property whose values are listed": an_object({"a": {"type": ["string", "null"], "enum": ["x"]}}),
    "an optional property of any type": an_object({"a": True}),
    "any property": {"type": "object"},
    "other properties": an_object({}, additionalProperties=TEXT),
    "an optional property within": an_object({"a": {"anyOf": [an_object({"b": TEXT})]}}, "a"),
    "a required key that is no property": an_object({"a": TEXT}, "a", "b"),
    "an optional property of an object that may be null": an_object(
        {"a": {**an_object({"b": TEXT}), "type": OR_NULL}}, "a"
    ),
    "several schemas together": {"allOf": [an_object({"a": TEXT}, "a"), an_object({"b": TEXT}, "b")]},
    "one schema, by a keyword that is refused": {"allOf": [an_object({"a": TEXT}, "a")]},
    "a definition and more": {**an_object({"a": TEXT}, "a"), "$ref": "#/$defs/x", "$defs": {"x": an_object({}, "b")}},
    "choices beside properties": {
        **an_object({"a": TEXT}, "a"),
        "anyOf": [an_object({"b": TEXT}, "b"), an_object({"c": TEXT}, "c")],
    },
    "a definition beside choices": {
        "$ref": "#/$defs/x",
        "anyOf": [an_object({"b": TEXT}, "b")],
        "$defs": {"x": an_object({"a": TEXT}, "a")},
    },
    "exactly one choice": an_object({"a": {"oneOf": [TEXT, {"type": "null"}]}}, "a"),
    "distinct items": an_object({"a": {"type": "array", "items": TEXT, "uniqueItems": True}}, "a"),
    "a keyword that is refused within a definition": {"$ref": "#/$defs/x", "$defs": {"x": {"not": TEXT}}},
    "no schema": True,
}


@pytest.mark.parametrize("schema", KEPT.values(), ids=KEPT)
def test_a_schema_that_would_mean_something_else_is_not_closed(schema: Any) -> None:
    assert close_objects(schema) is None


def test_a_schema_that_is_nested_too_deep_is_not_closed() -> None:
    schema: Json = TEXT
    for _ in range(5000):
        schema = {"type": "array", "items": schema}
    assert close_objects(schema) is None


class Person(pydantic.BaseModel):
    name: str
    nick: Optional[str] = None  # noqa: UP045 -- as users write it


def test_optional_fields_of_a_model_of_the_sdk_become_required_ones_that_may_be_null() -> None:
    closed = close_objects(anthropic.transform_schema(Person))
    assert closed is not None
    assert closed["required"] == ["name", "nick"]
    assert {"type": "null"} in closed["properties"]["nick"]["anyOf"]
