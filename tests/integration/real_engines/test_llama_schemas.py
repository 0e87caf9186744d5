"""Compares the table of JSON schema keywords with the keywords that a real llama.cpp enforces."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from providers.engines.servers.llama_schemas import list_unenforced_keywords
from tests.integration import engines

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
WHOLE: Json = {"type": "integer"}
NUMBER: Json = {"type": "number"}
LIST: Json = {"type": "array", "items": WHOLE}
OBJECT: Json = {"type": "object", "properties": {"a": TEXT, "b": WHOLE}, "required": ["a"]}
CHOICE: Json = {"anyOf": [TEXT, WHOLE]}

IGNORED: list[tuple[Json, Json]] = [
    (OBJECT, {"not": {"type": "null"}}),
    (OBJECT, {"if": {"properties": {"b": WHOLE}}}),
    (OBJECT, {"minProperties": 2}),
    (OBJECT, {"maxProperties": 1}),
    (OBJECT, {"patternProperties": {"^x": WHOLE}}),
    (OBJECT, {"propertyNames": {"maxLength": 1}}),
    (OBJECT, {"dependentRequired": {"a": ["b"]}}),
    (OBJECT, {"dependentSchemas": {"a": {"properties": {"b": WHOLE}}}}),
    (OBJECT, {"dependencies": {"a": ["b"]}}),
    (OBJECT, {"unevaluatedProperties": False}),
    (OBJECT, {"allOf": [{"properties": {"c": WHOLE}}]}),
    (OBJECT, {"required": ["a", "z"]}),
    ({"type": "object"}, {"required": ["a"]}),
    (CHOICE, {"properties": {"a": TEXT}}),
    (CHOICE, {"maxLength": 3}),
    (CHOICE, {"minimum": 3}),
    (LIST, {"uniqueItems": True}),
    (LIST, {"contains": {"const": 1}}),
    (LIST, {"prefixItems": [TEXT]}),
    (LIST, {"additionalItems": False}),
    (LIST, {"unevaluatedItems": False}),
    (WHOLE, {"multipleOf": 3}),
    (NUMBER, {"multipleOf": 3}),
    (NUMBER, {"minimum": 3}),
    (NUMBER, {"maximum": 3}),
    (NUMBER, {"exclusiveMinimum": 3}),
    (NUMBER, {"exclusiveMaximum": 3}),
    ({"type": ["number", "null"]}, {"minimum": 3}),
    (TEXT, {"format": "email"}),
    (TEXT, {"format": "ipv4"}),
    ({**TEXT, "pattern": "^a+$"}, {"minLength": 3}),
    ({**TEXT, "pattern": "^a+$"}, {"format": "date"}),
]
ANY_TEXT: list[Json] = [{"pattern": pattern} for pattern in ("a+", "^(?=a)b$", r"^\bx$", "^[[:alpha:]]$", "(")]
HEEDED: list[tuple[Json, Json]] = [
    (OBJECT, {"additionalProperties": WHOLE}),
    (OBJECT, {"required": ["a", "b"]}),
    (OBJECT, {"const": {"a": "x"}}),
    (LIST, {"minItems": 2}),
    (LIST, {"maxItems": 2}),
    ({"type": "array"}, {"prefixItems": [TEXT]}),
    (WHOLE, {"minimum": 3}),
    (WHOLE, {"exclusiveMaximum": 3}),
    ({"type": ["integer", "string"]}, {"minimum": 3}),
    ({"type": ["integer", "string"]}, {"minLength": 3}),
    (TEXT, {"minLength": 3}),
    (TEXT, {"format": "date"}),
    (TEXT, {"format": "uuid4"}),
    (TEXT, {"pattern": "^a+$"}),
    (TEXT, {"pattern": r"^(?:ab|\d{2})$"}),
    (TEXT, {"enum": ["x"]}),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with (
        engines.llama(tmp_path_factory.mktemp("llama") / "log") as engine,
        httpx.Client(base_url=engine.url, timeout=60) as client,
    ):
        yield client


def read_grammar_rules(server: httpx.Client, schema: Json) -> set[str]:
    """The rules of the grammar that it makes of a schema in chat."""
    body = {
        "messages": [{"role": "user", "content": "Hi"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
        "max_tokens": 1,
        "verbose": True,
    }
    reply = server.post("/v1/chat/completions", json=body, timeout=20).raise_for_status().json()
    return set(reply["__verbose"]["generation_settings"]["grammar"].splitlines())


@pytest.mark.parametrize(("schema", "more"), IGNORED, ids=str)
def test_a_keyword_that_llama_cpp_ignores_is_reported(server: httpx.Client, schema: Json, more: Json) -> None:
    assert read_grammar_rules(server, {**schema, **more}) == read_grammar_rules(server, schema)
    assert list_unenforced_keywords({**schema, **more}, uses_llguidance=False) == list(more)


@pytest.mark.parametrize("pattern", ANY_TEXT, ids=str)
def test_a_pattern_that_llama_cpp_reads_as_any_text_is_reported(server: httpx.Client, pattern: Json) -> None:
    assert any('"\\"" char* "\\""' in rule for rule in read_grammar_rules(server, {**TEXT, **pattern}))
    assert list_unenforced_keywords({**TEXT, **pattern}, uses_llguidance=False) == ["pattern"]


@pytest.mark.parametrize(("schema", "more"), HEEDED, ids=str)
def test_a_keyword_that_llama_cpp_applies_is_not_reported(server: httpx.Client, schema: Json, more: Json) -> None:
    assert read_grammar_rules(server, {**schema, **more}) != read_grammar_rules(server, schema)
    assert list_unenforced_keywords({**schema, **more}, uses_llguidance=False) == []
