"""Tools, tool choice and past calls for an upstream that knows only functions."""

import re
from typing import Any

import pytest

from tests.unit.translation.tools.rewritten_turns import ADDER, CHAT, FUNCTION, PATCH, function, rewritten, turn
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.tools import function_schemas
from translation.tools.tool_rewriting import RewrittenTurn, rewrite_tools

CUSTOM: Json = {"type": "custom", "name": "exec", "description": "Runs code."}
LITE: Json = {"type": "namespace", "name": "functions", "description": "", "tools": [CUSTOM, FUNCTION]}
SEARCH: Json = {"type": "tool_search", "execution": "client", "description": "Finds.", "parameters": {"type": "object"}}
WEB: Json = {"type": "web_search", "external_web_access": True}


def freeform(name: str, description: str) -> Json:
    return function(name, description, function_schemas.FREEFORM_PARAMETERS)


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
    "shell": (
        {"type": "shell"},
        [function("shell", function_schemas.SHELL_DESCRIPTION, function_schemas.SHELL_PARAMETERS)],
    ),
    "shell on the client's machine": (
        {"type": "shell", "environment": {"type": "local"}},
        [function("shell", function_schemas.SHELL_DESCRIPTION, function_schemas.SHELL_PARAMETERS)],
    ),
    "local shell": (
        {"type": "local_shell"},
        [function("local_shell", function_schemas.LOCAL_SHELL_DESCRIPTION, function_schemas.LOCAL_SHELL_PARAMETERS)],
    ),
    "apply_patch": (
        {"type": "apply_patch"},
        [function("apply_patch", function_schemas.APPLY_PATCH_DESCRIPTION, function_schemas.APPLY_PATCH_PARAMETERS)],
    ),
    "tool search by the client": (SEARCH, [function("tool_search", "Finds.", {"type": "object"})]),
    "tool search without a description": (
        {"type": "tool_search", "execution": "client"},
        [function("tool_search", function_schemas.TOOL_SEARCH_DESCRIPTION, function_schemas.TOOL_SEARCH_PARAMETERS)],
    ),
    "computer": (
        {"type": "computer"},
        [function("computer", function_schemas.COMPUTER_DESCRIPTION, function_schemas.COMPUTER_PARAMETERS)],
    ),
    "computer of a known size": (
        {"type": "computer_use_preview", "display_width": 1024, "display_height": 768, "environment": "browser"},
        [
            function(
                "computer_use_preview",
                f"{function_schemas.COMPUTER_DESCRIPTION} The screen: 1024x768 pixels, browser.",
                function_schemas.COMPUTER_PREVIEW_PARAMETERS,
            )
        ],
    ),
}


@pytest.mark.parametrize(("tool", "expected"), TOOLS.values(), ids=TOOLS)
def test_every_kind_of_tool_becomes_a_function(tool: Json, expected: list[Json]) -> None:
    assert rewritten(tool).turn.tools == expected


@pytest.mark.parametrize("tool", [tool for tool, _ in TOOLS.values()], ids=TOOLS)
def test_a_kind_the_upstream_knows_stays_as_it_is(tool: Json) -> None:
    asked = turn(tool)
    inner = {each["type"] for each in tool.get("tools", ())}
    assert rewrite_tools(asked, kinds=CHAT | {tool["type"]} | inner, hosted=frozenset()) == RewrittenTurn(
        asked, None, ()
    )


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
    result = rewrite_tools(asked, kinds=CHAT, hosted=frozenset())
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
    "an unknown kind": {"type": "teleport"},
}


@pytest.mark.parametrize("tool", LEFT_OUT.values(), ids=LEFT_OUT)
def test_a_tool_without_an_executor_is_left_out_and_reported(tool: Json) -> None:
    result = rewritten(FUNCTION, tool)
    assert result.turn.tools == [FUNCTION]
    assert result.call_mapper is None
    assert result.losses == [Loss("tools[1]", f"{tool['type']} left out")]


@pytest.mark.parametrize("tool", LEFT_OUT.values(), ids=LEFT_OUT)
def test_a_tool_the_upstream_runs_stays(tool: Json) -> None:
    asked = turn(FUNCTION, tool)
    assert rewrite_tools(asked, kinds=CHAT, hosted=frozenset({tool["type"]})) == RewrittenTurn(asked, None, ())


@pytest.mark.parametrize("tool", LEFT_OUT.values(), ids=LEFT_OUT)
def test_forcing_a_tool_without_an_executor_is_refused(tool: Json) -> None:
    for others in ([FUNCTION], []):
        with pytest.raises(InvalidRequest) as refused:
            rewritten(*others, tool, tool_choice={"type": tool["type"]})
        assert refused.value.param == "tool_choice"


@pytest.mark.parametrize("key", ["connector_id", "tunnel_id"])
def test_a_server_without_an_address_is_refused_by_name_if_unreachable(key: str) -> None:
    tool = {"type": "mcp", "server_label": "mail", key: "x"}
    with pytest.raises(InvalidRequest, match=f"instead of `{key}`") as refused:
        rewritten(tool)
    assert refused.value.param == f"tools[0].{key}"
    assert rewritten({**tool, "server_url": "https://h/"}).losses == [Loss("tools[0]", "mcp left out")]


