"""Turns as chat request bodies: everything but the messages."""

from dataclasses import replace
from typing import Any

import pytest
from openai.types.chat import ChatCompletionToolChoiceOptionParam, ChatCompletionToolUnionParam
from openai.types.chat.completion_create_params import CompletionCreateParams
from pydantic import TypeAdapter

from translation.chat.client.lift import lift
from translation.chat.upstream.lower import lower
from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss, UnknownKey
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn

USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
TURN = Turn(model="m", items=[USER], stream=False)
PLAIN = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
OPENROUTER = Profile(
    effort_field="reasoning", thinking_switch="reasoning_enabled", extra_params=frozenset({"provider"})
)
BY_TYPE = Profile(thinking_switch="thinking_type")
VLLM = Profile(thinking_switch="chat_template_kwargs", extra_params=frozenset({"chat_template_kwargs", "top_k"}))

F = {"type": "function", "name": "f", "parameters": {"type": "object", "$defs": {}}, "strict": True}
G = {"type": "function", "name": "g", "description": "does g", "parameters": None, "strict": None}
P = {"type": "custom", "name": "p"}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: A"}

CHAT_F = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": {}, "$defs": {}}, "strict": True},
}
CHAT_G = {"type": "function", "function": {"name": "g", "description": "does g"}}
CHAT_P = {"type": "custom", "custom": {"name": "p"}}

SCHEMA = {"type": "object", "$defs": {"a": {}}}

