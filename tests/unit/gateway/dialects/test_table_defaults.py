"""Every default of a model is accepted with a request of every API."""

from typing import Any

import pytest

from gateway.dialects.chat.endpoint import CHAT
from gateway.dialects.gemini.endpoint import GEMINI
from gateway.dialects.messages.endpoint import COUNTING, MESSAGES
from gateway.dialects.ollama.endpoint import OLLAMA_CHAT
from gateway.dialects.responses.endpoint import RESPONSES
from gateway.replies.endpoints import Endpoint
from translation.representation.json_types import Json
from translation.representation.turn import Turn

HELLO: list[Json] = [{"role": "user", "content": "Hi"}]
SCHEMA: Json = {"type": "object", "properties": {}}
FUNCTION: Json = {"name": "f", "parameters": SCHEMA}

REQUESTS: dict[str, tuple[Endpoint, Json]] = {
    "chat": (CHAT, {"messages": HELLO, "tools": [{"type": "function", "function": FUNCTION}]}),
    "responses": (RESPONSES, {"input": "Hi", "tools": [{"type": "function", **FUNCTION}]}),
    "messages": (
        MESSAGES,
        {"messages": HELLO, "max_tokens": 5000, "tools": [{"name": "f", "input_schema": SCHEMA}]},
    ),
    "counting": (COUNTING, {"messages": HELLO}),
    "gemini": (
        GEMINI,
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "tools": [{"functionDeclarations": [FUNCTION]}]},
    ),
    "ollama": (OLLAMA_CHAT, {"messages": HELLO, "tools": [{"type": "function", "function": FUNCTION}]}),
}

DEFAULTS: dict[str, Json] = {
    "a hot temperature": {"temperature": 1.2},
    "no thinking": {"reasoning_effort": "none"},
    "no thinking, in the Responses API's words": {"reasoning": {"effort": "none"}},
    "little thinking": {"reasoning_effort": "minimal"},
    "much thinking": {"reasoning_effort": "xhigh"},
    "a budget": {"reasoning": {"max_tokens": 500}},
    "a budget beyond the limit": {"reasoning": {"max_tokens": 50_000}},
    "a switch that is on": {"thinking": True},
    "a switch that is off": {"thinking": False},
    "the vendors' object": {"thinking": {"type": "enabled"}},
    "the vendors' object with a budget": {"thinking": {"type": "enabled", "budget_tokens": 500, "keep": "all"}},
    "the vendors' object with a budget beyond the limit": {"thinking": {"type": "enabled", "budget_tokens": 99_999}},
    "the vendors' object of another type": {"thinking": {"type": "auto"}},
    "one stop sequence": {"stop": "END"},
    "stop sequences": {"stop": ["END"]},
    "a flexible tier": {"service_tier": "flex"},
    "the default tier": {"service_tier": "default"},
    "the priority tier": {"service_tier": "priority"},
    "top_k that is off": {"top_k": -1},
    "top_k": {"top_k": 20},
    "a choice of tools": {"tool_choice": "auto"},
    "a forced tool": {"tool_choice": "required"},
    "one call at a time": {"parallel_tool_calls": False},
    "a limit": {"max_output_tokens": 100},
    "chat's limit": {"max_completion_tokens": 100},
    "a user": {"user": "ada"},
    "metadata": {"metadata": {"a": "b"}},
    "a verbosity": {"verbosity": "low"},
    "penalties": {"frequency_penalty": 0.5, "presence_penalty": -0.5, "repetition_penalty": 1.1},
    "an upstream's own": {"num_ctx": 32768, "chat_template_kwargs": {"a": 1}, "provider": {"order": ["x"]}},
}


def lift_with(defaults: Json, endpoint: Endpoint, request: Json) -> Turn:
    body = {"model": "m", **request}
    if endpoint.request.normalize is not None:
        body = endpoint.request.normalize(body)
    endpoint.request.validate(body)
    filled = endpoint.request.add_defaults(body, defaults)
    (endpoint.request.validate_merged or endpoint.request.validate)(filled)
    return endpoint.request.lift(filled)


@pytest.mark.parametrize("defaults", DEFAULTS.values(), ids=DEFAULTS)
@pytest.mark.parametrize(("endpoint", "request_body"), REQUESTS.values(), ids=REQUESTS)
def test_a_default_is_accepted_in_every_api(endpoint: Endpoint, request_body: Json, defaults: Json) -> None:
    assert lift_with(defaults, endpoint, request_body)


