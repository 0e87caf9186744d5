"""Tools, schemas and citations as a request of the Messages API."""

from dataclasses import replace
from time import thread_time
from typing import Any

import pytest

from tests.unit.support.items import call, output, user
from tests.unit.translation.messages.upstream.item_blocks import text, use
from tests.unit.translation.messages.upstream.lowered_turns import (
    FUNCTION,
    LOOP,
    NEW,
    OLD,
    PROFILE,
    TOOL,
    lowered,
    with_limit,
)
from translation.errors import Unrepresentable
from translation.messages.upstream.json_schemas import JoinedObjects, close_schema
from translation.messages.upstream.lower import lower
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

OTHER = {"type": "function", "name": "g"}
OTHER_TOOL = {"name": "g", "input_schema": {"type": "object", "properties": {}}}


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}


SEARCH = {
    "type": "web_search_2025_08_26",
    "filters": {"allowed_domains": ["a.org"], "blocked_domains": None},
    "user_location": {"type": "approximate", "city": "Bern", "region": None},
}
ALLOWED = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]}
TOOLS: dict[str, tuple[Json, Json, list[Loss]]] = {
    "no tools": ({"tool_choice": "auto", "parallel_tool_calls": False}, {}, []),
    "tools": ({"tools": [FUNCTION, OTHER]}, {"tools": [TOOL, OTHER_TOOL]}, []),
    "none of them": (
        {"tools": [OTHER], "tool_choice": "none", "parallel_tool_calls": False},
        {"tools": [OTHER_TOOL], "tool_choice": {"type": "none"}},
        [],
    ),
    "one at a time": (
        {"tools": [OTHER], "parallel_tool_calls": False},
        {"tools": [OTHER_TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        [],
    ),
    "one of them, once": (
        {"tools": [OTHER], "parallel_tool_calls": False, "tool_choice": "required"},
        {"tools": [OTHER_TOOL], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
        [],
    ),
    "some of them": (
        {"tools": [FUNCTION, OTHER], "tool_choice": ALLOWED},
        {"tools": [OTHER_TOOL], "tool_choice": {"type": "any"}},
        [Loss("tool_choice", "allowed_tools filtered")],
    ),
    "some of them or none": (
        {"tools": [OTHER], "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "g"}]}},
        {"tools": [OTHER_TOOL], "tool_choice": {"type": "auto"}},
        [Loss("tool_choice", "allowed_tools filtered")],
    ),
    "what the API does not know of a tool": (
        {"tools": [{**OTHER, "defer_loading": True}]},
        {"tools": [OTHER_TOOL]},
        [Loss("tools.defer_loading", "dropped")],
    ),
    "a search": (
        {"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search_preview"}},
        {
            "tools": [{"type": "web_search_20250305", "name": "web_search"}],
            "tool_choice": {"type": "tool", "name": "web_search"},
        },
        [],
    ),
    "where to search": (
        {"tools": [{**SEARCH, "search_context_size": "high", "max_uses": 3}]},
        {
            "tools": [
                {
                    "type": "web_search_20250305",
                    "name": "web_search",
                    "allowed_domains": ["a.org"],
                    "user_location": {"type": "approximate", "city": "Bern"},
                    "max_uses": 3,
                }
            ]
        },
        [Loss("tools.search_context_size", "dropped")],
    ),
    "a strict one": (
        {"tools": [{**OTHER, "strict": True, "parameters": SCHEMA}]},
        {"tools": [{"name": "g", "input_schema": SCHEMA, "strict": True}]},
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "body", "losses"), TOOLS.values(), ids=TOOLS)
def test_tools_become_tools_of_the_api(given: Json, body: Json, losses: list[Loss]) -> None:
    assert lowered(**given) == (with_limit(**body), losses)


def test_older_models_are_not_strict() -> None:
    body, losses = lowered(OLD, tools=[{**OTHER, "strict": True}])
    assert body["tools"] == [OTHER_TOOL]
    assert losses == [Loss("tools.strict", "dropped")]


def test_strict_tools_over_the_limit_are_not_strict() -> None:
    for count, is_strict in ((20, True), (21, False)):
        tools = [
            {"type": "function", "name": f"f{number}", "strict": True, "parameters": SCHEMA} for number in range(count)
        ]
        body, losses = lowered(tools=tools)
        assert [tool.get("strict", False) for tool in body["tools"]] == [is_strict] * count
        assert losses == ([] if is_strict else [Loss("tools.strict", "dropped")])


NODE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
    "required": ["value", "next"],
    "additionalProperties": False,
}


def test_a_strict_tool_may_have_its_object_in_a_definition() -> None:
    tool = {**OTHER, "strict": True, "parameters": {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}}
    body, losses = lowered(tools=[tool])
    (sent,) = body["tools"]
    assert sent == {"name": "g", "input_schema": {"$defs": {"Node": NODE}, **NODE}, "strict": True}
    assert losses == [Loss("tools[0].parameters", "$ref merged"), *losses[1:]]


A, B = ({"type": "object", "properties": {name: {}}, "required": [name]} for name in "ab")
JOINED: dict[str, Json] = {
    "several schemas": {"allOf": [A, B]},
    "a definition and more": {"allOf": [{"$ref": "#/$defs/A"}, B]},
    "properties beside choices": {**A, "anyOf": [B, {"type": "null"}]},
    "properties beside exactly one choice": {**A, "oneOf": [B]},
    "properties beside a definition": {**A, "$ref": "#/$defs/A"},
    "properties beside one schema": {**A, "allOf": [B]},
    "a definition beside a schema": {"$ref": "#/$defs/A", "allOf": [B]},
    "a definition beside choices": {"$ref": "#/$defs/A", "anyOf": [B]},
    "choices beside a schema": {"allOf": [{"anyOf": [A, {"type": "null"}]}, B]},
    "a schema in a schema beside another": {"allOf": [{"allOf": [A]}, B]},
    "properties beside choices in a schema": {**A, "allOf": [{"oneOf": [B]}]},
    "properties beside a schema in a choice": {**A, "anyOf": [{"allOf": [B]}]},
    "a schema beside choices": {"allOf": [A], "anyOf": [B]},
    "two lists of choices": {"anyOf": [A], "oneOf": [B]},
}


@pytest.mark.parametrize("joined", JOINED.values(), ids=JOINED)
def test_objects_that_several_schemas_describe_are_not_closed_each(joined: Json) -> None:
    schema = {"type": "object", "properties": {"x": joined}, "$defs": {"A": A}}
    body, losses = lowered(tools=[{**OTHER, "strict": True, "parameters": schema}])
    assert body["tools"] == [{"name": "g", "input_schema": schema}]
    assert losses == [Loss("tools.strict", "dropped")]
    with pytest.raises(Unrepresentable) as refusal:
        lowered(text_format={"type": "json_schema", "name": "n", "schema": schema})
    assert refusal.value.param == "text.format.schema"


def test_choices_on_many_levels_are_looked_at_once() -> None:
    schema: Json = {"anyOf": [{} for _ in range(5_000)]}
    for _ in range(90):
        schema = {"anyOf": [schema]}
    started = thread_time()
    close_schema(schema, "s", [])
    assert thread_time() - started < 1.0


GRAMMAR: Json = {
    "Expression": {"anyOf": [{"$ref": "#/$defs/Atom"}, A]},
    "Atom": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Expression"}]},
}


@pytest.mark.parametrize("names", [("first", "second"), ("second", "first"), ("second",)])
def test_definitions_that_refer_to_each_other_are_joined_in_any_order(names: tuple[str, ...]) -> None:
    properties = {"first": {"$ref": "#/$defs/Expression"}, "second": {"allOf": [{"$ref": "#/$defs/Atom"}, B]}}
    schema = {"type": "object", "properties": {name: properties[name] for name in names}, "$defs": GRAMMAR}
    with pytest.raises(JoinedObjects):
        close_schema(schema, "s", [])


@pytest.mark.parametrize("reference", ["#node", "other.json", "#/$defs/none", 7])
def test_a_definition_that_is_not_found_may_be_an_object(reference: Any) -> None:
    with pytest.raises(JoinedObjects):
        close_schema({"type": "array", "items": {**A, "$ref": reference}}, "s", [])


@pytest.mark.parametrize("reference", ["#/$defs/Text", "#/$defs/Loop", "#/$defs/Texts"])
def test_what_refers_to_no_object_is_none(reference: str) -> None:
    definitions = {
        "Text": {"type": "string"},
        "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}, {"type": "string"}]},
        "Texts": {"anyOf": [{"$ref": "#/$defs/Text"}]},
    }
    joined = {"$ref": reference, "anyOf": [{"$ref": "#/$defs/Text"}]}
    schema = {**SCHEMA, "properties": {"a": joined}, "required": ["a"], "$defs": definitions}
    assert close_schema(schema, "s", []) == schema


@pytest.mark.parametrize(
    "single", [{"allOf": [{"$ref": "#/$defs/A"}]}, {**A, "anyOf": [{"required": ["a"]}]}, {"anyOf": [A, B]}]
)
def test_an_object_that_one_schema_describes_is_closed(single: Json) -> None:
    schema = {"type": "object", "properties": {"x": single}, "$defs": {"A": A}}
    body, losses = lowered(tools=[{**OTHER, "strict": True, "parameters": schema}])
    assert body["tools"][0]["strict"]
    assert set(losses) == {Loss("tools[0].parameters", "objects closed")}


def test_an_answer_is_constrained_to_a_schema() -> None:
    text_format = {"type": "json_schema", "name": "n", "schema": SCHEMA, "description": "d"}
    body, losses = lowered(text_format=text_format, reasoning={"effort": "low"})
    assert body["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}}
    assert losses == [Loss("text.format.description", "dropped")]


CLOSED = Loss("s", "objects closed")
DOCUMENT = {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,YQ=="}
"""A part that becomes a document."""

UNCITED = {
    "type": "document",
    "source": {"type": "text", "media_type": "text/plain", "data": "a"},
    "title": "a.txt",
}
CITABLE = {**UNCITED, "citations": {"enabled": True}}
WITH_DOCUMENTS = [user(DOCUMENT), call("c1"), {**output("c1"), "output": [DOCUMENT]}]
HELD = {"type": "json_schema", "name": "n", "schema": SCHEMA}


@pytest.mark.parametrize(
    ("text_format", "profile", "document"),
    [(None, PROFILE, CITABLE), (HELD, PROFILE, UNCITED), (None, replace(PROFILE, cite_documents=False), UNCITED)],
    ids=["by itself", "beside a schema, which the API refuses", "where it is not wanted"],
)
def test_citations_are_enabled_for_all_documents_or_none(
    text_format: Json | None, profile: Profile, document: Json
) -> None:
    turn = Turn(model=NEW, items=WITH_DOCUMENTS, text_format=text_format)
    first, _, last = lower(turn, profile).body["messages"]
    assert first["content"] == [document]
    assert last["content"] == [{"type": "tool_result", "tool_use_id": "c1", "content": [document]}]


def test_a_result_without_content_is_left_alone() -> None:
    turn = Turn(model=NEW, items=[user("a"), call("c1"), {**output("c1"), "output": ""}])
    assert lower(turn, PROFILE).body["messages"][-1]["content"] == [{"type": "tool_result", "tool_use_id": "c1"}]


LIMITED = Loss("s", "limits described")


def test_a_format_needs_no_description() -> None:
    assert lowered(text_format={"type": "json_schema", "name": "n", "schema": SCHEMA})[1] == []


SCHEMAS: dict[str, tuple[Json, Json, list[Loss]]] = {
    "closed objects": (SCHEMA, SCHEMA, []),
    "open objects": (
        {"type": ["object", "null"], "additionalProperties": {"type": "string"}},
        {"type": ["object", "null"], "additionalProperties": False},
        [CLOSED],
    ),
    "objects by their properties, wherever they are": (
        {"anyOf": [{"properties": {"items": {"type": "array", "items": {"properties": {}}}}}, True]},
        {
            "anyOf": [
                {
                    "properties": {
                        "items": {"type": "array", "items": {"properties": {}, "additionalProperties": False}}
                    },
                    "additionalProperties": False,
                },
                True,
            ]
        },
        [CLOSED, CLOSED],
    ),
    "one of several": ({"oneOf": [{"type": "null"}]}, {"anyOf": [{"type": "null"}]}, []),
    "one of several beside others": (
        {"oneOf": [{"type": "null"}], "anyOf": [{"type": "null"}]},
        {"oneOf": [{"type": "null"}], "anyOf": [{"type": "null"}]},
        [],
    ),
    "limits": (
        {"type": "integer", "description": "Age.", "minimum": 1},
        {"type": "integer", "description": 'Age. {"minimum":1}'},
        [LIMITED],
    ),
    "limits without words": (
        {"$defs": {"minimum": {"maxLength": 3}}, "minItems": 1},
        {"$defs": {"minimum": {"description": '{"maxLength":3}'}}, "minItems": 1},
        [LIMITED],
    ),
    "what is no schema": (
        {"properties": [], "anyOf": 1, "items": 2, "additionalProperties": False},
        {"properties": [], "anyOf": 1, "items": 2, "additionalProperties": False},
        [],
    ),
}


@pytest.mark.parametrize(("schema", "expected", "expected_losses"), SCHEMAS.values(), ids=SCHEMAS)
def test_schemas_are_closed_and_their_limits_described(
    schema: Json, expected: Json, expected_losses: list[Loss]
) -> None:
    losses: list[Loss] = []
    assert close_schema(schema, "s", losses) == expected
    assert losses == expected_losses


def test_a_schema_nested_too_deep_is_refused() -> None:
    schema: Json = {}
    for _ in range(2000):
        schema = {"items": schema}
    with pytest.raises(Unrepresentable):
        close_schema(schema, "s", [])


MARK = {"type": "ephemeral"}


def test_a_cache_key_sets_cache_control_on_the_prompt_and_the_end() -> None:
    turn = Turn(
        model=NEW, items=[user("a")], instructions="b", tools=[OTHER], sampling={"prompt_cache_key": "k"}, stream=False
    )
    body, losses = lower(turn, PROFILE)
    assert body["system"] == [{**text("b"), "cache_control": MARK}]
    assert body["tools"] == [OTHER_TOOL]
    assert body["messages"][-1]["content"] == [{**text("a"), "cache_control": MARK}]
    assert losses == ()


def test_without_a_system_prompt_the_tools_have_cache_control() -> None:
    sampling = {"prompt_cache_retention": "24h"}
    turn = Turn(model=NEW, items=LOOP, tools=[OTHER], sampling=sampling, stream=False)
    body, losses = lower(turn, PROFILE)
    mark = {**MARK, "ttl": "1h"}
    assert body["tools"] == [{**OTHER_TOOL, "cache_control": mark}]
    assert body["messages"][-1]["content"][-1]["cache_control"] == mark
    assert body["messages"][-2]["content"] == [use("c1")]
    assert losses == (Loss("prompt_cache_retention", "24h as 1h"),)


def test_without_both_the_end_has_cache_control() -> None:
    body, _ = lower(Turn(model=NEW, items=[user("a")], sampling={"prompt_cache_key": "k"}), PROFILE)
    assert body["messages"] == [{"role": "user", "content": [{**text("a"), "cache_control": MARK}]}]


def test_cache_control_of_the_client_is_set_on_the_prompt() -> None:
    mark = {**MARK, "ttl": "1h"}
    body, losses = lower(Turn(model=NEW, items=[user("a")], instructions="b", cache_control=mark), PROFILE)
    assert body["system"] == [{**text("b"), "cache_control": mark}]
    assert body["messages"] == [{"role": "user", "content": [{**text("a"), "cache_control": mark}]}]
    assert losses == ()
