"""Lifts Chat Completions requests to turns."""

from typing import Any

import pytest

from translation.chat.client.lift import lift
from translation.chat.client.schema import validate
from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn

SCHEMA: Json = {"type": "object", "properties": {}}
PLACE: Json = {"type": "approximate", "approximate": {"city": "Rome"}}


def turn_of(*, relayed: bool = False, **more: Any) -> Turn:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **more}
    validate(body)
    return lift(body, relayed=relayed)


def test_a_plain_request_has_no_other_parameters() -> None:
    assert turn_of() == Turn(
        model="m",
        items=[{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        tools=[],
        stream=False,
    )


FIELDS: dict[str, tuple[Json, Json]] = {
    "a stream": ({"stream": True}, {"stream": True}),
    "the limit": ({"max_completion_tokens": 5}, {"max_output_tokens": 5}),
    "the limit by its old name": ({"max_tokens": 5}, {"max_output_tokens": 5}),
    "one limit given twice": (
        {"max_tokens": 5, "max_completion_tokens": 5},
        {"max_output_tokens": 5, "losses": ()},
    ),
    "two limits": (
        {"max_tokens": 5, "max_completion_tokens": 6},
        {"max_output_tokens": 6, "losses": (Loss("max_tokens", "dropped"),)},
    ),
    "shared parameters, nulls left out": (
        {"temperature": 0.5, "seed": 3, "n": 2, "logit_bias": {"1": 2}, "store": False, "user": None, "metadata": {}},
        {"sampling": {"temperature": 0.5, "seed": 3, "n": 2, "logit_bias": {"1": 2}, "store": False, "metadata": {}}},
    ),
    "logprobs": ({"logprobs": True, "top_logprobs": 2}, {"sampling": {"logprobs": True, "top_logprobs": 2}}),
    "one stop string": ({"stop": "x"}, {"sampling": {"stop": ["x"]}}),
    "stop strings": ({"stop": ["x", "y"]}, {"sampling": {"stop": ["x", "y"]}}),
    "no stop strings": ({"stop": []}, {"sampling": {}}),
    "verbosity": ({"verbosity": "low"}, {"verbosity": "low"}),
    "effort": ({"reasoning_effort": "high"}, {"reasoning": {"effort": "high"}}),
    "the thinking extension": ({"thinking": False}, {"thinking": False, "reasoning": None}),
    "OpenRouter's reasoning": (
        {"reasoning": {"max_tokens": 9, "effort": "low", "summary": "auto", "enabled": True, "exclude": None}},
        {"reasoning": {"max_tokens": 9, "effort": "low", "summary": "auto"}, "thinking": True, "losses": ()},
    ),
    "reasoning given twice in the same way": (
        {"reasoning": {"effort": "low", "enabled": True}, "reasoning_effort": "low", "thinking": True},
        {"reasoning": {"effort": "low"}, "thinking": True, "losses": ()},
    ),
    "thinking, turned on by an object": ({"thinking": {"type": "enabled"}}, {"thinking": True, "losses": ()}),
    "thinking, turned off by an object": ({"thinking": {"type": "disabled"}}, {"thinking": False, "losses": ()}),
    "thinking that adapts": ({"thinking": {"type": "adaptive"}}, {"thinking": True, "losses": ()}),
    "thinking of an unknown type": (
        {"thinking": {"type": "auto"}},
        {"thinking": None, "losses": (Loss("thinking.type", "dropped"),)},
    ),
    "a budget beside thinking": (
        {"thinking": {"type": "enabled", "budget_tokens": 9, "keep": "all"}},
        {"thinking": True, "reasoning": {"max_tokens": 9}, "losses": (Loss("thinking.keep", "dropped"),)},
    ),
    "a budget of no thinking": (
        {"thinking": {"type": "disabled", "budget_tokens": 9}},
        {"thinking": False, "reasoning": None, "losses": (Loss("thinking.budget_tokens", "dropped"),)},
    ),
    "two budgets": (
        {"thinking": {"type": "enabled", "budget_tokens": 9}, "reasoning": {"max_tokens": 5}},
        {"thinking": True, "reasoning": {"max_tokens": 5}, "losses": (Loss("thinking.budget_tokens", "dropped"),)},
    ),
    "reasoning given twice": (
        {
            "reasoning": {"effort": "low", "enabled": True, "exclude": True},
            "reasoning_effort": "high",
            "thinking": False,
        },
        {
            "reasoning": {"effort": "high"},
            "thinking": False,
            "losses": tuple(Loss(f"reasoning.{key}", "dropped") for key in ("exclude", "enabled", "effort")),
        },
    ),
    "text as the format": ({"response_format": {"type": "text"}}, {"text_format": None}),
    "a JSON object as the format": (
        {"response_format": {"type": "json_object"}},
        {"text_format": {"type": "json_object"}},
    ),
    "a JSON schema as the format, flat": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": None}}},
        {"text_format": {"type": "json_schema", "name": "n", "schema": SCHEMA}},
    ),
    "functions, flat, and strict only if they say so": (
        {
            "tools": [
                {"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}},
                {"type": "function", "function": {"name": "g", "description": None}},
                {"type": "function", "function": {"name": "h", "strict": None}},
            ],
            "parallel_tool_calls": True,
        },
        {
            "tools": [
                {"type": "function", "name": "f", "parameters": SCHEMA, "strict": True},
                {"type": "function", "name": "g", "strict": False},
                {"type": "function", "name": "h", "strict": False},
            ],
            "parallel_tool_calls": True,
        },
    ),
    "custom tools, their grammar flat": (
        {
            "tools": [
                {"type": "custom", "custom": {"name": "c"}},
                {"type": "custom", "custom": {"name": "d", "format": {"type": "text"}}},
                {
                    "type": "custom",
                    "custom": {
                        "name": "e",
                        "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}},
                    },
                },
            ]
        },
        {
            "tools": [
                {"type": "custom", "name": "c"},
                {"type": "custom", "name": "d", "format": {"type": "text"}},
                {"type": "custom", "name": "e", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
            ]
        },
    ),
    "web search as the hosted tool it is": (
        {"web_search_options": {"search_context_size": "low", "user_location": PLACE}},
        {
            "tools": [
                {
                    "type": "web_search",
                    "search_context_size": "low",
                    "user_location": {"type": "approximate", "city": "Rome"},
                }
            ]
        },
    ),
    "web search without options": ({"web_search_options": {}}, {"tools": [{"type": "web_search"}]}),
    "a tool choice in a word": ({"tool_choice": "none"}, {"tool_choice": "none"}),
    "a named function": (
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tool_choice": {"type": "function", "name": "f"}},
    ),
    "a named custom tool": (
        {"tool_choice": {"type": "custom", "custom": {"name": "f"}}},
        {"tool_choice": {"type": "custom", "name": "f"}},
    ),
    "allowed tools": (
        {
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
            }
        },
        {
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "f"}],
            }
        },
    ),
    "the old functions, which are called one at a time": (
        {"functions": [{"name": "f", "parameters": SCHEMA}], "function_call": {"name": "f"}},
        {
            "tools": [{"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}],
            "tool_choice": {"type": "function", "name": "f"},
            "parallel_tool_calls": False,
        },
    ),
    "the old choice in a word": (
        {"functions": [{"name": "f"}], "function_call": "auto"},
        {"tool_choice": "auto"},
    ),
    "tools win over the old functions": (
        {"functions": [{"name": "f"}], "tools": [{"type": "function", "function": {"name": "g"}}]},
        {"tools": [{"type": "function", "name": "g", "strict": False}], "losses": (Loss("functions", "dropped"),)},
    ),
    "what the endpoint does not know, as it is": (
        {"top_k": 3, "provider": {"order": ["x"]}, "moderation": None},
        {"extra": {"top_k": 3, "provider": {"order": ["x"]}}},
    ),
    "what steers only the reply is not passed on": (
        {"stream": True, "stream_options": {"include_usage": True}, "extensions": True},
        {"extra": {}, "losses": ()},
    ),
    "padding of a stream is done here": (
        {"stream": True, "stream_options": {"include_obfuscation": True}},
        {"stream": True, "extra": {}, "losses": ()},
    ),
    "a prediction is lost": (
        {"prediction": {"type": "content", "content": "x"}},
        {"losses": (Loss("prediction", "dropped"),)},
    ),
    "a voice without audio is lost": (
        {"audio": {"format": "wav", "voice": "alloy"}, "modalities": ["text"]},
        {"losses": (Loss("audio", "dropped"),)},
    ),
}


@pytest.mark.parametrize(("given", "expected"), FIELDS.values(), ids=FIELDS)
def test_each_parameter_finds_its_place(given: Json, expected: Json) -> None:
    turn = turn_of(**given)
    assert {name: getattr(turn, name) for name in expected} == expected


def test_audio_output_is_refused_by_name() -> None:
    with pytest.raises(Unrepresentable) as refused:
        turn_of(modalities=["text", "audio"], audio={"format": "wav", "voice": "alloy"})
    assert refused.value.param == "modalities"


def test_audio_output_may_be_relayed() -> None:
    assert turn_of(relayed=True, modalities=["text", "audio"]).model == "m"


@pytest.mark.parametrize(
    ("kind", "inner"),
    [
        ("function", {"name": "f", "type": "mcp", "server_label": "own", "server_url": "http://127.0.0.1/"}),
        ("custom", {"name": "f", "type": "mcp", "server_label": "own"}),
    ],
)
def test_a_type_inside_a_tool_makes_no_tool_of_another_kind(kind: str, inner: Json) -> None:
    (tool,) = turn_of(tools=[{"type": kind, kind: inner}]).tools
    assert tool["type"] == kind


def test_a_type_inside_the_legacy_functions_and_the_search_makes_no_tool_of_another_kind() -> None:
    smuggled = {"type": "mcp", "server_label": "own"}
    assert [tool["type"] for tool in turn_of(functions=[{"name": "f", **smuggled}]).tools] == ["function"]
    assert [tool["type"] for tool in turn_of(web_search_options=smuggled).tools] == ["web_search"]
