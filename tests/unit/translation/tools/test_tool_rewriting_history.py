"""Past calls and outputs of client tools, as an upstream without such tools reads them."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from tests.unit.translation.tools.rewritten_turns import ADDER, CHAT, FUNCTION, PATCH, rewritten, turn
from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.tools.tool_rewriting import RewrittenTurn, is_tool_free, rewrite_tools

SCREEN: Json = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA=="}

HISTORY: dict[str, tuple[Json, Json]] = {
    "a call of a custom tool": (
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "exec", "input": 'say "hi"'},
        {"name": "exec", "arguments": {"input": 'say "hi"'}},
    ),
    "a call of a removed custom tool": (
        {"type": "custom_tool_call", "call_id": "c", "name": "gone", "namespace": "functions", "input": "x"},
        {"name": "functions__gone", "arguments": {"input": "x"}},
    ),
    "shell": (
        {"type": "shell_call", "id": "sh_1", "call_id": "c", "action": {"commands": ["ls"]}, "status": "completed"},
        {"name": "shell", "arguments": {"commands": ["ls"]}},
    ),
    "local shell": (
        {
            "type": "local_shell_call",
            "call_id": "c",
            "action": {"type": "exec", "command": ["ls", "-l"], "env": {}, "user": None},
        },
        {"name": "local_shell", "arguments": {"command": ["ls", "-l"]}},
    ),
    "apply_patch": (
        {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "a"}},
        {"name": "apply_patch", "arguments": {"type": "delete_file", "path": "a"}},
    ),
    "tool search": (
        {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "sums"}},
        {"name": "tool_search", "arguments": {"query": "sums"}},
    ),
    "computer": (
        {"type": "computer_call", "call_id": "c", "actions": [{"type": "wait"}], "pending_safety_checks": []},
        {"name": "computer", "arguments": {"actions": [{"type": "wait"}]}},
    ),
    "one computer action": (
        {"type": "computer_call", "call_id": "c", "action": {"type": "wait"}, "actions": None},
        {"name": "computer", "arguments": {"action": {"type": "wait"}}},
    ),
}


@pytest.mark.parametrize(("item", "expected"), HISTORY.values(), ids=HISTORY)
def test_past_calls_become_function_calls(item: Json, expected: Json) -> None:
    [said] = rewritten(FUNCTION, items=[item]).turn.items
    arguments = orjson.loads(said.pop("arguments"))
    assert {**said, "arguments": arguments} == {"type": "function_call", "call_id": "c", **expected}


def test_a_past_call_in_a_namespace_is_flattened_and_keeps_its_arguments() -> None:
    call = {"type": "function_call", "id": "fc", "call_id": "c", "name": "add", "arguments": '{ "a":1}'}
    result = rewritten(ADDER, items=[{**call, "namespace": "mcp__adder"}, {**call, "namespace": None}])
    assert result.turn.items == [{**call, "name": "mcp__adder__add"}, {**call, "namespace": None}]


def test_a_past_computer_call_has_the_name_of_the_declared_kind() -> None:
    preview = {"type": "computer_use_preview", "display_width": 1, "display_height": 1, "environment": "mac"}
    items = [{"type": "computer_call", "call_id": "c", "action": {"type": "wait"}}]
    assert rewritten(preview, items=items).turn.items[0]["name"] == "computer_use_preview"


OUTPUTS: dict[str, tuple[Json, Any]] = {
    "a custom tool's text": ({"type": "custom_tool_call_output", "output": "done"}, "done"),
    "a custom tool's list": (
        {"type": "custom_tool_call_output", "output": [{"type": "input_text", "text": "a"}]},
        [{"type": "input_text", "text": "a"}],
    ),
    "shell": (
        {
            "type": "shell_call_output",
            "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        },
        '[{"stdout":"a","stderr":"","outcome":{"type":"exit","exit_code":0}}]',
    ),
    "local shell": ({"type": "local_shell_call_output", "output": '{"stdout":"a"}'}, '{"stdout":"a"}'),
    "apply_patch": (
        {"type": "apply_patch_call_output", "status": "failed", "output": "no such file"},
        '{"status":"failed","output":"no such file"}',
    ),
    "apply_patch without a word": (
        {"type": "apply_patch_call_output", "status": "completed"},
        '{"status":"completed","output":""}',
    ),
    "a screenshot stays an image": (
        {"type": "computer_call_output", "output": SCREEN},
        [{"type": "input_image", "image_url": SCREEN["image_url"], "detail": "auto"}],
    ),
    "tools that were found, by the names they are called by": (
        {
            "type": "tool_search_output",
            "execution": "client",
            "tools": [ADDER, FUNCTION, {"type": "function", "name": "new", "description": "New."}],
        },
        '[{"name":"mcp__adder__add","description":"Adds."},{"name":"get_weather","description":""},'
        '{"name":"new","description":"New."}]',
    ),
}


@pytest.mark.parametrize(("item", "expected"), OUTPUTS.values(), ids=OUTPUTS)
def test_past_outputs_become_function_outputs(item: Json, expected: Any) -> None:
    result = rewritten(FUNCTION, ADDER, items=[{**item, "call_id": "c"}])
    said = {key: value for key, value in result.turn.items[0].items() if key != "status"}
    assert said == {"type": "function_call_output", "call_id": "c", "output": expected}


def test_a_limit_on_a_past_output_is_a_loss() -> None:
    result = rewritten(items=[{"type": "shell_call_output", "call_id": "c", "output": [], "max_output_length": 9}])
    assert result.turn.items == [{"type": "function_call_output", "call_id": "c", "output": "[]"}]
    assert result.losses == [Loss("input[0].max_output_length", "dropped")]


@pytest.mark.parametrize(
    ("kind", "status", "kept"),
    [
        ("apply_patch_call_output", "failed", "failed"),
        ("custom_tool_call_output", "incomplete", "incomplete"),
        ("apply_patch_call_output", "completed", None),
    ],
)
def test_a_failed_past_output_is_still_marked(kind: str, status: str, kept: str | None) -> None:
    [item] = rewritten(items=[{"type": kind, "call_id": "c", "status": status, "output": "no"}]).turn.items
    assert item["type"] == "function_call_output"
    assert item.get("status") == kept


def test_a_local_shell_output_belongs_to_the_call_its_id_names() -> None:
    result = rewritten(items=[{"type": "local_shell_call_output", "id": "c", "output": ""}])
    assert result.turn.items[0]["call_id"] == "c"


PAST = [item for item, _ in [*HISTORY.values(), *OUTPUTS.values()]]


@pytest.mark.parametrize("item", PAST, ids=[f"a call: {name}" for name in HISTORY] + list(OUTPUTS))
def test_past_calls_of_kinds_the_upstream_knows_stay_as_they_are(item: Json) -> None:
    kinds = frozenset({"custom", "shell", "local_shell", "apply_patch", "tool_search", "computer", "namespace"})
    asked = turn(FUNCTION, items=[item])
    assert rewrite_tools(asked, kinds=kinds, hosted=frozenset()) == RewrittenTurn(asked, None, ())


HOSTED_ITEMS: list[tuple[Json, str]] = [
    ({"type": "web_search_call", "id": "ws"}, "web_search_preview"),
    ({"type": "file_search_call", "id": "fs"}, "file_search"),
    ({"type": "code_interpreter_call", "id": "ci"}, "code_interpreter"),
    ({"type": "image_generation_call", "id": "ig"}, "image_generation"),
    ({"type": "mcp_list_tools", "id": "mcpl"}, "mcp"),
    ({"type": "mcp_call", "id": "mcp"}, "mcp"),
    ({"type": "mcp_approval_request", "id": "mcpr"}, "mcp"),
    ({"type": "mcp_approval_response"}, "mcp"),
    ({"type": "program", "id": "cm"}, "programmatic_tool_calling"),
    ({"type": "program_output", "id": "cmo"}, "programmatic_tool_calling"),
    ({"type": "tool_search_call", "call_id": None, "arguments": {}, "execution": "server"}, "tool_search"),
    ({"type": "tool_search_output", "call_id": None, "tools": []}, "tool_search"),
]


@pytest.mark.parametrize(("item", "kind"), HOSTED_ITEMS, ids=[item["type"] for item, _ in HOSTED_ITEMS])
def test_past_calls_of_hosted_tools_are_left_out_unless_the_upstream_runs_them(item: Json, kind: str) -> None:
    said = {"type": "message", "role": "user", "content": []}
    result = rewritten(FUNCTION, items=[said, item])
    assert result.turn.items == [said]
    assert result.losses == [Loss("input[1]", f"{item['type']} left out")]
    asked = turn(FUNCTION, items=[said, item])
    assert rewrite_tools(asked, kinds=CHAT, hosted=frozenset({kind})) == RewrittenTurn(asked, None, ())


def test_an_approval_without_an_executor_is_refused_if_it_is_new() -> None:
    said: Json = {"type": "message", "role": "user", "content": []}
    approval: Json = {"type": "mcp_approval_response", "approval_request_id": "mcpr", "approve": True}
    denial = {**approval, "approve": False}
    with pytest.raises(Unrepresentable, match="send the `mcp` tool of its server") as refused:
        rewritten(items=[said, approval, denial])
    assert refused.value.param == "input[1]"
    assert len(rewritten(items=[approval, said, denial]).losses) == 2, "the first one is of the past"


def test_the_request_is_not_changed() -> None:
    asked = turn(ADDER, PATCH, tool_choice={"type": "custom", "name": "apply_patch"}, items=[HISTORY["shell"][0]])
    before = orjson.dumps([asked.tools, asked.items, asked.tool_choice])
    rewrite_tools(asked, kinds=CHAT, hosted=frozenset())
    assert orjson.dumps([asked.tools, asked.items, asked.tool_choice]) == before
    assert replace(asked) == asked


def test_a_turn_without_anything_of_tools_is_not_rewritten() -> None:
    hi: Json = {"type": "message", "role": "user", "content": []}
    call: Json = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    assert is_tool_free(turn(items=[hi]))
    assert not is_tool_free(turn(items=[hi, call]))
    assert not is_tool_free(turn(FUNCTION, items=[hi]))
    assert not is_tool_free(turn(tool_choice="none", items=[hi]))
