"""Replies that are one value and not an object."""

from typing import Any

import pytest

from translation.gemini.client.value_replies import ValueForm, find_value_form, unwrap_value, wrap_value
from translation.representation.json_types import Json

REPLIES: dict[str, tuple[str, str, str]] = {
    "a text": ('{"value": "a b"}', "a b", '"a b"'),
    "a list": ('\n{ "value" : [1.50, {"a": "}"}] }\n', '\n{ "value" : [1.50, {"a": "}"}] }\n', '[1.50, {"a": "}"}]'),
    "a number": ('{"value": 101}', "101", "101"),
    "a truth value": ('{"value": true }', "true", "true"),
    "an object without the value": ('{"other": "a"}', '{"other": "a"}', '{"other": "a"}'),
    "an object with more": ('{"value": 1, "b": 2}', '{"value": 1, "b": 2}', '{"value": 1, "b": 2}'),
    "a reply that was cut off": ('{"value": "a', '{"value": "a', '{"value": "a'),
    "a plain text": ("I cannot do that.", "I cannot do that.", "I cannot do that."),
    "another JSON value": ("[1]", "[1]", "[1]"),
    "nothing as the value": ('{"value":}', '{"value":}', '{"value":}'),
    "a text that ends after its object": ('{"value": 1} So', '{"value": 1} So', '{"value": 1} So'),
}


@pytest.mark.parametrize(("reply", "text", "json"), REPLIES.values(), ids=REPLIES)
def test_a_reply_is_its_value_or_unchanged(reply: str, text: str, json: str) -> None:
    assert (unwrap_value(reply, "text"), unwrap_value(reply, "json")) == (text, json)


FORMS: dict[str, tuple[Json, ValueForm | None]] = {
    "any text": ({}, None),
    "an enumeration": ({"responseMimeType": "text/x.enum"}, "text"),
    "any JSON": ({"responseMimeType": "application/json"}, None),
    "no schema of JSON": ({"responseMimeType": "application/json", "responseJsonSchema": 3}, None),
}

SCHEMAS: dict[str, tuple[Any, ValueForm | None]] = {
    "an object": ({"type": "OBJECT", "properties": {}}, None),
    "an object or null": ({"type": "OBJECT", "properties": {}, "nullable": True}, "json"),
    "a list": ({"type": "ARRAY", "items": {"type": "STRING"}}, "json"),
    "an enumeration as JSON": ({"type": "STRING", "enum": ["a"]}, "json"),
    "several types": ({"type": ["object", "null"]}, "json"),
    "several schemas": ({"anyOf": [{"type": "object"}, {"type": "object"}]}, "json"),
    "no type": ({"properties": {}}, None),
    "a reference to a definition": ({"type": "array", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": {}}}, "json"),
    "a reference to itself": ({"type": "array", "items": {"$ref": "#"}}, None),
}


@pytest.mark.parametrize(("config", "form"), FORMS.values(), ids=FORMS)
def test_a_request_without_a_schema_asks_for_no_value(config: Json, form: ValueForm | None) -> None:
    assert find_value_form({"generationConfig": config}) == form
    assert find_value_form({}) is None


@pytest.mark.parametrize(("schema", "form"), SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("key", ["responseSchema", "responseJsonSchema"])
def test_what_is_no_object_is_a_value(schema: Json, form: ValueForm | None, key: str) -> None:
    config = {"responseMimeType": "application/json", key: schema}
    assert find_value_form({"generationConfig": config}) == form
    assert find_value_form({"generationConfig": {**config, "responseMimeType": "text/plain"}}) is None


def test_definitions_stay_at_the_top() -> None:
    assert wrap_value({"type": "array", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": {}}}) == {
        "type": "object",
        "properties": {"value": {"type": "array", "items": {"$ref": "#/$defs/A"}}},
        "required": ["value"],
        "additionalProperties": False,
        "$defs": {"A": {}},
    }
