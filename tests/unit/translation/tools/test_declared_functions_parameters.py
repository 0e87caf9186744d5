"""Schemas of functions with what upstreams require."""

import pytest

from translation.representation.json_types import Json
from translation.tools.declared_functions import complete_parameters

A: Json = {"a": {"type": "string"}}
EMPTY: Json = {"type": "object", "properties": {}}

SCHEMAS: dict[str, tuple[Json | None, Json]] = {
    "no schema": (None, EMPTY),
    "an empty schema": ({}, EMPTY),
    "an object without properties": ({"type": "object"}, EMPTY),
    "an object with other keys": ({"type": "object", "title": "F"}, {**EMPTY, "title": "F"}),
    "properties without a type": ({"properties": A}, {"type": "object", "properties": A}),
    "a whole schema": ({"type": "object", "properties": A}, {"type": "object", "properties": A}),
    "another type": ({"type": "string"}, {"type": "string"}),
    "several types": ({"type": ["object", "null"]}, {"type": ["object", "null"]}),
}


@pytest.mark.parametrize(("parameters", "completed"), SCHEMAS.values(), ids=SCHEMAS)
def test_objects_have_properties(parameters: Json | None, completed: Json) -> None:
    assert complete_parameters(parameters) == completed
