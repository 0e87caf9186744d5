"""Tools that Anthropic defined and clients run: other models get them as functions."""

from typing import Any, get_args

import pytest
from anthropic.types import beta

from translation.messages.client.client_tools import describe_client_tool
from translation.messages.client.lift import lift
from translation.messages.schema.request import validate
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn

HELLO: Json = {"role": "user", "content": "Hi"}
NEW_EDITOR = "str_replace_based_edit_tool"

TOOLS: dict[str, tuple[str, set[str]]] = {
    "bash_20241022": ("bash", {"command", "restart"}),
    "bash_20250124": ("bash", {"command", "restart"}),
    "text_editor_20241022": ("str_replace_editor", {"insert_line", "new_str"}),
    "text_editor_20250124": ("str_replace_editor", {"insert_line", "new_str"}),
    "text_editor_20250429": (NEW_EDITOR, {"insert_line", "insert_text"}),
    "text_editor_20250728": (NEW_EDITOR, {"insert_line", "insert_text"}),
    "memory_20250818": ("memory", {"insert_text", "old_path", "new_path"}),
}


def turn_of(**more: Any) -> Turn:
    body = {"model": "m", "max_tokens": 500, "messages": [HELLO], **more}
    validate(body)
    return lift(body)


@pytest.mark.parametrize(("kind", "expected"), TOOLS.items(), ids=TOOLS)
def test_a_tool_of_the_client_is_a_function(kind: str, expected: tuple[str, set[str]]) -> None:
    name, keys = expected
    turn = turn_of(tools=[{"type": kind, "name": name}], tool_choice={"type": "tool", "name": name})
    (tool,) = turn.tools
    assert (tool["type"], tool["name"], tool["strict"], turn.losses) == ("function", name, False, ())
    assert tool["description"]
    assert keys <= tool["parameters"]["properties"].keys()
    assert turn.tool_choice == {"type": "function", "name": name}


def test_commands_of_the_memory_are_those_of_the_official_types() -> None:
    (tool,) = turn_of(tools=[{"type": "memory_20250818", "name": "memory"}]).tools
    properties = tool["parameters"]["properties"]
    (union, *_) = get_args(beta.BetaMemoryTool20250818Command)
    commands = get_args(union)
    names = {get_args(each.model_fields["command"].annotation)[0] for each in commands}
    assert names == set(properties["command"]["enum"])
    assert {key for each in commands for key in each.model_fields} == set(properties)


def test_its_call_and_result_are_those_of_a_function() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "a.txt"}
    messages = [HELLO, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    turn = turn_of(tools=[{"type": "bash_20250124", "name": "bash"}], messages=messages)
    assert [item["type"] for item in turn.items] == ["message", "function_call", "function_call_output"]


def test_a_tool_may_be_deferred_and_has_losses_like_any_other() -> None:
    deferred = {"type": "bash_20250124", "name": "bash", "defer_loading": True}
    assert turn_of(tools=[deferred]).tools == []
    limited = {"type": "text_editor_20250728", "name": NEW_EDITOR, "max_characters": 100, "strict": True}
    assert turn_of(tools=[limited]).losses == (Loss("tools.max_characters", "dropped"), Loss("tools.strict", "dropped"))


@pytest.mark.parametrize("kind", ["computer_20250124", "web_fetch_20250910", "bash_code_execution", "custom", None])
def test_other_tools_stay_as_they_are(kind: str | None) -> None:
    tool = {"type": kind, "name": "f"}
    assert describe_client_tool(tool) is tool
