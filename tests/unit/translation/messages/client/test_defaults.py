"""An operator's defaults, which have the names of OpenAI's APIs, in requests of the Messages API."""

from typing import Any

import pytest

from translation.messages.client.defaults import add_defaults
from translation.representation.json_types import Json

LIMIT = 2000
TOOLS: Json = {"tools": [{"name": "f", "input_schema": {"type": "object"}}]}


def added(defaults: Json, body: Json) -> Json:
    """Returns the parameters that the defaults add to a body, or change in it."""
    filled = add_defaults({"max_tokens": LIMIT, **body}, defaults)
    assert filled.pop("max_tokens") == LIMIT
    return {name: value for name, value in filled.items() if name not in body or body[name] != value}


@pytest.mark.parametrize(
    ("defaults", "body", "parameters"),
    [
        ({}, {}, {}),
        ({"temperature": 0.5}, {}, {"temperature": 0.5}),
        ({"temperature": 0.5}, {"temperature": None}, {"temperature": 0.5}),
        ({"temperature": 0.5}, {"temperature": 1}, {}),
        ({"max_tokens": 5, "max_output_tokens": 5, "verbosity": "low"}, {}, {}),
        ({"stop": "."}, {}, {"stop_sequences": ["."]}),
        ({"stop": [".", "!"]}, {}, {"stop_sequences": [".", "!"]}),
        ({"stop": "."}, {"stop_sequences": []}, {}),
        ({"service_tier": "default"}, {}, {"service_tier": "standard_only"}),
        ({"service_tier": "auto"}, {}, {"service_tier": "auto"}),
        ({"user": "u"}, {}, {"metadata": {"user_id": "u"}}),
        ({"user": "u"}, {"metadata": {"user_id": None}}, {"metadata": {"user_id": "u"}}),
        ({"user": "u"}, {"metadata": {"user_id": "own"}}, {}),
    ],
)
def test_a_default_has_the_name_and_form_of_the_api(defaults: Json, body: Json, parameters: Json) -> None:
    assert added(defaults, body) == parameters


@pytest.mark.parametrize(
    ("defaults", "body", "parameters"),
    [
        ({"thinking": False}, {}, {"thinking": {"type": "disabled"}}),
        ({"thinking": True}, {}, {"thinking": {"type": "adaptive"}}),
        ({"thinking": {"type": "adaptive"}}, {}, {"thinking": {"type": "adaptive"}}),
        ({"thinking": {"type": "enabled"}}, {}, {"thinking": {"type": "adaptive"}}),
        ({"thinking": {"type": "enabled", "keep": "all"}}, {}, {"thinking": {"type": "adaptive"}}),
        ({"thinking": {"type": "disabled", "keep": "all"}}, {}, {"thinking": {"type": "disabled"}}),
        ({"thinking": {"type": "auto"}}, {}, {}),
        ({"thinking": {}}, {}, {}),
        ({"thinking": {"type": "between_tools", "keep": "all"}}, {}, {"thinking": {"type": "between_tools"}}),
        ({"thinking": {"type": "enabled", "budget_tokens": 99_999}}, {}, {"thinking": {"type": "adaptive"}}),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 1500, "display": "omitted", "keep": "all"}},
            {},
            {"thinking": {"type": "enabled", "budget_tokens": 1500, "display": "omitted"}},
        ),
        (
            {"thinking": {"type": "adaptive", "display": "summarized"}},
            {},
            {"thinking": {"type": "adaptive", "display": "summarized"}},
        ),
        ({"thinking": {"type": "adaptive", "display": 5}}, {}, {"thinking": {"type": "adaptive"}}),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 1500}, "reasoning": {"max_tokens": 100}},
            {},
            {"thinking": {"type": "enabled", "budget_tokens": 100}},
        ),
        ({"thinking": {"type": "enabled"}, "reasoning_effort": "none"}, {}, {"thinking": {"type": "disabled"}}),
        ({"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}, {}),
        ({"thinking": True}, {"thinking": {"type": "disabled"}}, {}),
        ({"reasoning_effort": "none"}, {}, {"thinking": {"type": "disabled"}}),
        ({"reasoning_effort": "minimal"}, {}, {"output_config": {"effort": "low"}}),
        ({"reasoning": {"effort": "high"}}, {}, {"output_config": {"effort": "high"}}),
        ({"reasoning_effort": "high"}, {"output_config": {"effort": "low"}}, {}),
        ({"reasoning_effort": "high"}, {"thinking": {"type": "disabled"}}, {}),
        ({"reasoning": {"max_tokens": 100}}, {}, {"thinking": {"type": "enabled", "budget_tokens": 100}}),
        ({"reasoning": {"max_tokens": LIMIT}}, {}, {"thinking": {"type": "adaptive"}}),
    ],
)
def test_a_default_for_thinking_is_an_effort_or_a_budget(defaults: Json, body: Json, parameters: Json) -> None:
    assert added(defaults, body) == parameters


@pytest.mark.parametrize(
    ("defaults", "choice"),
    [
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": {"type": "function", "name": "f"}}, {"type": "tool", "name": "f"}),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, {"type": "tool", "name": "f"}),
        ({"tool_choice": {"type": "web_search"}}, None),
        ({"parallel_tool_calls": True}, None),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"parallel_tool_calls": False, "tool_choice": "required"},
            {"type": "any", "disable_parallel_tool_use": True},
        ),
    ],
)
def test_a_default_choice_is_for_requests_with_tools(defaults: Json, choice: Any) -> None:
    assert added(defaults, TOOLS).get("tool_choice") == choice
    assert "tool_choice" not in added(defaults, {})


def test_a_budget_without_a_limit_of_the_reply_is_a_budget() -> None:
    filled = add_defaults({}, {"reasoning": {"max_tokens": 100}})
    assert filled == {"thinking": {"type": "enabled", "budget_tokens": 100}}
