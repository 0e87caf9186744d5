"""Tool choices name tools, and thousands of them are found at once."""

from typing import Any

import pytest

from translation.errors import InvalidRequest
from translation.tools.choice import rewrite_tool_choice, select_allowed_tools
from translation.tools.names import ClientToolName, ToolNames


class CountedTool(dict[str, Any]):
    """A tool that counts how often it is looked at."""

    looks = 0

    def get(self, *arguments: Any) -> Any:
        CountedTool.looks += 1
        return super().get(*arguments)


def test_allowed_tools_are_selected_in_the_order_of_the_tools() -> None:
    f, g = {"type": "function", "name": "f"}, {"type": "function", "name": "g"}
    custom = {"type": "custom", "name": "f"}
    assert select_allowed_tools([f, g, custom], [custom, f]) == [f, custom]
    with pytest.raises(InvalidRequest, match="allows 'h'"):
        select_allowed_tools([f, g], [f, {"type": "function", "name": "h"}])


def test_each_allowed_tool_is_looked_at_a_few_times() -> None:
    tools = [CountedTool(type="function", name=f"f{number}") for number in range(500)]
    CountedTool.looks = 0
    assert select_allowed_tools(tools, tools) == tools
    assert CountedTool.looks <= 8 * len(tools)


class CountedNames(ToolNames):
    """Names that count how often all of them are read."""

    def __init__(self) -> None:
        super().__init__()
        self._wire_names = CountedDict()


class CountedDict(dict[ClientToolName, str]):
    reads = 0

    def __iter__(self) -> Any:
        CountedDict.reads += 1
        return super().__iter__()


def test_thousands_of_choices_read_the_names_once() -> None:
    names = CountedNames()
    for number in range(500):
        names.claim(ClientToolName("function", f"f{number}"))
    CountedDict.reads = 0
    allowed = [{"type": "function", "name": f"f{number}"} for number in range(500)]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": allowed}
    assert rewrite_tool_choice(choice, frozenset({"function"}), names, []) == choice
    assert CountedDict.reads == 1


def test_callees_that_are_claimed_later_are_found() -> None:
    names = ToolNames()
    assert names.callees_named("function", "f") == names.callees_in("n") == []
    first, second = ClientToolName("function", "f"), ClientToolName("function", "f", "n")
    names.claim(first)
    assert names.callees_named("function", "f") == [first]
    names.claim(second)
    assert names.callees_named("function", "f") == [first, second]
    assert names.callees_in("n") == [second]


def test_a_search_that_nobody_runs_names_the_key_of_its_engine() -> None:
    with pytest.raises(InvalidRequest) as refused:
        rewrite_tool_choice({"type": "web_search"}, frozenset(), ToolNames(()), [])
    assert "tools.web_search.engine" in str(refused.value)
    with pytest.raises(InvalidRequest) as other:
        rewrite_tool_choice({"type": "file_search"}, frozenset(), ToolNames(()), [])
    assert "web_search" not in str(other.value)
