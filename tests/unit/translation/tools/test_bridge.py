"""Tools, tool choice and past calls, as an upstream is told of them that knows only functions."""

import re
from dataclasses import replace
from typing import Any

import orjson
import pytest

from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.tools import schemas
from translation.tools.bridge import BridgedTurn, bridge_tools, is_tool_free

FUNCTION: Json = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": True}
CUSTOM: Json = {"type": "custom", "name": "exec", "description": "Runs code."}
PATCH: Json = {
    "type": "custom",
    "name": "apply_patch",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: line+"},
}
ADDER: Json = {
    "type": "namespace",
    "name": "mcp__adder",
    "description": "Sums.",
    "tools": [{"type": "function", "name": "add", "description": "Adds.", "parameters": {"type": "object"}}],
}
LITE: Json = {"type": "namespace", "name": "functions", "description": "", "tools": [CUSTOM, FUNCTION]}
SEARCH: Json = {"type": "tool_search", "execution": "client", "description": "Finds.", "parameters": {"type": "object"}}
WEB: Json = {"type": "web_search", "external_web_access": True}

CHAT = frozenset({"function"})


def turn(*tools: Json, tool_choice: Any = None, items: list[Json] | None = None) -> Turn:
    return Turn(model="m", items=items or [], tools=tools, tool_choice=tool_choice)


def bridged(
    *tools: Json, kinds: frozenset[str] = CHAT, hosted: frozenset[str] = frozenset(), **asked: Any
) -> BridgedTurn:
    return bridge_tools(turn(*tools, **asked), kinds=kinds, hosted=hosted)


def function(name: str, description: str, parameters: Json) -> Json:
    return {"type": "function", "name": name, "description": description, "parameters": parameters}


def freeform(name: str, description: str) -> Json:
    return function(name, description, schemas.FREEFORM_PARAMETERS)


TOOLS: dict[str, tuple[Json, list[Json]]] = {
    "a custom tool has one string": (CUSTOM, [freeform("exec", "Runs code.")]),
    "a grammar goes into the description": (
        PATCH,
        [freeform("apply_patch", "`input` must match this lark grammar:\nstart: line+")],
    ),
    "a namespace is opened": (
        ADDER,
        [{**ADDER["tools"][0], "name": "mcp__adder__add", "description": "Adds.\n\nSums."}],
    ),
    "custom tools in a namespace": (
        LITE,
        [freeform("functions__exec", "Runs code."), {**FUNCTION, "name": "functions__get_weather"}],
    ),
    "shell": ({"type": "shell"}, [function("shell", schemas.SHELL_DESCRIPTION, schemas.SHELL_PARAMETERS)]),
    "shell on the client's machine": (
        {"type": "shell", "environment": {"type": "local"}},
        [function("shell", schemas.SHELL_DESCRIPTION, schemas.SHELL_PARAMETERS)],
    ),
    "local shell": (
        {"type": "local_shell"},
        [function("local_shell", schemas.LOCAL_SHELL_DESCRIPTION, schemas.LOCAL_SHELL_PARAMETERS)],
    ),
    "apply_patch": (
        {"type": "apply_patch"},
        [function("apply_patch", schemas.APPLY_PATCH_DESCRIPTION, schemas.APPLY_PATCH_PARAMETERS)],
    ),
    "tool search by the client": (SEARCH, [function("tool_search", "Finds.", {"type": "object"})]),
    "tool search without a description": (
        {"type": "tool_search", "execution": "client"},
        [function("tool_search", schemas.TOOL_SEARCH_DESCRIPTION, schemas.TOOL_SEARCH_PARAMETERS)],
    ),
    "computer": (
        {"type": "computer"},
        [function("computer", schemas.COMPUTER_DESCRIPTION, schemas.COMPUTER_PARAMETERS)],
    ),
    "computer of a known size": (
        {"type": "computer_use_preview", "display_width": 1024, "display_height": 768, "environment": "browser"},
        [
            function(
                "computer_use_preview",
                f"{schemas.COMPUTER_DESCRIPTION} The screen: 1024x768 pixels, browser.",
                schemas.COMPUTER_PREVIEW_PARAMETERS,
            )
        ],
    ),
}


