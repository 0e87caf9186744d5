"""What a request of the Responses API asks for, besides its turn."""

from dataclasses import replace
from typing import Any

import pytest

from translation.request_facts import ContextFacts, RequestFacts, StateFacts, ToolFacts
from translation.responses.client.facts import read_facts

Json = dict[str, Any]
STORED = StateFacts(is_stored=True, has_lasting_ids=True)
PLAIN = RequestFacts(state=STORED, input_value="Hi")
MCP: Json = {"type": "mcp", "server_label": "docs", "authorization": "Bearer k"}

FACTS: dict[str, tuple[Json, RequestFacts]] = {
    "nothing": ({}, PLAIN),
    "nothing, as null": (
        dict.fromkeys(("stream", "store", "tools", "truncation", "conversation", "include", "reasoning", "background")),
        PLAIN,
    ),
    "a stream": ({"stream": True}, replace(PLAIN, streams=True)),
    "no storage": ({"store": False}, replace(PLAIN, state=StateFacts())),
    "the background": ({"background": True}, replace(PLAIN, state=replace(STORED, in_background=True))),
    "a stream that cannot be resumed": (
        {"resumable": False},
        replace(PLAIN, state=replace(STORED, is_resumable=False)),
    ),
    "an earlier response": (
        {"previous_response_id": "resp_1"},
        replace(PLAIN, state=replace(STORED, previous_id="resp_1")),
    ),
    "a conversation by its id": ({"conversation": "c"}, replace(PLAIN, state=replace(STORED, conversation_id="c"))),
    "a conversation that is read only": (
        {"conversation": {"id": "c"}, "store": False},
        replace(PLAIN, state=StateFacts(has_lasting_ids=True, conversation_id="c")),
    ),
    "hosted tools": (
        {"tools": [MCP], "max_tool_calls": 3},
        replace(
            PLAIN,
            tools=ToolFacts(hosted=[MCP], max_calls=3, kinds=frozenset({"mcp"}), credentials=("Bearer k", "k")),
        ),
    ),
    "a limit of the model's own tools": ({"max_tool_calls": 3}, replace(PLAIN, tools=ToolFacts(max_calls=3))),
    "events and input of tools": (
        {"tool_events": True, "elicitation": True},
        replace(PLAIN, tools=ToolFacts(reports_events=True, takes_input=True)),
    ),
    "compaction at the lowest threshold": (
        {"context_management": [{"compact_threshold": 9}, {"compact_threshold": 5}]},
        replace(PLAIN, context=ContextFacts(is_compacted=True, compact_threshold=5)),
    ),
    "compaction at a threshold of the server": (
        {"context_management": [{"type": "compaction"}]},
        replace(PLAIN, context=ContextFacts(is_compacted=True)),
    ),
    "truncation": ({"truncation": "auto"}, replace(PLAIN, context=ContextFacts(is_truncated=True))),
    "a budget": ({"reasoning": {"max_tokens": 9}}, replace(PLAIN, needs_translation=True)),
    "a summary": ({"reasoning": {"generate_summary": "auto"}}, replace(PLAIN, wants_summary=True)),
    "thinking": ({"thinking": False}, replace(PLAIN, sets_thinking=True)),
    "extensions": ({"extensions": True}, replace(PLAIN, has_extensions=True)),
    "sealed reasoning": ({"include": ["reasoning.encrypted_content"]}, replace(PLAIN, wants_sealed_reasoning=True)),
    "padding": ({"stream_options": {"include_obfuscation": True}}, replace(PLAIN, is_obfuscated=True)),
}


@pytest.mark.parametrize(("params", "facts"), FACTS.values(), ids=FACTS)
def test_each_parameter_is_one_fact(params: Json, facts: RequestFacts) -> None:
    assert read_facts({"model": "m", "input": "Hi", **params}) == facts


def test_the_kinds_of_tools_are_those_that_not_every_upstream_knows() -> None:
    tools = [{"type": kind} for kind in ("function", "custom", "namespace", "web_search_preview", "of_an_upstream")]
    assert read_facts({"input": "Hi", "tools": tools}).tools.kinds == {"custom", "namespace", "web_search_preview"}


def test_a_search_of_a_later_version_is_of_the_kind_of_searches() -> None:
    tools = [{"type": "web_search_2027_01_01"}]
    assert read_facts({"input": "Hi", "tools": tools}).tools.kinds == {"web_search"}


def test_tools_in_items_have_kinds() -> None:
    items = [
        {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "exec"}]},
        {"type": "tool_search_output", "call_id": "c", "tools": [{"type": "namespace", "name": "n", "tools": []}]},
        {"type": "mcp_list_tools", "server_label": "docs", "tools": [{"name": "find", "input_schema": {}}]},
    ]
    assert read_facts({"input": items}).tools.kinds == {"custom", "namespace"}


@pytest.mark.parametrize("tools", [["a"], "a", 7, None, [{"type": "custom"}]])
def test_other_items_have_no_tools_whatever_their_key_tools_holds(tools: Any) -> None:
    for item in ({"role": "user", "content": "Hi"}, {"type": "message", "role": "user", "content": "Hi"}):
        assert read_facts({"input": [{**item, "tools": tools}]}).tools == ToolFacts()


def test_the_last_item_can_ask_for_a_compaction() -> None:
    message: Json = {"role": "user", "content": "Hi"}
    trigger: Json = {"type": "compaction_trigger"}
    assert read_facts({"input": [message, trigger]}).context == ContextFacts(has_trigger=True)
    assert read_facts({"input": [trigger, message]}).context == ContextFacts()


def test_tools_among_the_items_carry_credentials_too() -> None:
    listed: Json = {"type": "additional_tools", "tools": [MCP]}
    assert read_facts({"input": [listed]}).tools.credentials == ("Bearer k", "k")
