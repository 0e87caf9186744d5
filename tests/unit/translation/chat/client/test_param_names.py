"""Parameters of a turn by the names that a chat client knows."""

import pytest

from translation.chat.client.param_names import PARAM_NAMES
from translation.representation.json_types import Json

SEARCHING: Json = {"tools": [{}], "web_search_options": {}}
LEGACY: Json = {"functions": [{}], "function_call": "auto"}

NAMES: dict[str, tuple[tuple[str, str, str], Json, str]] = {
    "the input": (("input", "[1]", ".content[0]"), {}, "messages[1]"),
    "the effort": (("reasoning", "", ".effort"), {}, "reasoning_effort"),
    "the switch of thinking": (("thinking", "", ""), {}, "reasoning.enabled"),
    "the switch of thinking, as the client sent it": (("thinking", "", ""), {"thinking": True}, "thinking"),
    "thinking, as the client sent it": (("reasoning", "", ""), {"thinking": True}, "thinking"),
    "the budget, as the client sent it": (
        ("reasoning", "", ".max_tokens"),
        {"thinking": {"type": "enabled", "budget_tokens": 9}},
        "thinking.budget_tokens",
    ),
    "the budget beside an effort": (
        ("reasoning", "", ".max_tokens"),
        {"thinking": {"type": "enabled", "budget_tokens": 9}, "reasoning_effort": "low"},
        "thinking.budget_tokens",
    ),
    "the budget beside an effort in an object": (
        ("reasoning", "", ".max_tokens"),
        {"thinking": {"type": "enabled", "budget_tokens": 9}, "reasoning": {"effort": "low"}},
        "thinking.budget_tokens",
    ),
    "the budget in the first of two objects": (
        ("reasoning", "", ".max_tokens"),
        {"thinking": {"type": "enabled", "budget_tokens": 9}, "reasoning": {"max_tokens": 5}},
        "reasoning.max_tokens",
    ),
    "the effort in an object": (("reasoning", "", ".effort"), {"reasoning": {"effort": "low"}}, "reasoning.effort"),
    "the effort beside an object that is null": (
        ("reasoning", "", ".effort"),
        {"reasoning": None, "reasoning_effort": "low"},
        "reasoning_effort",
    ),
    "an effort that stands for a budget": (
        ("reasoning", "", ".effort"),
        {"thinking": {"type": "enabled", "budget_tokens": 9}},
        "thinking.budget_tokens",
    ),
    "a summary": (("reasoning", "", ".summary"), {"reasoning": {"summary": "auto"}}, "reasoning.summary"),
    "the switch of thinking, as an effort": (("thinking", "", ""), {"reasoning_effort": "none"}, "reasoning_effort"),
    "the switch of thinking, beside one that is null": (
        ("thinking", "", ""),
        {"thinking": None, "reasoning": {"enabled": True}},
        "reasoning.enabled",
    ),
    "the effort beside thinking": (
        ("reasoning", "", ".effort"),
        {"thinking": True, "reasoning_effort": "low"},
        "reasoning_effort",
    ),
    "the format of the text": (("text", "", ".format.schema"), {}, "response_format"),
    "the verbosity of the text": (("text", "", ".verbosity"), {}, "verbosity"),
    "the limit": (("max_output_tokens", "", ""), {}, "max_completion_tokens"),
    "the limit, by its old name": (("max_output_tokens", "", ""), {"max_tokens": 5}, "max_tokens"),
    "the limit, by both names": (
        ("max_output_tokens", "", ""),
        {"max_tokens": 5, "max_completion_tokens": 5},
        "max_completion_tokens",
    ),
    "a tool": (("tools", "[0]", ".name"), SEARCHING, "tools[0].name"),
    "the search after the tools": (("tools", "[1]", ".filters"), SEARCHING, "web_search_options"),
    "the search without tools": (
        ("tools", "[0]", ".user_location"),
        {"web_search_options": {}},
        "web_search_options.user_location",
    ),
    "the search beside tools that are null": (("tools", "[0]", ""), {**SEARCHING, "tools": None}, "web_search_options"),
    "a function of the legacy form": (("tools", "[0]", ".name"), LEGACY, "functions[0].name"),
    "the choice in the legacy form": (("tool_choice", "", ""), LEGACY, "function_call"),
    "parallel calls in the legacy form": (("parallel_tool_calls", "", ""), LEGACY, "functions"),
    "another parameter in the legacy form": (("top_p", "", ""), LEGACY, "top_p"),
    "a name that both have": (("stop", "[0]", ""), {"stop": ["a"]}, "stop[0]"),
}


@pytest.mark.parametrize(("param", "body", "expected"), NAMES.values(), ids=NAMES)
def test_parameters_have_the_clients_names(param: tuple[str, str, str], body: Json, expected: str) -> None:
    assert "".join(PARAM_NAMES.find(*param, body)) == expected
