"""gateway/dialects/responses/field_docs.py: every field of a request is documented by an example that is valid."""

import re

import pytest

from gateway.dialects.responses.field_docs import FIELD_DOCS, describe_fields
from translation.responses.schema.request import REQUEST_SCHEMA, validate

PROPERTIES = REQUEST_SCHEMA()["properties"]


def test_every_field_and_no_other_is_documented() -> None:
    assert FIELD_DOCS.keys() == PROPERTIES.keys()


@pytest.mark.parametrize("name", FIELD_DOCS)
def test_the_example_of_a_field_is_valid(name: str) -> None:
    validate({"model": "demo", "input": "Hi", "stream": True, name: FIELD_DOCS[name].example})


@pytest.mark.parametrize("name", FIELD_DOCS)
def test_the_texts_of_a_field_are_sentences(name: str) -> None:
    doc = FIELD_DOCS[name]
    for text in (doc.meaning, doc.reply):
        assert re.fullmatch(r"[A-Z`].*\.", text)
        assert text.count("`") % 2 == 0


def test_the_schema_has_what_is_known_of_its_fields() -> None:
    schema = describe_fields({"properties": {"model": {"type": "string"}, "unknown": {"type": "object"}}})
    assert schema["properties"] == {
        "model": {
            "type": "string",
            "description": FIELD_DOCS["model"].meaning,
            "examples": ["demo"],
            "x-in-reply": FIELD_DOCS["model"].reply,
        },
        "unknown": {"type": "object"},
    }
