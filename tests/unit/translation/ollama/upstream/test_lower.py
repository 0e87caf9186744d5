"""Turns as bodies of Ollama's chat: everything but the messages."""

from dataclasses import replace
from typing import Any

import pytest

from translation.errors import InvalidRequest, Unrepresentable
from translation.ollama.upstream.lower import lower
from translation.representation.json_types import Json
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn

USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
TURN = Turn(model="qwen3:8b", items=[USER], stream=False)
PLAIN: Json = {
    "model": "qwen3:8b",
    "messages": [{"role": "user", "content": "hi"}],
    "stream": False,
    "truncate": False,
    "shift": False,
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
F = {"type": "function", "name": "f", "description": "does f", "parameters": SCHEMA}
G = {"type": "function", "name": "g", "parameters": None, "strict": None}
OLLAMA_F = {"type": "function", "function": {"name": "f", "description": "does f", "parameters": SCHEMA}}
OLLAMA_G = {"type": "function", "function": {"name": "g", "parameters": {"type": "object", "properties": {}}}}
LEVELS = Profile(thinking_form="adaptive")
PASSING = Profile(
    extra_params=frozenset({"top_k", "repetition_penalty", "num_ctx", "keep_alive", "truncate", "temperature"})
)

CASES: dict[str, tuple[dict[str, Any], Profile, Json]] = {
    "nothing but the input": ({}, DEFAULT_PROFILE, {}),
    "a stream": ({"stream": True}, DEFAULT_PROFILE, {"stream": True}),
    "instructions come first": (
        {"instructions": "be brief"},
        DEFAULT_PROFILE,
        {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]},
    ),
    "sampling is options": (
        {
            "sampling": {
                "temperature": 0,
                "top_p": 0.9,
                "presence_penalty": 1,
                "frequency_penalty": -1,
                "seed": 7,
                "stop": ["x"],
            },
            "max_output_tokens": 50,
        },
        DEFAULT_PROFILE,
        {
            "options": {
                "temperature": 0,
                "top_p": 0.9,
                "presence_penalty": 1,
                "frequency_penalty": -1,
                "seed": 7,
                "stop": ["x"],
                "num_predict": 50,
            }
        },
    ),
    "one choice is every answer": ({"sampling": {"n": 1}}, DEFAULT_PROFILE, {}),
    "probabilities": ({"sampling": {"logprobs": True}}, DEFAULT_PROFILE, {"logprobs": True}),
    "probabilities of rivals ask for both": (
        {"sampling": {"top_logprobs": 2}},
        DEFAULT_PROFILE,
        {"logprobs": True, "top_logprobs": 2},
    ),
    "no probabilities": ({"sampling": {"logprobs": False}}, DEFAULT_PROFILE, {}),
    "what the profile passes on is an option, or beside them": (
        {
            "sampling": {"temperature": 0.5},
            "extra": {
                "top_k": 5,
                "repetition_penalty": 1.1,
                "num_ctx": 8192,
                "keep_alive": "5m",
                "truncate": True,
                "temperature": 1,
            },
        },
        PASSING,
        {
            "options": {"temperature": 0.5, "top_k": 5, "repeat_penalty": 1.1, "num_ctx": 8192},
            "keep_alive": "5m",
            "truncate": True,
        },
    ),
    "nulls are not passed on": ({"extra": {"top_k": None}}, PASSING, {}),
    "plain text is no format": ({"text_format": {"type": "text"}}, DEFAULT_PROFILE, {}),
    "any JSON": ({"text_format": {"type": "json_object"}}, DEFAULT_PROFILE, {"format": "json"}),
    "a schema that is left out": (
        {"text_format": {"type": "json_schema", "name": "a"}},
        DEFAULT_PROFILE,
        {"format": "json"},
    ),
    "a schema": (
        {"text_format": {"type": "json_schema", "name": "a", "schema": SCHEMA, "strict": True}},
        DEFAULT_PROFILE,
        {"format": SCHEMA},
    ),
    "a schema where no tool may be called": (
        {"text_format": {"type": "json_schema", "name": "a", "schema": SCHEMA}, "tools": [F], "tool_choice": "none"},
        DEFAULT_PROFILE,
        {"format": SCHEMA},
    ),
    "tools": ({"tools": [F, G]}, DEFAULT_PROFILE, {"tools": [OLLAMA_F, OLLAMA_G]}),
    "tools to choose from": ({"tools": [F], "tool_choice": "auto"}, DEFAULT_PROFILE, {"tools": [OLLAMA_F]}),
    "calls at once": ({"tools": [F], "parallel_tool_calls": True}, DEFAULT_PROFILE, {"tools": [OLLAMA_F]}),
    "no tools": ({"tools": [], "tool_choice": "auto"}, DEFAULT_PROFILE, {}),
    "no tools, and none wanted": ({"tool_choice": "none"}, DEFAULT_PROFILE, {}),
    "thinking on": ({"thinking": True}, DEFAULT_PROFILE, {"think": True}),
    "thinking off": ({"thinking": False}, DEFAULT_PROFILE, {"think": False}),
    "no effort is no thinking": ({"reasoning": {"effort": "none"}}, DEFAULT_PROFILE, {"think": False}),
    "thinking off, whatever the effort": (
        {"thinking": False, "reasoning": {"effort": "high"}},
        DEFAULT_PROFILE,
        {"think": False},
    ),
    "no word of an effort": ({"reasoning": {"effort": None, "summary": None}}, DEFAULT_PROFILE, {}),
    "a level": ({"reasoning": {"effort": "medium"}}, LEVELS, {"think": "medium"}),
    "a level by the name of the model": (
        {"model": "hf.co/ggml-org/GPT-OSS-20b-GGUF", "reasoning": {"effort": "high"}},
        DEFAULT_PROFILE,
        {"model": "hf.co/ggml-org/GPT-OSS-20b-GGUF", "think": "high"},
    ),
    "thinking on, at the model's own level": ({"thinking": True}, LEVELS, {"think": True}),
}