@pytest.mark.parametrize(("tool", "expected"), TOOLS.values(), ids=TOOLS)
def test_every_kind_rides_on_functions(tool: Json, expected: list[Json]) -> None:
    assert bridged(tool).turn.tools == expected


@pytest.mark.parametrize("tool", [tool for tool, _ in TOOLS.values()], ids=TOOLS)
def test_a_kind_the_upstream_knows_stays_as_it_is(tool: Json) -> None:
    asked = turn(tool)
    inner = {each["type"] for each in tool.get("tools", ())}
    assert bridge_tools(asked, kinds=CHAT | {tool["type"]} | inner, hosted=frozenset()) == BridgedTurn(asked, None, ())


def test_plain_functions_cost_nothing() -> None:
    asked = turn(
        FUNCTION,
        tool_choice={"type": "function", "name": "get_weather"},
        items=[
            {"type": "message", "role": "user", "content": []},
            {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "sunny"},
        ],
    )
    result = bridge_tools(asked, kinds=CHAT, hosted=frozenset())
    assert result.turn is asked
    assert result.call_mapper is None
    assert result.losses == ()


LEFT_OUT: dict[str, Json] = {
    "web search": WEB,
    "a dated web search": {"type": "web_search_preview_2025_03_11"},
    "file search": {"type": "file_search", "vector_store_ids": ["vs"]},
    "code interpreter": {"type": "code_interpreter", "container": {"type": "auto"}},
    "images": {"type": "image_generation"},
    "MCP": {"type": "mcp", "server_label": "deepwiki"},
    "programs": {"type": "programmatic_tool_calling"},
    "tool search by the server": {"type": "tool_search"},
    "a shell in a container": {"type": "shell", "environment": {"type": "container_auto"}},
    "a kind nobody has heard of": {"type": "teleport"},
}


@pytest.mark.parametrize("tool", LEFT_OUT.values(), ids=LEFT_OUT)
def test_a_tool_nobody_can_run_is_left_out_and_reported(tool: Json) -> None:
    result = bridged(FUNCTION, tool)
    assert result.turn.tools == [FUNCTION]
    assert result.call_mapper is None
    assert result.losses == [Loss("tools[1]", f"{tool['type']} left out")]


@pytest.mark.parametrize("tool", LEFT_OUT.values(), ids=LEFT_OUT)
def test_a_tool_the_upstream_runs_stays(tool: Json) -> None:
    asked = turn(FUNCTION, tool)
    assert bridge_tools(asked, kinds=CHAT, hosted=frozenset({tool["type"]})) == BridgedTurn(asked, None, ())


@pytest.mark.parametrize("tool", LEFT_OUT.values(), ids=LEFT_OUT)
def test_forcing_a_tool_nobody_can_run_is_refused(tool: Json) -> None:
    for others in ([FUNCTION], []):
        with pytest.raises(InvalidRequest) as refused:
            bridged(*others, tool, tool_choice={"type": tool["type"]})
        assert refused.value.param == "tool_choice"


@pytest.mark.parametrize("key", ["connector_id", "tunnel_id"])
def test_a_server_without_an_address_is_refused_by_name_where_nobody_can_reach_it(key: str) -> None:
    tool = {"type": "mcp", "server_label": "mail", key: "x"}
    with pytest.raises(InvalidRequest, match=f"instead of `{key}`") as refused:
        bridged(tool)
    assert refused.value.param == f"tools[0].{key}"
    assert bridged({**tool, "server_url": "https://h/"}).losses == [Loss("tools[0]", "mcp left out")]


def test_a_grammar_that_is_only_described_is_a_loss() -> None:
    assert bridged(PATCH).losses == [Loss("tools[0].format", "described")]
    assert bridged({**LITE, "tools": [PATCH]}).losses == [Loss("tools[0].tools[0].format", "described")]


NAMED: Json = {"type": "custom", "name": "apply_patch"}
ONLY_PATCH: Json = {"type": "allowed_tools", "mode": "required", "tools": [NAMED]}


