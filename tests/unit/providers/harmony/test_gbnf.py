"""Schemas as rules of a grammar. tests/integration/harmony/ runs the grammars on a real llama.cpp."""

from typing import Any

import pytest

from providers.harmony.encoding import ControlTokens
from providers.harmony.gbnf import JSON_RULES, GrammarRules, render_gbnf_literal
from providers.harmony.grammar import HarmonyGrammar
from translation.representation.json_types import Json

MARKS = ControlTokens(start=1, channel=2, constrain=3, message=4, end=5, returns=6, call=7)


def rules_of(schema: Any) -> dict[str, str]:
    """Returns the rules of a schema, without those that every grammar has."""
    rules = GrammarRules()
    rules.add_schema(schema, "r")
    return {name: rule for name, rule in rules.rules.items() if name not in JSON_RULES}


PLAIN: dict[str, tuple[Any, str]] = {
    "nothing": ({}, "value"),
    "anything": (True, "value"),
    "no schema": (7, "value"),
    "a string": ({"type": "string"}, "string"),
    "a number": ({"type": "number"}, "number"),
    "an unknown type": ({"type": "odd"}, "value"),
    "any object": ({"type": "object"}, "object"),
    "an empty object": ({"type": "object", "additionalProperties": False}, '"{" ws  ws "}"'),
    "a constant": ({"const": 'a"\n'}, '"\\"a\\\\\\"\\\\n\\""'),
    "a choice": ({"enum": ["a", 1, None]}, '"\\"a\\"" | "1" | "null"'),
    "no items": ({"type": "array", "maxItems": 0}, '"[" ws "]"'),
    "a reference to nowhere": ({"$ref": "#/$defs/x"}, "r-ref"),
    "a reference to elsewhere": ({"$ref": "http://a/b"}, "r-ref"),
    "a reference that is none": ({"$ref": 7}, "value"),
}


@pytest.mark.parametrize(("schema", "rule"), PLAIN.values(), ids=PLAIN)
def test_a_schema_of(schema: Any, rule: str) -> None:
    assert rules_of(schema)["r"] == rule


def test_keys_are_in_order_and_only_optional_ones_may_be_missing() -> None:
    properties = {"a": {"type": "string"}, "b": {"type": "integer"}}
    assert rules_of({"type": "object", "properties": properties, "required": ["b"]}) == {
        "r-0-value": "string",
        "r-1-value": "integer",
        "r-1-rest": 'ws "," ws "\\"b\\"" ws ":" ws r-1-value',
        "r-1-first": '"\\"b\\"" ws ":" ws r-1-value',
        "r-0-rest": 'ws "," ws "\\"a\\"" ws ":" ws r-0-value r-1-rest | r-1-rest',
        "r-0-first": '"\\"a\\"" ws ":" ws r-0-value r-1-rest | r-1-first',
        "r": '"{" ws r-0-first ws "}"',
    }