CASES: dict[str, tuple[dict[str, Any], Profile, Json]] = {
    "nothing but the input": ({}, DEFAULT_PROFILE, {}),
    "a stream always asks for usage": (
        {"stream": True},
        DEFAULT_PROFILE,
        {"stream": True, "stream_options": {"include_usage": True}},
    ),
    "instructions come first": (
        {"instructions": "be brief"},
        DEFAULT_PROFILE,
        {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]},
    ),
    "sampling parameters keep their names": (
        {
            "sampling": {
                "temperature": 0.5,
                "top_p": 0.9,
                "presence_penalty": 1,
                "frequency_penalty": -1,
                "seed": 7,
                "stop": ["x"],
                "logit_bias": {"1": 2},
                "service_tier": "flex",
                "metadata": {"a": "b"},
                "user": "u",
                "safety_identifier": "s",
                "prompt_cache_key": "k",
                "prompt_cache_retention": "24h",
            }
        },
        DEFAULT_PROFILE,
        {
            "temperature": 0.5,
            "top_p": 0.9,
            "presence_penalty": 1,
            "frequency_penalty": -1,
            "seed": 7,
            "stop": ["x"],
            "logit_bias": {"1": 2},
            "service_tier": "flex",
            "metadata": {"a": "b"},
            "user": "u",
            "safety_identifier": "s",
            "prompt_cache_key": "k",
            "prompt_cache_retention": "24h",
        },
    ),
    "one choice is what chat gives anyway": ({"sampling": {"n": 1}}, DEFAULT_PROFILE, {}),
    "nothing is stored upstream": ({"sampling": {"store": False}}, DEFAULT_PROFILE, {}),
    "logprobs": ({"sampling": {"logprobs": True}}, DEFAULT_PROFILE, {"logprobs": True}),
    "rivals ask for logprobs too": (
        {"sampling": {"top_logprobs": 3}},
        DEFAULT_PROFILE,
        {"logprobs": True, "top_logprobs": 3},
    ),
    "no rivals without logprobs": ({"sampling": {"top_logprobs": 0}}, DEFAULT_PROFILE, {}),
    "no rivals with logprobs": (
        {"sampling": {"logprobs": True, "top_logprobs": 0}},
        DEFAULT_PROFILE,
        {"logprobs": True, "top_logprobs": 0},
    ),
    "the output limit": ({"max_output_tokens": 9}, DEFAULT_PROFILE, {"max_tokens": 9}),
    "the output limit under its newer name": (
        {"max_output_tokens": 9},
        Profile(max_tokens_field="max_completion_tokens"),
        {"max_completion_tokens": 9},
    ),
    "a JSON schema is nested": (
        {"text_format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True, "description": None}},
        DEFAULT_PROFILE,
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}},
    ),
    "a JSON object": (
        {"text_format": {"type": "json_object"}},
        DEFAULT_PROFILE,
        {"response_format": {"type": "json_object"}},
    ),
    "plain text needs no format": ({"text_format": {"type": "text"}}, DEFAULT_PROFILE, {}),
    "verbosity": ({"verbosity": "low"}, DEFAULT_PROFILE, {"verbosity": "low"}),
    "effort": ({"reasoning": {"effort": "low", "summary": None}}, DEFAULT_PROFILE, {"reasoning_effort": "low"}),
    "effort and budget in one object": (
        {"reasoning": {"effort": "low", "max_tokens": 9}},
        OPENROUTER,
        {"reasoning": {"effort": "low", "max_tokens": 9}},
    ),
    "an empty reasoning object is not sent": ({"reasoning": {"effort": None}}, OPENROUTER, {}),
    "no effort at an upstream that thinks by its template": (
        {"reasoning": {"effort": "none"}, "extra": {"chat_template_kwargs": {"a": 1}}},
        VLLM,
        {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": False, "a": 1}},
    ),
    "no effort, and arguments of the template that say otherwise": (
        {"reasoning": {"effort": "none"}, "extra": {"chat_template_kwargs": {"enable_thinking": True}}},
        VLLM,
        {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}},
    ),
    "no effort, and thinking that is on": (
        {"reasoning": {"effort": "none"}, "thinking": True},
        VLLM,
        {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}},
    ),
    "no effort, where only the switch says it": (
        {"reasoning": {"effort": "none"}},
        Profile(effort_field="none", thinking_switch="thinking_type"),
        {"thinking": {"type": "disabled"}},
    ),
    "no effort, where an object has it and the template the switch": (
        {"reasoning": {"effort": "none"}},
        Profile(effort_field="reasoning", thinking_switch="chat_template_kwargs"),
        {"reasoning": {"effort": "none"}, "chat_template_kwargs": {"enable_thinking": False}},
    ),
    "some effort at an upstream that thinks by its template": (
        {"reasoning": {"effort": "low"}},
        VLLM,
        {"reasoning_effort": "low"},
    ),
    "thinking beside effort": (
        {"reasoning": {"effort": "low"}, "thinking": True},
        OPENROUTER,
        {"reasoning": {"effort": "low", "enabled": True}},
    ),
    "thinking alone": ({"thinking": False}, OPENROUTER, {"reasoning": {"enabled": False}}),
    "thinking as a type": ({"thinking": True}, BY_TYPE, {"thinking": {"type": "enabled"}}),
    "no thinking as a type": ({"thinking": False}, BY_TYPE, {"thinking": {"type": "disabled"}}),
    "no effort, and a type": (
        {"reasoning": {"effort": "none"}},
        BY_TYPE,
        {"reasoning_effort": "none", "thinking": {"type": "disabled"}},
    ),
    "thinking as the chat template's switch": (
        {"thinking": False, "extra": {"chat_template_kwargs": {"a": 1}}},
        VLLM,
        {"chat_template_kwargs": {"a": 1, "enable_thinking": False}},
    ),
    "parameters the upstream has beyond the API": ({"extra": {"top_k": 5}}, VLLM, {"top_k": 5}),
    "no tools": ({"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}, DEFAULT_PROFILE, {}),
    "no tools, and none are to be used": ({"tool_choice": "none"}, DEFAULT_PROFILE, {}),
    "a tool that is not strict, as chat's tools are by default": (
        {"tools": [{**G, "strict": False}]},
        DEFAULT_PROFILE,
        {"tools": [CHAT_G]},
    ),
    "tools are nested, strict as given, nulls left out": (
        {"tools": [F, G], "tool_choice": "auto", "parallel_tool_calls": False},
        DEFAULT_PROFILE,
        {"tools": [CHAT_F, CHAT_G], "tool_choice": "auto", "parallel_tool_calls": False},
    ),
    "a tool chosen by name": (
        {"tools": [F], "tool_choice": {"type": "function", "name": "f"}},
        DEFAULT_PROFILE,
        {"tools": [CHAT_F], "tool_choice": {"type": "function", "function": {"name": "f"}}},
    ),
    "that thinking stays in the text": (
        {},
        Profile(raw_text_field="reasoning_format", parsing_format="direct_response"),
        {"reasoning_format": "none"},
    ),
    "thinking as its server separates it": (
        {},
        Profile(raw_text_field="reasoning_format", parsing_format="leading_think_tags"),
        {},
    ),
    "custom tools": (
        {"tools": [P, {**P, "name": "q", "format": GRAMMAR}], "tool_choice": {"type": "custom", "name": "p"}},
        DEFAULT_PROFILE,
        {
            "tools": [
                CHAT_P,
                {
                    "type": "custom",
                    "custom": {
                        "name": "q",
                        "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: A"}},
                    },
                },
            ],
            "tool_choice": {"type": "custom", "custom": {"name": "p"}},
        },
    ),
}


