"""What a request has that some servers with the Messages API leave out."""

from typing import get_args

import pytest

from translation.messages.client.lift import read_facts
from translation.messages.schema.request import validate
from translation.representation.json_types import Json
from translation.request_facts import RelayedFeature

TOOL: Json = {"name": "look", "input_schema": {"type": "object"}}
FORMAT: Json = {"type": "json_schema", "schema": {"type": "object"}}
DOCUMENT: Json = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}}
FOUND: Json = {"type": "search_result", "source": "https://a", "title": "A", "content": [{"type": "text", "text": "b"}]}
SERVER: Json = {"type": "url", "name": "s", "url": "https://a"}
SEARCH: Json = {"type": "web_search_20250305", "name": "web_search"}
CALL: Json = {"type": "tool_use", "id": "c", "name": "look", "input": {}}


def user(*blocks: Json) -> Json:
    return {"messages": [{"role": "user", "content": list(blocks)}]}


def result(*blocks: Json) -> Json:
    output = {"type": "tool_result", "tool_use_id": "c", "content": list(blocks)}
    return {"messages": [{"role": "assistant", "content": [CALL]}, {"role": "user", "content": [output]}]}


FEATURES: dict[str, tuple[Json, RelayedFeature]] = {
    "thinking": ({"thinking": {"type": "adaptive"}}, "thinking"),
    "no thinking": ({"thinking": {"type": "disabled"}}, "thinking"),
    "an effort": ({"output_config": {"effort": "low"}}, "thinking"),
    "a format": ({"output_config": {"format": FORMAT}}, "text_format"),
    "a format of the first beta": ({"output_format": FORMAT}, "text_format"),
    "no tool": ({"tools": [TOOL], "tool_choice": {"type": "none"}}, "tool_choice"),
    "a tool by its name": ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "look"}}, "tool_choice"),
    "one call": ({"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, "tool_choice"),
    "a search": ({"tools": [TOOL, SEARCH]}, "typed_tools"),
    "a shell": ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "typed_tools"),
    "a server": ({"mcp_servers": [SERVER]}, "typed_tools"),
    "a document": (user(DOCUMENT), "documents"),
    "a document in a result": (result(DOCUMENT), "documents"),
    "a summary": (user({"type": "compaction", "content": "a"}), "other_blocks"),
    "a tool that was found": (result({"type": "tool_reference", "tool_name": "look"}), "other_blocks"),
    "a call of a server": (
        {"messages": [{"role": "assistant", "content": [{**CALL, "type": "mcp_tool_use", "server_name": "s"}]}]},
        "other_blocks",
    ),
    "a tool that is withdrawn": (
        {
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "system", "content": [{"type": "tool_removal", "name": "look"}]},
            ]
        },
        "other_blocks",
    ),
    "a failed result": (
        {
            "messages": [
                {"role": "assistant", "content": [CALL]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "is_error": True}]},
            ]
        },
        "failed_results",
    ),
    "a result in a result": (result({"type": "tool_result", "tool_use_id": "c", "content": [5]}), "other_blocks"),
    "a container": ({"container": "c"}, "context_keys"),
    "a compaction": ({"compaction": {"type": "summary"}}, "context_keys"),
    "a context that is edited": ({"context_management": {"edits": []}}, "context_keys"),
    "an instruction that ends": (
        {
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "system", "content": "b", "clear_at": "next_user_message"},
            ]
        },
        "context_keys",
    ),
    "an effort from here on": (
        {
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "system", "content": [], "output_config": {"effort": "low"}},
            ]
        },
        "context_keys",
    ),
    "a search result": (user(FOUND), "search_results"),
    "a search result in a result": (result(FOUND), "search_results"),
}
COMMON: dict[str, Json] = {
    "a text": {},
    "nulls": dict.fromkeys(("thinking", "output_config", "output_format", "tool_choice", "tools", "mcp_servers")),
    "functions": {"tools": [TOOL, {**TOOL, "type": "custom"}], "tool_choice": {"type": "any"}},
    "blocks": user({"type": "text", "text": "a"}, {"type": "image", "source": {"type": "url", "url": "https://a"}}),
    "a thought": {
        "messages": [
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "a"}]},
            {"role": "user", "content": "b"},
        ]
    },
    "instructions": {"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]},
    "a result": result({"type": "text", "text": "a"}),
    "a message of an unknown role": {"messages": [{"role": "user", "content": "a"}, {"role": "robot", "content": [5]}]},
}


def features_of(params: Json) -> frozenset[RelayedFeature]:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}], **params}
    validate(body)
    return read_facts(body).features


@pytest.mark.parametrize(("params", "feature"), FEATURES.values(), ids=FEATURES)
def test_a_parameter_or_a_block_is_a_feature(params: Json, feature: RelayedFeature) -> None:
    assert features_of(params) == {feature}


@pytest.mark.parametrize("params", COMMON.values(), ids=COMMON)
def test_what_every_server_knows_is_none(params: Json) -> None:
    assert features_of(params) == frozenset()


def test_every_feature_is_found() -> None:
    assert {feature for _, feature in FEATURES.values()} == set(get_args(RelayedFeature))
