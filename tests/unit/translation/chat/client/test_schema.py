"""Which Chat Completions requests are well formed."""

from typing import Any, Literal, get_args

import pytest
from openai.types.chat import completion_create_params
from openai.types.shared import ReasoningEffort

from translation.chat.client.schema import REQUEST_FIELDS, REQUEST_SCHEMA, keep_known, validate
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

USER: Json = {"role": "user", "content": "hi"}
GRAMMAR: Json = {"syntax": "lark", "definition": "x"}


def body(**more: Any) -> Json:
    return {"model": "m", "messages": [USER], **more}


def message(*content: Json, role: str = "user") -> Json:
    return body(messages=[{"role": role, "content": list(content)}])


def assistant(**more: Any) -> Json:
    return body(messages=[{"role": "assistant", **more}])


ACCEPTED: dict[str, Json] = {
    "the smallest request": body(),
    "all roles": body(
        messages=[
            {"role": "system", "content": "s", "name": "n"},
            {"role": "developer", "content": [{"type": "text", "text": "d"}]},
            {"role": "user", "content": "u", "name": "n"},
            {"role": "assistant", "content": "a", "refusal": None, "tool_calls": None, "function_call": None},
            {"role": "tool", "tool_call_id": "c", "content": "t"},
            {"role": "function", "name": "f", "content": None},
        ]
    ),
    "every kind of input part": message(
        {"type": "text", "text": "t"},
        {"type": "image_url", "image_url": {"url": "u", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "d", "format": "wav"}},
        {"type": "file", "file": {"file_data": "d", "filename": "n"}},
        {"type": "file", "file": {"file_id": "f"}},
    ),
    "parts of an answer": message({"type": "text", "text": "t"}, {"type": "refusal", "refusal": "r"}, role="assistant"),
    "both kinds of calls, and one that leaves its type out": assistant(
        tool_calls=[
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
            {"id": "b", "type": "custom", "custom": {"name": "f", "input": ""}},
            {"id": "c", "function": {"name": "f", "arguments": "{}"}},
        ]
    ),
    "past reasoning in every field": assistant(
        reasoning="r", reasoning_content="r", reasoning_details=[{"type": "reasoning.text", "text": "r"}]
    ),
    "keys of a gateway's own answer that come back": assistant(content="a", annotations=[], extensions={}),
    "every kind of tool": body(
        tools=[
            {"type": "function", "function": {"name": "f"}},
            {"type": "function", "function": {"name": "g", "description": "d", "parameters": {}, "strict": None}},
            {"type": "custom", "custom": {"name": "c", "format": {"type": "text"}}},
            {
                "type": "custom",
                "custom": {"name": "d", "format": {"type": "grammar", "grammar": GRAMMAR}},
            },
        ]
    ),
    "no tools": body(tools=[], tool_choice="auto"),
    "a tool choice in a word": body(tool_choice="required"),
    "a named function": body(tool_choice={"type": "function", "function": {"name": "f"}}),
    "a named custom tool": body(tool_choice={"type": "custom", "custom": {"name": "f"}}),
    "allowed tools": body(
        tool_choice={
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
        }
    ),
    "text as the format": body(response_format={"type": "text"}),
    "a JSON object as the format": body(response_format={"type": "json_object"}),
    "a JSON schema as the format": body(
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": True}}
    ),
    "one stop string": body(stop="x"),
    "four stop strings": body(stop=["a", "b", "c", "d"]),
    "sampling at its bounds": body(
        temperature=2, top_p=0, presence_penalty=-2, frequency_penalty=2.0, n=1, seed=-1, max_tokens=1,
        max_completion_tokens=1, logprobs=True, top_logprobs=20, logit_bias={"1": -100},
    ),
    "the scalar rest": body(
        user="u", safety_identifier="s", prompt_cache_key="k", prompt_cache_retention="24h", service_tier="flex",
        store=False, parallel_tool_calls=True, reasoning_effort="none", verbosity="low", metadata={"a": "b"},
    ),
    "a stream with options": body(stream=True, stream_options={"include_usage": True, "include_obfuscation": False}),
    "audio output": body(modalities=["text", "audio"], audio={"format": "wav", "voice": "alloy"}),
    "a prediction": body(prediction={"type": "content", "content": [{"type": "text", "text": "t"}]}),
    "web search": body(
        web_search_options={"user_location": {"type": "approximate", "approximate": {"city": "Rome"}}}
    ),
    "the old way of calling functions": body(functions=[{"name": "f"}], function_call={"name": "f"}),
    "the extensions": body(thinking=True, extensions=True),
    "thinking as DeepSeek has it": body(thinking={"type": "disabled"}),
    "thinking with what else a server has there": body(thinking={"type": "auto", "budget_tokens": 9, "keep": "all"}),
    "OpenRouter's reasoning": body(reasoning={"effort": "low", "max_tokens": 9, "enabled": True, "exclude": True}),
    "parameters of an upstream's own": body(top_k=3, provider={"order": ["x"]}),
    "null for everything optional": body(**dict.fromkeys(REQUEST_FIELDS - {"model", "messages"})),
}  # fmt: skip