@pytest.mark.parametrize(("params", "profile", "expected"), CASES.values(), ids=CASES)
def test_parameters_of_a_turn_are_sent_in_chat(params: dict[str, Any], profile: Profile, expected: Json) -> None:
    body, losses = lower(replace(TURN, **params), profile)
    assert body == PLAIN | expected
    assert losses == ()
    assert list(body)[:2] == ["model", "messages"]
    TypeAdapter(CompletionCreateParams).validate_python({**body, "tools": []})
    TypeAdapter(list[ChatCompletionToolUnionParam]).validate_python(body.get("tools", []), strict=True)
    if "tool_choice" in body:
        TypeAdapter(ChatCompletionToolChoiceOptionParam).validate_python(body["tool_choice"], strict=True)


LOSSES: dict[str, tuple[dict[str, Any], Profile, Json, list[str]]] = {
    "storing": ({"sampling": {"store": True}}, DEFAULT_PROFILE, {}, ["store=dropped"]),
    "an unknown parameter": ({"extra": {"zoom": 1, "null": None}}, DEFAULT_PROFILE, {}, ["zoom=dropped"]),
    "a parameter that would overwrite another": (
        {"extra": {"user": "other"}, "sampling": {"user": "u"}},
        Profile(extra_params=frozenset({"user"})),
        {"user": "u"},
        ["user=dropped"],
    ),
    "the length of a summary, which chat cannot ask for": (
        {"reasoning": {"effort": "low", "summary": "concise"}},
        DEFAULT_PROFILE,
        {"reasoning_effort": "low"},
        ["reasoning.summary=as auto"],
    ),
    "what the server refuses, though the reply means the same": (
        {
            "sampling": {"metadata": {"a": "b"}, "user": "u", "prompt_cache_key": "k", "store": True},
            "reasoning": {"effort": "low"},
        },
        Profile(refused_params=frozenset({"metadata", "prompt_cache_key", "reasoning_effort", "safety_identifier"})),
        {"user": "u"},
        ["store=dropped", "metadata=dropped", "prompt_cache_key=dropped", "reasoning.effort=dropped"],
    ),
    "effort where there is no word for it": (
        {"reasoning": {"effort": "low"}},
        Profile(effort_field="none"),
        {},
        ["reasoning.effort=dropped"],
    ),
    "a budget where there is no word for it": (
        {"reasoning": {"max_tokens": 9}},
        DEFAULT_PROFILE,
        {},
        ["reasoning.max_tokens=dropped"],
    ),
    "thinking without a switch": ({"thinking": True}, DEFAULT_PROFILE, {}, ["thinking=dropped"]),
    "thinking without a switch that an effort turns on": (
        {"thinking": True, "reasoning": {"effort": "high"}},
        DEFAULT_PROFILE,
        {"reasoning_effort": "high"},
        [],
    ),
    "thinking without a switch that an effort turns off": (
        {"thinking": False, "reasoning": {"effort": "none"}},
        DEFAULT_PROFILE,
        {"reasoning_effort": "none"},
        [],
    ),
    "thinking without a switch, against the effort": (
        {"thinking": False, "reasoning": {"effort": "high"}},
        DEFAULT_PROFILE,
        {"reasoning_effort": "high"},
        ["thinking=dropped"],
    ),
    "thinking with a budget where an effort is all there is": (
        {"thinking": True, "reasoning": {"effort": "high", "max_tokens": 2000}},
        DEFAULT_PROFILE,
        {"reasoning_effort": "high"},
        ["reasoning.max_tokens=dropped"],
    ),
    "thinking with a budget and without an effort": (
        {"thinking": True, "reasoning": {"max_tokens": 2048}},
        DEFAULT_PROFILE,
        {"reasoning_effort": "low"},
        ["reasoning.max_tokens=as effort low"],
    ),
    "thinking with a budget and a switch": (
        {"thinking": True, "reasoning": {"max_tokens": 2048}},
        Profile(thinking_switch="chat_template_kwargs"),
        {"chat_template_kwargs": {"enable_thinking": True}},
        ["reasoning.max_tokens=dropped"],
    ),
    "thinking where there is no word for an effort": (
        {"thinking": True, "reasoning": {"effort": "high"}},
        Profile(effort_field="none"),
        {},
        ["reasoning.effort=dropped", "thinking=dropped"],
    ),
    "thinking that a budget turns on": (
        {"thinking": True, "reasoning": {"max_tokens": 2000}},
        Profile(effort_field="reasoning"),
        {"reasoning": {"max_tokens": 2000}},
        [],
    ),
    "keys of tools that chat does not have": (
        {"tools": [{**F, "defer_loading": True, "async": False}, {**G, "defer_loading": True}]},
        DEFAULT_PROFILE,
        {"tools": [CHAT_F, CHAT_G]},
        ["tools.defer_loading=dropped"],
    ),
    "allowed tools leave the others out": (
        {
            "tools": [F, G],
            "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]},
        },
        DEFAULT_PROFILE,
        {"tools": [CHAT_G], "tool_choice": "required"},
        ["tool_choice=allowed_tools filtered"],
    ),
    "no tool allowed": (
        {"tools": [F], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}},
        DEFAULT_PROFILE,
        {},
        ["tool_choice=allowed_tools filtered"],
    ),
}