@pytest.mark.parametrize(("params", "profile", "body"), CASES.values(), ids=CASES)
def test_supported_parameters_are_sent_without_loss(params: dict[str, Any], profile: Profile, body: Json) -> None:
    lowered = lower(replace(TURN, **params), profile)
    assert lowered.body == {**PLAIN, **body}
    assert list(lowered.losses) == []


LOSSES: dict[str, tuple[dict[str, Any], Profile, Json, list[str]]] = {
    "what is for who keeps accounts": (
        {
            "sampling": {
                "service_tier": "flex",
                "metadata": {"a": "b"},
                "user": "u",
                "safety_identifier": "s",
                "prompt_cache_key": "k",
                "prompt_cache_retention": "24h",
                "store": True,
            }
        },
        DEFAULT_PROFILE,
        {},
        [
            "service_tier=dropped",
            "metadata=dropped",
            "user=dropped",
            "safety_identifier=dropped",
            "prompt_cache_key=dropped",
            "prompt_cache_retention=dropped",
            "store=dropped",
        ],
    ),
    "verbosity": ({"verbosity": "low"}, DEFAULT_PROFILE, {}, ["text.verbosity=dropped"]),
    "what the profile does not pass on": (
        {"extra": {"top_k": 5, "options": {"num_gpu": 1}}},
        DEFAULT_PROFILE,
        {},
        ["top_k=dropped", "options=dropped"],
    ),
    "the description of a format": (
        {"text_format": {"type": "json_schema", "name": "a", "schema": SCHEMA, "description": "an a"}},
        DEFAULT_PROFILE,
        {"format": SCHEMA},
        ["text.format.description=dropped"],
    ),
    "a strict tool": (
        {"tools": [{**F, "strict": True}]},
        DEFAULT_PROFILE,
        {"tools": [OLLAMA_F]},
        ["tools.strict=dropped"],
    ),
    "one call at a time": (
        {"tools": [F], "parallel_tool_calls": False},
        DEFAULT_PROFILE,
        {"tools": [OLLAMA_F]},
        ["parallel_tool_calls=dropped"],
    ),
    "some of the tools": (
        {"tools": [F, G], "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "g"}]}},
        DEFAULT_PROFILE,
        {"tools": [OLLAMA_G]},
        ["tool_choice=allowed_tools filtered"],
    ),
    "an effort where there are no levels": (
        {"reasoning": {"effort": "low"}},
        DEFAULT_PROFILE,
        {"think": True},
        ["reasoning.effort=low as on"],
    ),
    "an effort with no level of its own": (
        {"reasoning": {"effort": "minimal"}},
        LEVELS,
        {"think": "low"},
        ["reasoning.effort=minimal as low"],
    ),
    "an effort that is not known": (
        {"reasoning": {"effort": "huge"}},
        LEVELS,
        {"think": "medium"},
        ["reasoning.effort=huge as medium"],
    ),
    "no effort where thinking does not stop": (
        {"reasoning": {"effort": "none"}},
        LEVELS,
        {"think": "low"},
        ["reasoning.effort=none as low"],
    ),
    "no thinking where it does not stop": ({"thinking": False}, LEVELS, {"think": "low"}, ["thinking=false as low"]),
    "levels are for no other model": (
        {"model": "gpt-oss:20b", "reasoning": {"effort": "low"}},
        Profile(thinking_form="budget"),
        {"model": "gpt-oss:20b", "think": True},
        ["reasoning.effort=low as on"],
    ),
    "a budget and the length of a summary": (
        {"reasoning": {"max_tokens": 5, "summary": "detailed"}},
        DEFAULT_PROFILE,
        {},
        ["reasoning.max_tokens=dropped", "reasoning.summary=as auto"],
    ),
}


@pytest.mark.parametrize(("params", "profile", "body", "losses"), LOSSES.values(), ids=LOSSES)
def test_unsupported_parameters_are_losses(
    params: dict[str, Any], profile: Profile, body: Json, losses: list[str]
) -> None:
    lowered = lower(replace(TURN, **params), profile)
    assert lowered.body == {**PLAIN, **body}
    assert [str(loss) for loss in lowered.losses] == losses


NAMED = {"type": "function", "name": "f"}
REFUSED: dict[str, tuple[dict[str, Any], Profile, type[InvalidRequest], str]] = {
    "several choices": ({"sampling": {"n": 2}}, DEFAULT_PROFILE, Unrepresentable, "n"),
    "token biases": ({"sampling": {"logit_bias": {"1": 2}}}, DEFAULT_PROFILE, Unrepresentable, "logit_bias"),
    "another format": ({"text_format": {"type": "grammar"}}, DEFAULT_PROFILE, Unrepresentable, "text.format.type"),
    "a format beside tools": (
        {"text_format": {"type": "json_object"}, "tools": [F]},
        DEFAULT_PROFILE,
        Unrepresentable,
        "text.format",
    ),
    "a call that must be made": (
        {"tools": [F], "tool_choice": "required"},
        DEFAULT_PROFILE,
        Unrepresentable,
        "tool_choice",
    ),
    "the tool that must be called": (
        {"tools": [F], "tool_choice": NAMED},
        DEFAULT_PROFILE,
        Unrepresentable,
        "tool_choice",
    ),
    "one of some tools that must be called": (
        {"tools": [F], "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [NAMED]}},
        DEFAULT_PROFILE,
        Unrepresentable,
        "tool_choice",
    ),
    "a choice of a tool that is not there": (
        {"tools": [G], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [NAMED]}},
        DEFAULT_PROFILE,
        InvalidRequest,
        "tool_choice.tools",
    ),
    "a choice among no tools": ({"tool_choice": "required"}, DEFAULT_PROFILE, InvalidRequest, "tool_choice"),
    "calls in text": ({"tools": [F]}, Profile(tool_parser="hermes"), Unrepresentable, "tools"),
    "tools in the prompt": ({"tools": [F]}, Profile(text_tool_calls="hermes"), Unrepresentable, "tools"),
    "another kind of tool": (
        {"tools": [{"type": "custom", "name": "p"}]},
        DEFAULT_PROFILE,
        Unrepresentable,
        "tools[0]",
    ),
    "no name": ({"tools": [F, {"type": "function"}]}, DEFAULT_PROFILE, InvalidRequest, "tools[1].name"),
    "no input": ({"items": []}, DEFAULT_PROFILE, InvalidRequest, "input"),
}


@pytest.mark.parametrize(("params", "profile", "kind", "param"), REFUSED.values(), ids=REFUSED)
def test_parameters_that_would_change_the_answer_are_refused_by_name(
    params: dict[str, Any], profile: Profile, kind: type[InvalidRequest], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        lower(replace(TURN, **params), profile)
    assert (type(refusal.value), refusal.value.param) == (kind, param)


def test_a_turn_is_not_modified() -> None:
    parameters: Json = {"properties": {}}
    turn = replace(TURN, tools=[{**F, "parameters": parameters}], extra={"keep_alive": 1})
    assert lower(turn, PASSING).body["tools"][0]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert parameters == {"properties": {}}