@pytest.mark.parametrize(
    ("tools", "choice"),
    [
        ([PATCH], "required"),
        ([CUSTOM, PATCH], NAMED),
        ([CUSTOM, PATCH], ONLY_PATCH),
        ([WEB, PATCH], "required"),
    ],
    ids=["the only tool", "the named tool", "the only allowed tool", "the only tool left"],
)
def test_the_grammar_of_a_forced_tool_is_held(tools: list[Json], choice: Any) -> None:
    result = bridge_tools(turn(*tools, tool_choice=choice), kinds=CHAT, hosted=frozenset(), holds_grammars=True)
    assert result.turn.input_grammars == {"apply_patch": PATCH["format"]}
    assert not any(loss.param.endswith(".format") for loss in result.losses)
    other = bridge_tools(turn(*tools, tool_choice=choice), kinds=CHAT, hosted=frozenset())
    assert not other.turn.input_grammars, "this upstream cannot hold it"
    assert any(loss.param.endswith(".format") for loss in other.losses)


def test_an_upstream_that_knows_custom_tools_gets_the_grammar_itself() -> None:
    kinds = frozenset({"function", "custom"})
    tools = [PATCH, ADDER]
    result = bridge_tools(turn(*tools, tool_choice=NAMED), kinds=kinds, hosted=frozenset(), holds_grammars=True)
    assert (result.turn.tools[0], result.turn.input_grammars, result.losses) == (PATCH, {}, [])


@pytest.mark.parametrize(
    ("tools", "choice"),
    [
        ([PATCH], None),
        ([PATCH], "auto"),
        ([PATCH, FUNCTION], "required"),
        ([PATCH, FUNCTION], {"type": "function", "name": "get_weather"}),
        ([PATCH, CUSTOM], {"type": "custom", "name": "exec"}),
        ([PATCH], {**ONLY_PATCH, "mode": "auto"}),
        ([PATCH, CUSTOM], {**ONLY_PATCH, "tools": [NAMED, {"type": "custom", "name": "exec"}]}),
    ],
)
def test_the_grammar_of_a_tool_that_need_not_be_called_is_described(tools: list[Json], choice: Any) -> None:
    result = bridge_tools(turn(*tools, tool_choice=choice), kinds=CHAT, hosted=frozenset(), holds_grammars=True)
    assert not result.turn.input_grammars
    assert Loss("tools[0].format", "described") in result.losses


def test_text_is_no_grammar() -> None:
    assert bridged({**CUSTOM, "format": {"type": "text"}}).losses == []


NAMES: dict[str, tuple[list[Json], list[str]]] = {
    "a function keeps its name, another kind makes way": (
        [{"type": "shell"}, {**FUNCTION, "name": "shell"}],
        [r"shell_[0-9a-f]{16}", "shell"],
    ),
    "names that meet when joined": (
        [
            {**ADDER, "name": "a", "tools": [{**FUNCTION, "name": "b__c"}]},
            {**ADDER, "name": "a__b", "tools": [{**FUNCTION, "name": "c"}]},
        ],
        ["a__b__c", r"a__b__c_[0-9a-f]{16}"],
    ),
    "names that meet when joined but for case": (
        [{**FUNCTION, "name": "A__B"}, {**ADDER, "name": "a", "tools": [{**FUNCTION, "name": "b"}]}],
        ["A__B", r"a__b_[0-9a-f]{16}"],
    ),
    "names too long": (
        [{**ADDER, "name": "n" * 40, "tools": [{**FUNCTION, "name": "t" * 40}]}],
        [r"n{40}__t{5}_[0-9a-f]{16}"],
    ),
    "names with characters functions cannot have": (
        [{**ADDER, "name": "my server", "tools": [{**FUNCTION, "name": "do.it"}]}],
        [r"my_server__do_it_[0-9a-f]{16}"],
    ),
    "a plain function's name is the client's, whatever it is": ([{**FUNCTION, "name": "a.b"}, CUSTOM], ["a.b", "exec"]),
}