@pytest.mark.parametrize(("params", "profile", "expected", "losses"), LOSSES.values(), ids=LOSSES)
def test_unsupported_parameters_are_reported(
    params: dict[str, Any], profile: Profile, expected: Json, losses: list[str]
) -> None:
    lowered = lower(replace(TURN, **params), profile)
    assert lowered.body == PLAIN | expected
    assert list(map(str, lowered.losses)) == losses


def test_unknown_keys_are_lost_unless_the_body_has_their_object() -> None:
    schema = {"type": "object", "x_kept": 1}
    asking = {**USER, "x_lost": 1}
    keys = [UnknownKey("input[0].x_lost", "x_lost", asking), UnknownKey("tools[0].parameters.x_kept", "x_kept", schema)]
    turn = replace(TURN, items=[asking], tools=[{**F, "parameters": schema}], unknown_keys=keys)
    lowered = lower(turn, DEFAULT_PROFILE)
    assert lowered.body["tools"][0]["function"]["parameters"]["x_kept"] == 1
    assert lowered.losses == (Loss("input[0].x_lost", "dropped"),)


ALLOW_X = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "x"}]}

REFUSED: dict[str, tuple[dict[str, Any], type[InvalidRequest], str]] = {
    "several choices": ({"sampling": {"n": 2}}, Unrepresentable, "n"),
    "an unknown text format": ({"text_format": {"type": "grammar"}}, Unrepresentable, "text.format.type"),
    "nothing at all": ({"items": []}, InvalidRequest, "input"),
    "a tool kind chat does not have": ({"tools": [F, {"type": "mcp"}]}, Unrepresentable, "tools[1]"),
    "a tool without a kind": ({"tools": [{"name": "f"}]}, Unrepresentable, "tools[0]"),
    "an empty tool name": ({"tools": [{**F, "name": ""}]}, InvalidRequest, "tools[0].name"),
    "a tool without a name": ({"tools": [{"type": "function"}]}, InvalidRequest, "tools[0].name"),
    "a tool required where there is none": ({"tool_choice": "required"}, InvalidRequest, "tool_choice"),
    "a tool chosen that is not there": (
        {"tools": [F], "tool_choice": {"type": "function", "name": "x"}},
        InvalidRequest,
        "tool_choice",
    ),
    "a hosted tool chosen": ({"tools": [F], "tool_choice": {"type": "web_search"}}, Unrepresentable, "tool_choice"),
    "a tool allowed that is not there": ({"tools": [F], "tool_choice": ALLOW_X}, InvalidRequest, "tool_choice.tools"),
}


@pytest.mark.parametrize(("params", "error", "param"), REFUSED.values(), ids=REFUSED)
def test_parameters_without_a_chat_form_are_refused_by_name(
    params: dict[str, Any], error: type[InvalidRequest], param: str
) -> None:
    with pytest.raises(error) as refused:
        lower(replace(TURN, **params), DEFAULT_PROFILE)
    assert refused.value.param == param


ROUND_TRIPS: dict[str, Json] = {
    "a conversation with calls": {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "image_url", "image_url": {"url": "https://e.example/u"}},
                ],
            },
            {
                "role": "assistant",
                "content": "let me see",
                "reasoning_content": "hm",
                "tool_calls": [
                    {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "y", "type": "custom", "custom": {"name": "p", "input": "in"}},
                ],
            },
            {"role": "tool", "tool_call_id": "x", "content": "1"},
            {"role": "tool", "tool_call_id": "y", "content": "2"},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "thanks"},
        ],
        "tools": [CHAT_F, CHAT_P],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": True,
    },
    "all parameters": {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0,
        "top_p": 1,
        "seed": 7,
        "stop": ["x", "y"],
        "logprobs": True,
        "top_logprobs": 2,
        "max_tokens": 9,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
        "verbosity": "low",
        "reasoning_effort": "high",
        "user": "u",
        "stream": True,
        "stream_options": {"include_usage": True},
    },
}


@pytest.mark.parametrize("body", ROUND_TRIPS.values(), ids=ROUND_TRIPS)
def test_a_chat_request_is_unchanged_by_lift_and_lower(body: Json) -> None:
    lowered = lower(lift(body), DEFAULT_PROFILE)
    assert lowered.body == body
    assert lowered.losses == ()
