"""Tools that are added and removed within a conversation."""

from typing import Any

import pytest

from translation.errors import InvalidRequest
from translation.messages.client.tools import lift_tools
from translation.representation.json_types import Json
from translation.representation.loss import Loss

SCHEMA: Json = {"type": "object"}
TOOLS: list[Json] = [
    {"name": "plain", "input_schema": SCHEMA},
    {"name": "deferred", "input_schema": SCHEMA, "defer_loading": True},
]
LOST: Json = {"type": "mcp_toolset_reference", "server_name": "s"}


def change(kind: str, tool: object) -> Json:
    return {"role": "system", "content": [{"type": "text", "text": "Now."}, {"type": f"tool_{kind}", "tool": tool}]}


def named(name: str) -> Json:
    return {"type": "tool_reference", "name": name}


def defined(name: str, **more: object) -> Json:
    return {"type": "tool_definition", "definition": {"name": name, "input_schema": SCHEMA, **more}}


CHANGES: dict[str, tuple[list[Json], list[str]]] = {
    "none": ([{"role": "user", "content": "Hi"}], ["plain"]),
    "a tool is added by its name": ([change("addition", named("deferred"))], ["plain", "deferred"]),
    "a tool is withdrawn": ([change("removal", named("plain"))], []),
    "a tool is withdrawn and added again": (
        [change("removal", named("plain")), change("addition", named("plain"))],
        ["plain"],
    ),
    "a summary withdraws and adds tools": (
        [
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "compaction",
                        "content": "Before.",
                        "tool_changes": [
                            {"type": "tool_removal", "tool": named("plain")},
                            {"type": "tool_addition", "tool": defined("new")},
                        ],
                    }
                ],
            }
        ],
        ["new"],
    ),
    "a tool is defined": ([change("addition", defined("new"))], ["plain", "new"]),
    "a tool is defined and withdrawn": (
        [change("addition", defined("new")), change("removal", named("new"))],
        ["plain"],
    ),
    "a block of a user changes nothing": (
        [{"role": "user", "content": [{"type": "tool_removal", "tool": named("plain")}]}],
        ["plain"],
    ),
    "a result of text changes nothing": (
        [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "deferred"}]}],
        ["plain"],
    ),
}


@pytest.mark.parametrize(("messages", "expected"), CHANGES.values(), ids=CHANGES)
def test_the_turn_has_the_tools_of_the_conversations_end(messages: list[Json], expected: list[str]) -> None:
    losses: list[Loss] = []
    assert [tool["name"] for tool in lift_tools(TOOLS, messages, losses, relayed=False)] == expected
    assert losses == []


def test_toolsets_of_servers_are_a_loss_unless_they_are_relayed() -> None:
    losses: list[Loss] = []
    lift_tools(TOOLS, [change("addition", LOST)], losses, relayed=True)
    assert losses == []
    lift_tools(TOOLS, [change("addition", LOST)], losses, relayed=False)
    assert losses == [Loss("messages", "mcp_toolset_reference dropped")]


FUNCTION: Json = {"name": "x", "input_schema": SCHEMA}
MALFORMED: dict[str, Any] = {
    "nothing": None,
    "a reference without a name": {"type": "tool_reference"},
    **{
        name: {"type": "tool_definition", "definition": definition}
        for name, definition in {
            "no definition": None,
            "no schema": {"name": "x"},
            "a type that is a number": {**FUNCTION, "type": 5},
            "a type of Anthropic's": {**FUNCTION, "type": "mcp_toolset"},
            "a description that is a number": {**FUNCTION, "description": 5},
            "a switch that is a text": {**FUNCTION, "strict": "yes"},
        }.items()
    },
}


@pytest.mark.parametrize("tool", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_change_is_refused_by_name(tool: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        lift_tools(TOOLS, [change("addition", tool)], [], relayed=False)
    assert refused.value.param == "messages[0].content[1].tool"