MEANT: dict[str, tuple[Json, Json, Json]] = {
    "a hot temperature": ({"temperature": 1.2}, {}, {"sampling": {"temperature": 1.2}}),
    "no thinking": ({"reasoning_effort": "none"}, {}, {"thinking": False, "reasoning": None}),
    "no thinking is no loss": ({"reasoning_effort": "none"}, {}, {"losses": ()}),
    "an effort beside disabled thinking": (
        {"reasoning_effort": "low"},
        {"thinking": {"type": "disabled"}},
        {"thinking": False, "losses": ()},
    ),
    "little thinking": ({"reasoning_effort": "minimal"}, {}, {"reasoning": {"effort": "low"}}),
    "a budget": ({"reasoning": {"max_tokens": 500}}, {}, {"thinking": True, "reasoning": {"max_tokens": 500}}),
    "a budget beyond the limit": ({"reasoning": {"max_tokens": 5000}}, {}, {"thinking": True, "reasoning": None}),
    "a budget of the client": (
        {"reasoning": {"max_tokens": 500}},
        {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        {"reasoning": {"max_tokens": 2000}},
    ),
    "one stop sequence": ({"stop": "END"}, {}, {"sampling": {"stop": ["END"]}}),
    "a flexible tier": ({"service_tier": "flex"}, {}, {"sampling": {"service_tier": "flex"}}),
    "the default tier": ({"service_tier": "default"}, {}, {"sampling": {"service_tier": "default"}}),
    "top_k that is off": ({"top_k": -1}, {}, {"extra": {"top_k": -1}}),
    "a user": ({"user": "ada"}, {"metadata": {"user_id": None}}, {"sampling": {"user": "ada"}}),
    "a forced tool": ({"tool_choice": "required"}, {}, {"tool_choice": "required"}),
    "a forced tool by name": (
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        {},
        {"tool_choice": {"type": "function", "name": "f"}},
    ),
    "a choice that is given": ({"tool_choice": "required"}, {"tool_choice": {"type": "auto"}}, {"tool_choice": "auto"}),
    "a choice without tools": ({"tool_choice": "required"}, {"tools": []}, {"tool_choice": None}),
    "one call at a time": (
        {"parallel_tool_calls": False},
        {"tool_choice": {"type": "any"}},
        {"tool_choice": "required", "parallel_tool_calls": False},
    ),
}


@pytest.mark.parametrize(("defaults", "body", "expected"), MEANT.values(), ids=MEANT)
def test_a_default_means_the_same_in_messages(defaults: Json, body: Json, expected: dict[str, Any]) -> None:
    endpoint, request_body = REQUESTS["messages"]
    turn = lift_with(defaults, endpoint, request_body | body)
    assert {name: getattr(turn, name) for name in expected} == expected


BUDGETS: dict[str, tuple[Json, bool | None]] = {
    "an object of OpenRouter": ({"reasoning": {"max_tokens": 500}}, None),
    "the vendors' object": ({"thinking": {"type": "enabled", "budget_tokens": 500}}, True),
    "an object and a switch": ({"reasoning": {"max_tokens": 500}, "thinking": True}, True),
}


@pytest.mark.parametrize("api", REQUESTS)
@pytest.mark.parametrize(("defaults", "thinking"), BUDGETS.values(), ids=BUDGETS)
def test_a_default_budget_is_the_same_in_every_api(defaults: Json, thinking: bool | None, api: str) -> None:
    turn = lift_with(defaults, *REQUESTS[api])
    assert (turn.reasoning or {}).get("max_tokens") == 500
    # Where a budget is a form of thinking, it turns thinking on.
    assert turn.thinking in (thinking, True)
    assert not turn.extra
    assert not turn.losses


def test_an_effort_and_a_budget_count_both_in_gemini() -> None:
    turn = lift_with({"reasoning": {"effort": "xhigh", "max_tokens": 500}}, *REQUESTS["gemini"])
    assert (turn.reasoning, turn.extra, turn.losses) == ({"effort": "high", "max_tokens": 500}, {}, ())


UNNAMED: dict[str, tuple[Json, dict[str, Any]]] = {
    "one call at a time": ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
    "a forced tool": ({"tool_choice": "required"}, {"tool_choice": "required"}),
    "a verbosity": ({"verbosity": "low"}, {"verbosity": "low"}),
    **{
        name: ({name: value}, {"sampling": {name: value}})
        for name, value in {
            "logit_bias": {"1": 2},
            "metadata": {"a": "b"},
            "prompt_cache_key": "k",
            "safety_identifier": "s",
            "user": "ada",
        }.items()
    },
}


@pytest.mark.parametrize("api", ["gemini", "ollama"])
@pytest.mark.parametrize(("defaults", "expected"), UNNAMED.values(), ids=UNNAMED)
def test_a_default_counts_where_the_api_has_no_name_for_it(defaults: Json, expected: dict[str, Any], api: str) -> None:
    turn = lift_with(defaults, *REQUESTS[api])
    assert {name: getattr(turn, name) for name in expected} == expected
    assert (turn.extra, turn.losses) == ({}, ())
