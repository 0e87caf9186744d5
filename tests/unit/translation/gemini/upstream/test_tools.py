"""translation/gemini/upstream/tools.py"""

from typing import Any

import pytest

from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini.upstream.tools import lower_tools
from translation.representation.json_types import Json
from translation.representation.loss import Loss

PARAMETERS = {"type": "object", "properties": {"a": {"type": "string"}}}


def tool(name: str, **more: Any) -> Json:
    return {"type": "function", "name": name, "parameters": PARAMETERS, **more}


def declared(*names: str, config: Json | None = None) -> Json:
    listed = [{"name": name, "parametersJsonSchema": PARAMETERS} for name in names]
    said: Json = {"tools": [{"functionDeclarations": listed}]}
    return said | ({"toolConfig": {"functionCallingConfig": config}} if config else {})


def allowed(mode: str, *names: str) -> Json:
    listed = [{"type": "function", "name": name} for name in names]
    return {"type": "allowed_tools", "mode": mode, "tools": listed}


TWO = [tool("f"), tool("g")]
SEARCH = {"type": "web_search_preview"}

CASES: dict[str, tuple[list[Json], str | Json | None, Json, list[str]]] = {
    "none": ([], None, {}, []),
    "none, and none wanted": ([], "none", {}, []),
    "some": (TWO, None, declared("f", "g"), []),
    "as it sees fit": (TWO, "auto", declared("f", "g"), []),
    "strict ones are held to their schemas": (
        [tool("f", strict=True), tool("g", strict=False)],
        "auto",
        declared("f", "g", config={"mode": "VALIDATED"}),
        [],
    ),
    "not now": (TWO, "none", declared("f", "g", config={"mode": "NONE"}), []),
    "any": (TWO, "required", declared("f", "g", config={"mode": "ANY"}), []),
    "this one": (
        TWO,
        {"type": "function", "name": "g"},
        declared("f", "g", config={"mode": "ANY", "allowedFunctionNames": ["g"]}),
        [],
    ),
    "one of these": (
        TWO,
        allowed("required", "g"),
        declared("f", "g", config={"mode": "ANY", "allowedFunctionNames": ["g"]}),
        [],
    ),
    "none but these": (TWO, allowed("auto", "g"), declared("g"), ["tool_choice=allowed_tools filtered"]),
    "a description": (
        [{"type": "function", "name": "f", "description": "d"}],
        None,
        {"tools": [{"functionDeclarations": [{"name": "f", "description": "d"}]}]},
        [],
    ),
    "no parameters": (
        [tool("f", parameters={"type": "object", "properties": {}})],
        None,
        {"tools": [{"functionDeclarations": [{"name": "f"}]}]},
        [],
    ),
    "keywords and keys without a place": (
        [tool("f", defer_loading=True, parameters={"properties": {"a": {"pattern": "x"}}})],
        None,
        {
            "tools": [
                {
                    "functionDeclarations": [
                        {"name": "f", "parametersJsonSchema": {"type": "object", "properties": {"a": {}}}}
                    ]
                }
            ]
        },
        ["tools.defer_loading=dropped", "tools[0].parameters=pattern dropped"],
    ),
    "a search": ([SEARCH], "auto", {"tools": [{"googleSearch": {}}]}, []),
    "a search that is told where": (
        [{**SEARCH, "user_location": {"city": "Hamburg"}}],
        None,
        {"tools": [{"googleSearch": {}}]},
        ["tools.user_location=dropped"],
    ),
    "a search beside functions": ([SEARCH, tool("f")], "auto", declared("f"), ["tools[0]=web_search_preview left out"]),
    "a search that must be": (
        [SEARCH],
        SEARCH,
        {"tools": [{"googleSearch": {}}]},
        ["tool_choice=not enforced"],
    ),
    "a search that must be, by another name": (
        [SEARCH],
        "required",
        {"tools": [{"googleSearch": {}}]},
        ["tool_choice=not enforced"],
    ),
    "a search that must be, beside functions": (
        [tool("f"), {**SEARCH, "max_uses": 3}],
        SEARCH,
        {"tools": [{"googleSearch": {}}]},
        ["tool_choice=not enforced", "tools[0]=function left out", "tools.max_uses=dropped"],
    ),
    "a search that must be, among those allowed": (
        [tool("f"), SEARCH],
        {"type": "allowed_tools", "mode": "required", "tools": [SEARCH]},
        {"tools": [{"googleSearch": {}}]},
        ["tool_choice=not enforced", "tools[0]=function left out"],
    ),
    "a search or a function": (
        [tool("f"), SEARCH],
        "required",
        declared("f", config={"mode": "ANY"}),
        ["tools[1]=web_search_preview left out"],
    ),
    "no search now": ([SEARCH], "none", {}, ["tools=dropped"]),
}