@pytest.mark.parametrize("request_body", ACCEPTED.values(), ids=ACCEPTED)
def test_well_formed_requests_are_accepted(request_body: Json) -> None:
    validate(request_body)


MISSING, TYPE, VALUE = "missing_required_parameter", "invalid_type", "invalid_value"

REFUSED: dict[str, tuple[Json, str, str]] = {
    "no messages": ({"model": "m"}, "messages", MISSING),
    "no model": ({"messages": [USER]}, "model", MISSING),
    "an empty list of messages": (body(messages=[]), "messages", VALUE),
    "messages as a string": (body(messages="hi"), "messages", TYPE),
    "a message that is a string": (body(messages=["hi"]), "messages[0]", TYPE),
    "no role": (body(messages=[{"content": "x"}]), "messages[0].role", MISSING),
    "an unknown role": (body(messages=[USER, {"role": "x"}]), "messages[1].role", VALUE),
    "a user without content": (body(messages=[{"role": "user"}]), "messages[0].content", MISSING),
    "null as a user's content": (body(messages=[{"role": "user", "content": None}]), "messages[0].content", TYPE),
    "an unknown part": (message({"type": "input_text", "text": "t"}), "messages[0].content[0].type", VALUE),
    "a part without type": (message({"text": "t"}), "messages[0].content[0].type", MISSING),
    "an image without url": (
        message({"type": "image_url", "image_url": {}}), "messages[0].content[0].image_url.url", MISSING,
    ),
    "an image as a string": (
        message({"type": "image_url", "image_url": "u"}), "messages[0].content[0].image_url", TYPE,
    ),
    "an image in an answer": (
        message({"type": "image_url", "image_url": {"url": "u"}}, role="assistant"),
        "messages[0].content[0].type", VALUE,
    ),
    "a call without id": (
        assistant(tool_calls=[{"type": "function", "function": {"name": "f", "arguments": ""}}]),
        "messages[0].tool_calls[0].id", MISSING,
    ),
    "arguments that are no string": (
        assistant(tool_calls=[{"id": "a", "type": "function", "function": {"name": "f", "arguments": {}}}]),
        "messages[0].tool_calls[0].function.arguments", TYPE,
    ),
    "a tool message without its call": (
        body(messages=[{"role": "tool", "content": "t"}]), "messages[0].tool_call_id", MISSING,
    ),
    "a flat tool": (body(tools=[{"type": "function", "name": "f"}]), "tools[0].function", MISSING),
    "an unknown kind of tool": (body(tools=[{"type": "code_interpreter"}]), "tools[0].type", VALUE),
    "a tool without a name": (body(tools=[{"type": "function", "function": {}}]), "tools[0].function.name", MISSING),
    "an unknown word as tool choice": (body(tool_choice="any"), "tool_choice", VALUE),
    "a choice among no tools": (
        body(tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}),
        "tool_choice.allowed_tools.tools",
        VALUE,
    ),
    "a tool whose name is empty": (
        body(tools=[{"type": "function", "function": {"name": ""}}]),
        "tools[0].function.name",
        VALUE,
    ),
    "a flat tool choice": (body(tool_choice={"type": "function", "name": "f"}), "tool_choice.function", MISSING),
    "a JSON schema without name": (
        body(response_format={"type": "json_schema", "json_schema": {}}), "response_format.json_schema.name", MISSING,
    ),
    "an unknown format": (body(response_format={"type": "xml"}), "response_format.type", VALUE),
    "five stop strings": (body(stop=["x"] * 5), "stop", VALUE),
    "a stop that is a number": (body(stop=1), "stop", TYPE),
    "a hot temperature": (body(temperature=2.1), "temperature", VALUE),
    "a boolean temperature": (body(temperature=True), "temperature", TYPE),
    "a string temperature": (body(temperature="1"), "temperature", TYPE),
    "top_p over 1": (body(top_p=1.5), "top_p", VALUE),
    "a penalty under -2": (body(presence_penalty=-3), "presence_penalty", VALUE),
    "no tokens at all": (body(max_tokens=0), "max_tokens", VALUE),
    "half a token": (body(max_completion_tokens=1.5), "max_completion_tokens", TYPE),
    "no choice": (body(n=0), "n", VALUE),
    "top_logprobs over 20": (body(logprobs=True, top_logprobs=21), "top_logprobs", VALUE),
    "top_logprobs without logprobs": (body(top_logprobs=1), "top_logprobs", VALUE),
    "a logit bias over 100": (body(logit_bias={"5": 101}), "logit_bias.5", VALUE),
    "17 metadata keys": (body(metadata={str(n): "" for n in range(17)}), "metadata", VALUE),
    "metadata that is no string": (body(metadata={"a": 1}), "metadata.a", TYPE),
    "a long metadata value": (body(metadata={"a": "x" * 513}), "metadata.a", VALUE),
    "stream options without a stream": (body(stream_options={"include_usage": True}), "stream_options", VALUE),
    "an unknown effort": (body(reasoning_effort="huge"), "reasoning_effort", VALUE),
    "an unknown verbosity": (body(verbosity="x"), "verbosity", VALUE),
    "an unknown modality": (body(modalities=["smell"]), "modalities[0]", VALUE),
    "thinking that is no boolean": (body(thinking="yes"), "thinking", TYPE),
    "thinking of no type": (body(thinking={"budget_tokens": 9}), "thinking.type", MISSING),
    "thinking whose type is no string": (body(thinking={"type": True}), "thinking.type", TYPE),
    "a budget of nothing": (body(thinking={"type": "enabled", "budget_tokens": 0}), "thinking.budget_tokens", VALUE),
    "extensions that are no boolean": (body(extensions={}), "extensions", TYPE),
}  # fmt: skip


