"""The tool choice of each round, in which hosted tools are functions."""

from typing import Any

import pytest

from tests.tool_rounds import function_tool, hosted_tool
from translation.errors import InvalidRequest
from translation.hosted.loop.tool_choice import RoundChoices, list_allowed_names
from translation.hosted.tools import ToolCatalogue
from translation.representation.turn import Turn

CATALOGUE = ToolCatalogue.build([hosted_tool("add"), hosted_tool("sub"), hosted_tool("read", "files")])
OWN = [function_tool("mine")]


def fn(name: str) -> dict[str, str]:
    return {"type": "function", "name": name}


def allowed(*tools: Any, mode: str = "required") -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": [*tools]}


def choices(choice: Any, *, own: Any = OWN, catalogue: ToolCatalogue = CATALOGUE) -> list[Any]:
    """Returns the choices of the first round, of the second, and of a round without the hosted tools."""
    of = RoundChoices(Turn(model="m", items=[], tools=own, tool_choice=choice), catalogue)
    return [
        of.choose_for_round(is_first=True, offers_hosted=True),
        of.choose_for_round(is_first=False, offers_hosted=True),
        of.choose_for_round(is_first=False, offers_hosted=False),
    ]


MCP = {"type": "mcp", "server_label": "calc"}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, [None, None, None]),
        ("auto", ["auto", "auto", "auto"]),
        ("none", ["none", "none", "none"]),
        ("required", ["required", "auto", "auto"]),
        (fn("mine"), [fn("mine"), "auto", "auto"]),
        (MCP, [allowed(fn("calc_add"), fn("calc_sub")), allowed(fn("calc_add"), fn("calc_sub"), mode="auto"), "none"]),
        ({**MCP, "name": "sub"}, [fn("calc_sub"), "auto", "auto"]),
        ({"type": "mcp", "server_label": "files"}, [fn("files_read"), "auto", "auto"]),
        (
            allowed(fn("mine"), {**MCP, "name": "add"}),
            [
                allowed(fn("mine"), fn("calc_add")),
                allowed(fn("mine"), fn("calc_add"), mode="auto"),
                allowed(fn("mine"), mode="auto"),
            ],
        ),
        (allowed({"type": "mcp", "server_label": "gone"}, mode="auto"), ["none", "none", "none"]),
    ],
)
def test_fault_42_a_choice_that_requires_a_call_holds_for_the_first_round_only(
    choice: Any, expected: list[Any]
) -> None:
    assert choices(choice) == expected


def test_a_round_without_tools_has_no_choice() -> None:
    assert choices("auto", own=()) == ["auto", "auto", None]
    assert choices("auto", own=(), catalogue=ToolCatalogue()) == [None, None, None]


def test_a_choice_of_the_clients_function_holds_where_no_server_has_tools() -> None:
    assert choices(fn("mine"), catalogue=ToolCatalogue())[0] == fn("mine")


def test_a_first_round_without_the_hosted_tools_requires_none_of_them() -> None:
    of = RoundChoices(Turn(model="m", items=[], tools=OWN, tool_choice={**MCP, "name": "add"}), CATALOGUE)
    assert of.choose_for_round(is_first=True, offers_hosted=False) == "auto"
    of = RoundChoices(Turn(model="m", items=[], tools=OWN, tool_choice=fn("mine")), CATALOGUE)
    assert of.choose_for_round(is_first=True, offers_hosted=False) == fn("mine")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({**MCP, "name": "gone"}, "Tool choice 'calc.gone' not found in 'tools' parameter."),
        ({"type": "mcp", "server_label": "gone"}, "Tool choice 'gone' not found"),
        ({"type": "mcp"}, "Tool choice 'mcp' not found"),
        (allowed({"type": "mcp", "server_label": "gone"}), "Tool choice 'allowed_tools' not found"),
    ],
)
def test_a_choice_of_an_unknown_hosted_tool_is_refused(choice: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as refused:
        choices(choice)
    assert refused.value.param == "tool_choice"


def test_a_required_call_without_any_tools_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="there are no tools"):
        choices("required", own=(), catalogue=ToolCatalogue())


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, None),
        ("auto", None),
        ("required", None),
        (fn("calc_add"), None),
        ("none", set()),
        (allowed(fn("calc_add"), fn("mine")), {"calc_add", "mine"}),
        (allowed(fn("calc_add"), {"type": "custom"}, mode="auto"), {"calc_add"}),
    ],
)
def test_only_none_and_allowed_tools_exclude_tools(choice: Any, expected: set[str] | None) -> None:
    assert list_allowed_names(choice) == expected