def test_other_keys_may_follow_where_the_schema_says_so() -> None:
    rules = rules_of({"properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "boolean"}})
    assert rules["r-more"] == "boolean"
    assert rules["r-others"] == '(ws "," ws string ws ":" ws r-more)*'
    assert rules["r-0-first"] == '"\\"a\\"" ws ":" ws r-0-value r-others | r-only'


def test_required_and_undescribed_properties_may_be_anything() -> None:
    rules = rules_of({"type": "object", "required": ["x", 7]})
    assert rules["r-0-value"] == "value"
    assert '\\"x\\"' in rules["r-0-first"]


@pytest.mark.parametrize(
    ("limits", "rule"),
    [
        ({}, '"[" ws (r-item (ws "," ws r-item){0,})? ws "]"'),
        ({"minItems": 2}, '"[" ws r-item (ws "," ws r-item){1,} ws "]"'),
        ({"minItems": 1, "maxItems": 3}, '"[" ws r-item (ws "," ws r-item){0,2} ws "]"'),
        ({"maxItems": 5000}, '"[" ws (r-item (ws "," ws r-item){0,})? ws "]"'),
        ({"minItems": True}, '"[" ws (r-item (ws "," ws r-item){0,})? ws "]"'),
    ],
    ids=str,
)
def test_items_are_counted(limits: dict[str, Any], rule: str) -> None:
    assert rules_of({"type": "array", "items": {"type": "null"}, **limits})["r"] == rule


def test_items_of_their_own_kinds_are_written_one_by_one() -> None:
    rules = rules_of({"type": "array", "prefixItems": [{"type": "null"}, {"type": "boolean"}]})
    assert rules["r"] == '"[" ws r-0 ws "," ws r-1 ws "]"'


def test_alternatives_keep_the_keywords_beside_them() -> None:
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "anyOf": [{"required": ["a"]}, True, False]}
    rules = rules_of(schema)
    assert rules["r"] == "r-0 | r-1 | r-2"
    assert rules["r-0-0-first"] == '"\\"a\\"" ws ":" ws r-0-0-value'
    assert rules["r-1-0-first"] == '("\\"a\\"" ws ":" ws r-1-0-value)?'
    assert rules["r-2"] == "value"


def test_types_in_a_list_are_alternatives() -> None:
    rules = rules_of({"type": ["string", "null"]})
    assert (rules["r"], rules["r-0"], rules["r-1"]) == ("r-0 | r-1", "string", "null")


def test_all_of_several_schemas_are_one() -> None:
    base = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
    more = {"properties": {"b": {"const": 2}}, "required": ["b"]}
    rules = rules_of({"$defs": {"base": base}, "allOf": [{"$ref": "#/$defs/base"}, more]})
    assert rules["r"] == '"{" ws r-0-first ws "}"'
    assert {'"1"', '"2"'} <= set(rules.values())


def test_a_schema_may_refer_to_itself() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#/$defs/a~1b"}}}
    rules = rules_of({"$ref": "#/$defs/a~1b", "$defs": {"a/b": tree}})
    assert rules["r"] == "r-ref"
    assert rules["r-ref"] == '"{" ws r-ref-0-first ws "}"'
    assert rules["r-ref-0-value"] == "r-ref"
    assert rules_of({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})["r-ref"] == "value"


def test_a_self_referring_all_of_is_unconstrained() -> None:
    assert rules_of({"$defs": {"a": {"$ref": "#/$defs/a"}}, "allOf": [{"$ref": "#/$defs/a"}]})["r"] == "value"


def test_schemas_nested_too_deep_are_unconstrained() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(100):
        schema = {"type": "array", "items": schema}
    rules = GrammarRules()
    rules.add_schema(schema, "r")
    assert rules.unenforced == {"nesting"}


_A: Json = {"properties": {"a": {"type": "null"}}}


@pytest.mark.parametrize(
    ("schema", "left_open"),
    [
        ({"$ref": "#/$defs/a", "required": ["a"], "description": "An a."}, {"required"}),
        ({"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}], "title": "A", "default": None}, set()),
        ({"anyOf": [{"$ref": "#/$defs/a"}], "properties": {"b": {"type": "null"}}}, {"properties"}),
        ({"allOf": [{"anyOf": [{"type": "null"}]}, {"anyOf": [{"type": "string"}]}]}, {"anyOf"}),
        ({"allOf": [_A, {"properties": {"a": {"type": "string"}}}]}, {"properties"}),
        ({"allOf": [{**_A, "type": "object"}, {**_A, "type": "object", "required": ["a"]}]}, set()),
    ],
)
def test_ignored_keywords_beside_a_schema_are_reported(schema: Json, left_open: set[str]) -> None:
    rules = GrammarRules()
    rules.add_schema({**schema, "$defs": {"a": {"type": "object", **_A}}}, "r")
    assert rules.unenforced == left_open


def test_ignored_keywords_are_reported_by_tool() -> None:
    tools: list[Json] = [
        {"function": {"name": "a", "parameters": {"properties": {"x": {"type": "string", "pattern": "x"}}}}},
        {"function": {"name": "b"}},
    ]
    assert HarmonyGrammar(MARKS, tools, answer_schema={"not": {}}).unenforced == {"a": {"pattern"}, "": {"not"}}


def test_control_tokens_are_written_by_their_ids() -> None:
    text = HarmonyGrammar(MARKS, [{"function": {"name": "f"}}], must_call=True, may_think=False).text
    root, *_ = text.splitlines()
    assert root == "root ::= step* (call-0)"
    assert 'call-0 ::= (" to=functions.f" <[2]> "commentary" | <[2]> "commentary" " to=functions.f")' in text
    assert 'step ::= <[2]> ("commentary") <[4]> text <[5]> <[1]> "assistant"' in text


@pytest.mark.parametrize("tools", [[], [{"function": {"name": "f"}}]], ids=["no tools", "tools"])
def test_only_thoughts_may_precede_a_constrained_answer(tools: list[Json]) -> None:
    text = HarmonyGrammar(MARKS, tools, answer_schema={"type": "null"}).text
    assert text.startswith("root ::= step* (")
    assert 'step ::= <[2]> ("analysis") <[4]>' in text
    text = HarmonyGrammar(MARKS, tools, answer_schema={"type": "null"}, may_think=False).text
    assert text.startswith("root ::= (")
    assert "step ::=" not in text


def test_a_literal_is_escaped() -> None:
    assert render_gbnf_literal('a\\"\n\r') == '"a\\\\\\"\\n\\r"'


def test_schemas_with_an_endless_grammar_are_unconstrained() -> None:
    rules = GrammarRules()
    rules.add_schema({"type": "object", "properties": {f"k{n}": {"type": "null"} for n in range(6000)}}, "r")
    assert rules.unenforced == {"size"}


@pytest.mark.parametrize("odd", [[], 7, "x", None, False, [{}]])
def test_parts_that_are_no_schemas_are_unconstrained(odd: Any) -> None:
    closed = {"type": "object", "properties": {"a": {"type": "null"}}}
    for keyword in ("allOf", "anyOf"):
        assert rules_of({**closed, keyword: [odd, {"required": ["a"]}]})


def test_alternatives_that_double_with_every_level_are_unconstrained() -> None:
    doubling: Json = {"$defs": {"0": {"type": "null"}}}
    for n in range(1, 50):
        twice = [{"allOf": [{"$ref": f"#/$defs/{n - 1}"}]} for _ in range(2)]
        doubling["$defs"][str(n)] = {"anyOf": twice}
    rules = GrammarRules()
    rules.add_schema({**doubling, "allOf": [{"$ref": "#/$defs/49"}]}, "r")
    assert rules.unenforced == {"nesting", "size"}
    assert len(rules.rules) < 6000