@pytest.mark.parametrize(("request_body", "param", "code"), REFUSED.values(), ids=REFUSED)
def test_malformed_requests_are_reported_by_field(request_body: Json, param: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        validate(request_body)
    assert (refused.value.param, refused.value.code) == (param, code)


def test_every_parameter_of_the_official_sdk_is_known_or_forwarded() -> None:
    official = set(completion_create_params.CompletionCreateParamsStreaming.__annotations__)
    assert official - REQUEST_FIELDS == {"moderation", "prompt_cache_options"}, (
        "these reach only upstreams that know them"
    )


def test_efforts_are_those_of_the_official_sdk() -> None:
    literal: Any = get_args(ReasoningEffort)[0]
    assert literal == Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


def test_the_schema_for_the_documentation_names_what_is_required() -> None:
    schema = REQUEST_SCHEMA()
    assert schema["required"] == ["messages", "model"]
    assert schema["$id"], "its references resolve inside it"
    assert REQUEST_SCHEMA() is schema, "it is made once"


FUNCTION_CALL: Json = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
OTHER_CALL: Json = {"id": "b", "type": "other", "other": {}}


def answer_to(call_id: str) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": "ok"}


def test_the_known_part_leaves_out_values_that_are_not_allowed() -> None:
    calling: Json = {"role": "assistant", "tool_calls": [FUNCTION_CALL]}
    messages = [USER, calling, answer_to("a")]
    assert keep_known(body(messages=messages, temperature=7, seed=3)) == body(messages=messages, seed=3)


def test_the_known_part_has_no_answers_to_calls_of_unknown_types() -> None:
    calling: Json = {"role": "assistant", "tool_calls": [FUNCTION_CALL, OTHER_CALL]}
    known = keep_known(body(messages=[USER, calling, answer_to("a"), answer_to("b")], seed=3))
    calling_known: Json = {"role": "assistant", "tool_calls": [FUNCTION_CALL]}
    assert known == body(messages=[USER, calling_known, answer_to("a")], seed=3)