@pytest.mark.parametrize(("tools", "choice", "expected", "lost"), CASES.values(), ids=CASES)
def test_tools_become_tools_of_the_api(
    tools: list[Json], choice: str | Json | None, expected: Json, lost: list[str]
) -> None:
    losses: list[Loss] = []
    assert lower_tools(tools, choice, None, losses) == expected
    assert list(map(str, losses)) == lost


OTHER = {"type": "object", "properties": {"b": {"type": "integer"}}}
BOTH = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
DEFINED = {"$defs": {"A": PARAMETERS}}
FORMS: dict[str, tuple[Json, Json | None, list[str]]] = {
    "none": ({}, None, []),
    "an object without properties": ({"type": "object", "properties": {}, "additionalProperties": False}, None, []),
    "an object that does not say so": ({"properties": PARAMETERS["properties"]}, PARAMETERS, []),
    "any of two": ({"anyOf": [PARAMETERS, OTHER]}, BOTH, ["anyOf merged"]),
    "one of two": ({"type": "object", "oneOf": [PARAMETERS, OTHER]}, BOTH, ["oneOf merged"]),
    "both": ({"allOf": [PARAMETERS, OTHER]}, BOTH, []),
    "any of two, in one that holds": ({"allOf": [{"anyOf": [PARAMETERS, OTHER]}]}, BOTH, ["allOf merged"]),
    "one requirement of two": (
        {**BOTH, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {**BOTH, "description": '{"anyOf":[{"required":["a"]},{"required":["b"]}]}'},
        ["anyOf merged"],
    ),
    "a reference": ({"$ref": "#/$defs/A", **DEFINED}, {"$ref": "#/$defs/A", **DEFINED}, []),
    "a reference with words beside it": (
        {"$ref": "#/$defs/A", "description": "d", **DEFINED},
        {**PARAMETERS, "description": "d", **DEFINED},
        ["$ref merged"],
    ),
    "a reference in one that holds": (
        {"allOf": [{"$ref": "#/$defs/A"}, OTHER], **DEFINED},
        {**BOTH, **DEFINED},
        ["allOf merged"],
    ),
    "properties of any name": (
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        [],
    ),
    "properties of any name and value": (
        {"type": "object", "additionalProperties": True},
        {"type": "object", "additionalProperties": True},
        [],
    ),
    "no object, which the API judges": ({"type": "array", "items": {}}, {"type": "array", "items": {}}, []),
}


@pytest.mark.parametrize(("given", "expected", "lost"), FORMS.values(), ids=FORMS)
def test_all_forms_of_parameters_reach_the_api(given: Json, expected: Json | None, lost: list[str]) -> None:
    losses: list[Loss] = []
    lowered = lower_tools([tool("f", parameters=given)], None, None, losses)
    [declaration] = lowered["tools"][0]["functionDeclarations"]
    assert declaration.get("parametersJsonSchema") == expected
    assert list(map(str, losses)) == [f"tools[0].parameters={each}" for each in lost]


def test_sequential_calls_are_a_loss() -> None:
    losses: list[Loss] = []
    assert lower_tools(TWO, None, False, losses) == declared("f", "g")
    assert losses == [Loss("parallel_tool_calls", "dropped")]


REFUSED: dict[str, tuple[list[Json], str | Json | None, type[InvalidRequest], str]] = {
    "a choice among none": ([], "required", InvalidRequest, "tool_choice"),
    "no name": ([{"type": "function"}], None, InvalidRequest, "tools[0].name"),
    "another kind": ([tool("f"), {"type": "mcp"}], None, Unrepresentable, "tools[1]"),
    "a function where there is only a search": (
        [SEARCH],
        {"type": "function", "name": "f"},
        InvalidRequest,
        "tool_choice",
    ),
    "a search that is not there": ([tool("f")], SEARCH, Unrepresentable, "tool_choice"),
    "none of those that are there": (
        [SEARCH],
        {"type": "allowed_tools", "mode": "required", "tools": []},
        InvalidRequest,
        "tool_choice",
    ),
    "a choice of one that is not there": (TWO, {"type": "function", "name": "h"}, InvalidRequest, "tool_choice"),
    "a choice of another kind": (TWO, {"type": "mcp"}, Unrepresentable, "tool_choice"),
    "some that are not there": (TWO, allowed("required", "h"), InvalidRequest, "tool_choice.tools"),
}


@pytest.mark.parametrize(("tools", "choice", "kind", "param"), REFUSED.values(), ids=REFUSED)
def test_unsupported_values_are_refused_by_name(
    tools: list[Json], choice: str | Json | None, kind: type[InvalidRequest], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        lower_tools(tools, choice, None, [])
    assert type(refusal.value) is kind
    assert refusal.value.param == param
