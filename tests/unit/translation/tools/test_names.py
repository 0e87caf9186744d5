"""Names of tools that an upstream refuses, in a turn that is rewritten for it."""

import re
from typing import Any

import pytest

from tests.unit.translation.tools.rewritten_turns import CHAT, turn
from translation.representation.json_types import Json
from translation.representation.profile import ToolNameForm
from translation.tools.names import find_name_check, require_function_name
from translation.tools.tool_rewriting import RewrittenTurn, has_accepted_names, rewrite_tools

LONG = "mcp__a_plugin_with_a_long_name__and_a_tool_with_a_longer_name_still_x"
FORMS: dict[str, list[ToolNameForm]] = {
    "plain": ["openai", "anthropic", "gemini"],
    "get-weather_2": ["openai", "anthropic", "gemini"],
    "_": ["openai", "anthropic", "gemini"],
    "7days": ["openai", "anthropic"],
    "-x": ["openai", "anthropic"],
    "x" * 64: ["openai", "anthropic", "gemini"],
    "x" * 65: ["anthropic"],
    LONG: ["anthropic"],
    "x" * 128: ["anthropic"],
    "x" * 129: [],
    "a.b": ["gemini"],
    "a:b": ["gemini"],
    ".a": [],
    "a b": [],
    "a/b": [],
    "a\n": [],
    "größe": [],
    "日本": [],
    "🙂": [],
}
"""A name -> the forms that it has."""


def call(name: str, **more: Any) -> Json:
    return {"type": "function_call", "call_id": "c", "name": name, "arguments": "{}", **more}


def names_of(result: RewrittenTurn) -> list[str]:
    return [tool["name"] for tool in result.turn.tools]


@pytest.mark.parametrize("form", ["openai", "anthropic", "gemini"])
@pytest.mark.parametrize("name", FORMS)
def test_a_name_is_kept_where_it_is_accepted_and_otherwise_mapped(name: str, form: ToolNameForm) -> None:
    asked = turn({"type": "function", "name": name}, items=[call(name), call(name)])
    asked.tool_choice = {"type": "function", "name": name}
    result = rewrite_tools(asked, kinds=CHAT, hosted=frozenset(), name_form=form)
    assert has_accepted_names(asked, form) is (form in FORMS[name])
    assert has_accepted_names(result.turn, form)
    assert has_accepted_names(asked, "any")
    if form in FORMS[name]:
        assert result == RewrittenTurn(asked, None, ())
        return
    [sent] = names_of(result)
    assert (check := find_name_check(form)) is not None
    assert check(sent)
    assert sent != name
    assert [item["name"] for item in result.turn.items] == [sent, sent]
    assert result.turn.tool_choice == {"type": "function", "name": sent}
    assert result.call_mapper is not None


def test_similar_names_stay_distinct_and_every_turn_has_the_same() -> None:
    names = ["a.b", "a_b", "a:b", "a b", LONG + "1", LONG + "2", "x" * 65, "x" * 66]
    first = names_of(rewrite(names))
    assert len(set(first)) == len(names)
    assert first[1] == "a_b"
    assert sorted(names_of(rewrite(names[::-1]))) == sorted(first)
    assert names_of(rewrite(names[:1])) == first[:1]
    assert re.fullmatch(r"a_b_[0-9a-f]{16}", first[0])


def rewrite(names: list[str]) -> RewrittenTurn:
    tools = [{"type": "function", "name": name} for name in names]
    return rewrite_tools(turn(*tools), kinds=CHAT, hosted=frozenset(), name_form="openai")


def test_a_past_call_of_a_tool_that_is_gone_is_mapped() -> None:
    asked = turn(items=[call("a.b"), call("plain")])
    result = rewrite_tools(asked, kinds=CHAT, hosted=frozenset(), name_form="openai")
    assert [item["name"] for item in result.turn.items] == [names_of(rewrite(["a.b"]))[0], "plain"]
    assert not has_accepted_names(asked, "openai")


NATIVE = frozenset({"function", "custom", "namespace"})
SPACE: Json = {"type": "namespace", "name": "space", "tools": [{"type": "function", "name": "a"}]}


def test_namespaces_whose_tools_have_accepted_names_stay() -> None:
    asked = turn(SPACE, {"type": "web_search"}, {"type": "custom", "name": "c"}, items=[call("a", namespace="space")])
    asked.tool_choice = {"type": "function", "name": "a", "namespace": "space"}
    result = rewrite_tools(asked, kinds=NATIVE, hosted=frozenset({"web_search"}), name_form="openai")
    assert result == RewrittenTurn(asked, None, ())


def test_a_namespace_with_a_name_that_is_refused_is_opened() -> None:
    dotted = {**SPACE, "tools": [{"type": "function", "name": "a.b"}, {"type": "custom", "name": "c.d"}]}
    asked = turn(dotted, items=[call("a.b", namespace="space")])
    asked.tool_choice = {"type": "function", "name": "a.b", "namespace": "space"}
    result = rewrite_tools(asked, kinds=NATIVE, hosted=frozenset(), name_form="openai")
    names = names_of(result)
    assert all(re.fullmatch(r"space__[a-d]_[a-d]_[0-9a-f]{16}", name) for name in names)
    assert result.turn.items == [call(names[0])]
    assert result.turn.tool_choice == {"type": "function", "name": names[0]}
    assert [tool["type"] for tool in result.turn.tools] == ["function", "custom"]


def test_a_past_call_with_a_name_that_is_refused_leaves_its_namespace() -> None:
    result = rewrite_tools(
        turn(SPACE, items=[call("a.b", namespace="space")]), kinds=NATIVE, hosted=frozenset(), name_form="openai"
    )
    [past] = result.turn.items
    assert past.keys() == call("").keys()
    assert re.fullmatch(r"space__a_b_[0-9a-f]{16}", past["name"])


def test_a_custom_tool_is_mapped() -> None:
    tool: Json = {"type": "custom", "name": "c.d"}
    past: Json = {"type": "custom_tool_call", "call_id": "c", "name": "c.d", "input": "x"}
    result = rewrite_tools(turn(tool, items=[past]), kinds=NATIVE, hosted=frozenset(), name_form="openai")
    [name] = names_of(result)
    assert result.turn.items == [{**past, "name": name}]
    assert result.turn.tools == [{**tool, "name": name}]


def test_a_name_without_a_form_is_sent_as_it_is() -> None:
    assert find_name_check("any") is None
    assert require_function_name({"type": "function", "name": "a b"}, "tools[0]") == "a b"
    asked = turn({"type": "function", "name": "a b"}, items=[call("x y")])
    assert rewrite_tools(asked, kinds=CHAT, hosted=frozenset()) == RewrittenTurn(asked, None, ())