@pytest.mark.parametrize(("tools", "expected"), NAMES.values(), ids=NAMES)
def test_wire_names_are_unique_and_legal(tools: list[Json], expected: list[str]) -> None:
    names = [tool["name"] for tool in bridged(*tools).turn.tools]
    assert len(names) == len(expected)
    for name, pattern in zip(names, expected, strict=True):
        assert re.fullmatch(pattern, name)
        assert len(name) <= 64


MISTAKES: dict[str, tuple[list[Json], str]] = {
    "two functions of one name": ([FUNCTION, {**FUNCTION, "strict": False}], "tools[1].name"),
    "a function and a custom tool of one name": ([CUSTOM, {**FUNCTION, "name": "exec"}], "tools[1].name"),
    "names that differ only by case": ([FUNCTION, {**FUNCTION, "name": "Get_Weather"}], "tools[1].name"),
    "namespaces that differ only by case": ([ADDER, {**ADDER, "name": "MCP__adder"}], "tools[1].tools[0].name"),
    "two different functions of one namespace": (
        [ADDER, {**ADDER, "tools": [{**FUNCTION, "name": "add"}]}],
        "tools[1].tools[0].name",
    ),
    "two different shells": ([{"type": "shell"}, {"type": "shell", "environment": {"type": "local"}}], "tools[1].name"),
}