def test_a_grammar_that_is_only_described_is_a_loss() -> None:
    assert rewritten(PATCH).losses == [Loss("tools[0].format", "described")]
    assert rewritten({**LITE, "tools": [PATCH]}).losses == [Loss("tools[0].tools[0].format", "described")]


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
def test_the_grammar_of_a_forced_tool_is_enforced(tools: list[Json], choice: Any) -> None:
    result = rewrite_tools(turn(*tools, tool_choice=choice), kinds=CHAT, hosted=frozenset(), holds_grammars=True)
    assert result.turn.input_grammars == {"apply_patch": PATCH["format"]}
    assert not any(loss.param.endswith(".format") for loss in result.losses)
    other = rewrite_tools(turn(*tools, tool_choice=choice), kinds=CHAT, hosted=frozenset())
    assert not other.turn.input_grammars, "this upstream cannot hold it"
    assert any(loss.param.endswith(".format") for loss in other.losses)


def test_an_upstream_that_knows_custom_tools_gets_the_grammar_itself() -> None:
    kinds = frozenset({"function", "custom"})
    tools = [PATCH, ADDER]
    result = rewrite_tools(turn(*tools, tool_choice=NAMED), kinds=kinds, hosted=frozenset(), holds_grammars=True)
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
    result = rewrite_tools(turn(*tools, tool_choice=choice), kinds=CHAT, hosted=frozenset(), holds_grammars=True)
    assert not result.turn.input_grammars
    assert Loss("tools[0].format", "described") in result.losses


def test_text_is_no_grammar() -> None:
    assert rewritten({**CUSTOM, "format": {"type": "text"}}).losses == []


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
    names = [tool["name"] for tool in rewritten(*tools).turn.tools]
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
        rewritten(*tools)
    assert refused.value.param == param


def test_the_same_tool_again_is_one_tool() -> None:
    deferred = {**ADDER, "tools": [{**ADDER["tools"][0], "defer_loading": True}]}
    result = rewritten(deferred, ADDER, ADDER, FUNCTION, FUNCTION)
    assert [tool["name"] for tool in result.turn.tools] == ["mcp__adder__add", "get_weather"]
    assert rewritten(FUNCTION, FUNCTION).turn.tools == [FUNCTION]


def test_two_mcp_servers_are_two_tools() -> None:
    servers = [{"type": "mcp", "server_label": label} for label in ("a", "b")]
    assert rewritten(*servers, hosted=frozenset({"mcp"})).turn.tools == tuple(servers)


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
def test_tool_choice_has_the_names_sent_upstream(choice: Any, expected: Any) -> None:
    assert rewritten(*EVERYTHING, tool_choice=choice).turn.tool_choice == expected


def test_allowed_tools_that_are_left_out_are_reported() -> None:
    result = rewritten(FUNCTION, tool_choice={**ALLOWED, "tools": [{"type": "function", "name": "get_weather"}, WEB]})
    assert result.losses == [Loss("tool_choice.tools[1]", "web_search left out")]


REFUSED_CHOICES: dict[str, Json] = {
    "a function that is not there": {"type": "function", "name": "nope"},
    "a function that is not in that namespace": {"type": "function", "name": "add", "namespace": "nope"},
    "a function that is in two namespaces": {"type": "function", "name": "twice"},
    "only tools without an executor": {**ALLOWED, "mode": "required", "tools": [WEB]},
}


@pytest.mark.parametrize("choice", REFUSED_CHOICES.values(), ids=REFUSED_CHOICES)
def test_a_choice_that_cannot_be_honoured_is_refused(choice: Json) -> None:
    twice = [{**ADDER, "name": name, "tools": [{**FUNCTION, "name": "twice"}]} for name in ("a", "b")]
    with pytest.raises(InvalidRequest) as refused:
        rewritten(*EVERYTHING, *twice, tool_choice=choice)
    assert str(refused.value.param).startswith("tool_choice")


def test_a_call_cannot_be_required_when_no_tool_is_left() -> None:
    with pytest.raises(InvalidRequest):
        rewritten(WEB, tool_choice="required")
    assert rewritten(WEB, tool_choice="auto").turn.tool_choice == "auto"
    assert rewritten(WEB, tool_choice={**ALLOWED, "tools": [WEB]}).turn.tool_choice == "none"


def test_choices_that_the_upstream_supports_are_unchanged() -> None:
    choices = [{"type": "custom", "name": "exec"}, {"type": "web_search"}, {"type": "function", "name": "add"}]
    for choice in choices:
        asked = turn(*EVERYTHING, tool_choice=choice)
        native = frozenset(tool["type"] for tool in EVERYTHING)
        assert rewrite_tools(asked, kinds=native, hosted=native) == RewrittenTurn(asked, None, ())


def test_a_custom_tool_the_upstream_knows_only_loses_its_namespace() -> None:
    result = rewritten(
        LITE,
        kinds=frozenset({"function", "custom"}),
        tool_choice={"type": "custom", "name": "exec"},
        items=[{"type": "custom_tool_call", "call_id": "c", "name": "exec", "namespace": "functions", "input": "x"}],
    )
    assert result.turn.tools[0] == {**CUSTOM, "name": "functions__exec"}
    assert result.turn.tool_choice == {"type": "custom", "name": "functions__exec"}
    assert result.turn.items == [{"type": "custom_tool_call", "call_id": "c", "name": "functions__exec", "input": "x"}]