@pytest.mark.parametrize(("tools", "param"), MISTAKES.values(), ids=MISTAKES)
def test_two_tools_of_one_name_are_refused(tools: list[Json], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        bridged(*tools)
    assert refused.value.param == param


def test_the_same_tool_again_is_one_tool() -> None:
    deferred = {**ADDER, "tools": [{**ADDER["tools"][0], "defer_loading": True}]}
    result = bridged(deferred, ADDER, ADDER, FUNCTION, FUNCTION)
    assert [tool["name"] for tool in result.turn.tools] == ["mcp__adder__add", "get_weather"]
    assert bridged(FUNCTION, FUNCTION).turn.tools == [FUNCTION]


def test_two_mcp_servers_are_two_tools() -> None:
    servers = [{"type": "mcp", "server_label": label} for label in ("a", "b")]
    assert bridged(*servers, hosted=frozenset({"mcp"})).turn.tools == tuple(servers)


ALLOWED: Json = {"type": "allowed_tools", "mode": "auto"}

CHOICES: dict[str, tuple[Any, Any]] = {
    "auto": ("auto", "auto"),
    "required": ("required", "required"),
    "nothing": (None, None),
    "a function": ({"type": "function", "name": "get_weather"}, {"type": "function", "name": "get_weather"}),
    "a custom tool": ({"type": "custom", "name": "exec"}, {"type": "function", "name": "exec"}),
    "a function of a namespace": (
        {"type": "function", "name": "add", "namespace": "mcp__adder"},
        {"type": "function", "name": "mcp__adder__add"},
    ),
    "the only function called so, though in a namespace": (
        {"type": "function", "name": "add"},
        {"type": "function", "name": "mcp__adder__add"},
    ),
    "shell": ({"type": "shell"}, {"type": "function", "name": "shell"}),
    "apply_patch": ({"type": "apply_patch"}, {"type": "function", "name": "apply_patch"}),
    "computer by its other name": ({"type": "computer_use"}, {"type": "function", "name": "computer"}),
    "some allowed": (
        {**ALLOWED, "tools": [{"type": "shell"}, {"type": "custom", "name": "exec"}, WEB]},
        {**ALLOWED, "tools": [{"type": "function", "name": "shell"}, {"type": "function", "name": "exec"}]},
    ),
    "a namespace allowed": (
        {**ALLOWED, "mode": "required", "tools": [{"type": "namespace", "name": "mcp__adder"}]},
        {**ALLOWED, "mode": "required", "tools": [{"type": "function", "name": "mcp__adder__add"}]},
    ),
    "plain functions allowed": (
        {**ALLOWED, "tools": [{"type": "function", "name": "get_weather"}]},
        {**ALLOWED, "tools": [{"type": "function", "name": "get_weather"}]},
    ),
    "nothing allowed that could be run": ({**ALLOWED, "tools": [WEB]}, "none"),
}
EVERYTHING: list[Json] = [
    FUNCTION,
    CUSTOM,
    ADDER,
    {"type": "shell"},
    {"type": "apply_patch"},
    {"type": "computer"},
    WEB,
]


@pytest.mark.parametrize(("choice", "expected"), CHOICES.values(), ids=CHOICES)
def test_tool_choice_names_what_the_upstream_is_given(choice: Any, expected: Any) -> None:
    assert bridged(*EVERYTHING, tool_choice=choice).turn.tool_choice == expected


def test_allowed_tools_that_are_left_out_are_reported() -> None:
    result = bridged(FUNCTION, tool_choice={**ALLOWED, "tools": [{"type": "function", "name": "get_weather"}, WEB]})
    assert result.losses == [Loss("tool_choice.tools[1]", "web_search left out")]


REFUSED_CHOICES: dict[str, Json] = {
    "a function that is not there": {"type": "function", "name": "nope"},
    "a function that is not in that namespace": {"type": "function", "name": "add", "namespace": "nope"},
    "a function that is in two namespaces": {"type": "function", "name": "twice"},
    "only tools nobody can run": {**ALLOWED, "mode": "required", "tools": [WEB]},
}


@pytest.mark.parametrize("choice", REFUSED_CHOICES.values(), ids=REFUSED_CHOICES)
def test_a_choice_that_cannot_be_honoured_is_refused(choice: Json) -> None:
    twice = [{**ADDER, "name": name, "tools": [{**FUNCTION, "name": "twice"}]} for name in ("a", "b")]
    with pytest.raises(InvalidRequest) as refused:
        bridged(*EVERYTHING, *twice, tool_choice=choice)
    assert str(refused.value.param).startswith("tool_choice")


def test_a_call_cannot_be_required_when_no_tool_is_left() -> None:
    with pytest.raises(InvalidRequest):
        bridged(WEB, tool_choice="required")
    assert bridged(WEB, tool_choice="auto").turn.tool_choice == "auto"
    assert bridged(WEB, tool_choice={**ALLOWED, "tools": [WEB]}).turn.tool_choice == "none"


def test_choices_the_upstream_understands_stay_as_they_are() -> None:
    choices = [{"type": "custom", "name": "exec"}, {"type": "web_search"}, {"type": "function", "name": "add"}]
    for choice in choices:
        asked = turn(*EVERYTHING, tool_choice=choice)
        native = frozenset(tool["type"] for tool in EVERYTHING)
        assert bridge_tools(asked, kinds=native, hosted=native) == BridgedTurn(asked, None, ())


def test_a_custom_tool_the_upstream_knows_only_loses_its_namespace() -> None:
    result = bridged(
        LITE,
        kinds=frozenset({"function", "custom"}),
        tool_choice={"type": "custom", "name": "exec"},
        items=[{"type": "custom_tool_call", "call_id": "c", "name": "exec", "namespace": "functions", "input": "x"}],
    )
    assert result.turn.tools[0] == {**CUSTOM, "name": "functions__exec"}
    assert result.turn.tool_choice == {"type": "custom", "name": "functions__exec"}
    assert result.turn.items == [{"type": "custom_tool_call", "call_id": "c", "name": "functions__exec", "input": "x"}]


SCREEN: Json = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA=="}

HISTORY: dict[str, tuple[Json, Json]] = {
    "a call of a custom tool": (
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "exec", "input": 'say "hi"'},
        {"name": "exec", "arguments": {"input": 'say "hi"'}},
    ),
    "a call of a custom tool that is gone": (
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
def test_past_calls_are_said_as_function_calls(item: Json, expected: Json) -> None:
    [said] = bridged(FUNCTION, items=[item]).turn.items
    arguments = orjson.loads(said.pop("arguments"))
    assert {**said, "arguments": arguments} == {"type": "function_call", "call_id": "c", **expected}


def test_a_past_call_in_a_namespace_is_flattened_and_keeps_its_arguments() -> None:
    call = {"type": "function_call", "id": "fc", "call_id": "c", "name": "add", "arguments": '{ "a":1}'}
    result = bridged(ADDER, items=[{**call, "namespace": "mcp__adder"}, {**call, "namespace": None}])
    assert result.turn.items == [{**call, "name": "mcp__adder__add"}, {**call, "namespace": None}]


def test_a_past_computer_call_goes_by_the_name_of_the_kind_that_is_declared() -> None:
    preview = {"type": "computer_use_preview", "display_width": 1, "display_height": 1, "environment": "mac"}
    items = [{"type": "computer_call", "call_id": "c", "action": {"type": "wait"}}]
    assert bridged(preview, items=items).turn.items[0]["name"] == "computer_use_preview"


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
def test_past_outputs_are_said_as_function_outputs(item: Json, expected: Any) -> None:
    result = bridged(FUNCTION, ADDER, items=[{**item, "call_id": "c"}])
    said = {key: value for key, value in result.turn.items[0].items() if key != "status"}
    assert said == {"type": "function_call_output", "call_id": "c", "output": expected}


def test_a_limit_on_a_past_output_is_a_loss() -> None:
    result = bridged(items=[{"type": "shell_call_output", "call_id": "c", "output": [], "max_output_length": 9}])
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
def test_a_past_output_that_failed_still_says_so(kind: str, status: str, kept: str | None) -> None:
    [item] = bridged(items=[{"type": kind, "call_id": "c", "status": status, "output": "no"}]).turn.items
    assert item["type"] == "function_call_output"
    assert item.get("status") == kept


def test_a_local_shell_output_belongs_to_the_call_its_id_names() -> None:
    result = bridged(items=[{"type": "local_shell_call_output", "id": "c", "output": ""}])
    assert result.turn.items[0]["call_id"] == "c"


PAST = [item for item, _ in [*HISTORY.values(), *OUTPUTS.values()]]


@pytest.mark.parametrize("item", PAST, ids=[f"a call: {name}" for name in HISTORY] + list(OUTPUTS))
def test_past_calls_of_kinds_the_upstream_knows_stay_as_they_are(item: Json) -> None:
    kinds = frozenset({"custom", "shell", "local_shell", "apply_patch", "tool_search", "computer", "namespace"})
    asked = turn(FUNCTION, items=[item])
    assert bridge_tools(asked, kinds=kinds, hosted=frozenset()) == BridgedTurn(asked, None, ())


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
    result = bridged(FUNCTION, items=[said, item])
    assert result.turn.items == [said]
    assert result.losses == [Loss("input[1]", f"{item['type']} left out")]
    asked = turn(FUNCTION, items=[said, item])
    assert bridge_tools(asked, kinds=CHAT, hosted=frozenset({kind})) == BridgedTurn(asked, None, ())


def test_an_approval_that_nothing_can_run_is_refused_where_its_client_waits_for_it() -> None:
    said: Json = {"type": "message", "role": "user", "content": []}
    approval: Json = {"type": "mcp_approval_response", "approval_request_id": "mcpr", "approve": True}
    denial = {**approval, "approve": False}
    with pytest.raises(Unrepresentable, match="send the `mcp` tool of its server") as refused:
        bridged(items=[said, approval, denial])
    assert refused.value.param == "input[1]"
    assert len(bridged(items=[approval, said, denial]).losses) == 2, "the first one is of the past"


def test_the_request_is_not_changed() -> None:
    asked = turn(ADDER, PATCH, tool_choice={"type": "custom", "name": "apply_patch"}, items=[HISTORY["shell"][0]])
    before = orjson.dumps([asked.tools, asked.items, asked.tool_choice])
    bridge_tools(asked, kinds=CHAT, hosted=frozenset())
    assert orjson.dumps([asked.tools, asked.items, asked.tool_choice]) == before
    assert replace(asked) == asked


def test_a_turn_without_anything_of_tools_needs_no_bridge() -> None:
    hi: Json = {"type": "message", "role": "user", "content": []}
    call: Json = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    assert is_tool_free(turn(items=[hi]))
    assert not is_tool_free(turn(items=[hi, call]))
    assert not is_tool_free(turn(FUNCTION, items=[hi]))
    assert not is_tool_free(turn(tool_choice="none", items=[hi]))
