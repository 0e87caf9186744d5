"""Translates requests of `/generate` to chat."""

from typing import Any

import pytest

from translation.chat.client.schema import validate as validate_chat
from translation.errors import InvalidRequest
from translation.generate.chat_body import build_chat_body, set_thinking_budget
from translation.generate.schema import REQUEST_SCHEMA, validate

Json = dict[str, Any]

HELLO: Json = {"role": "user", "content": "hello"}
ADD: Json = {"name": "add", "description": "adds", "parameters": {"type": "object"}}


def chat_body_of(body: Json, *, two_pass: bool = False) -> Json:
    whole = {"messages": [HELLO], **body}
    validate(whole)
    chat = build_chat_body(whole, model="tiny", two_pass=two_pass)
    validate_chat(chat)
    return chat


def test_a_small_request_is_a_small_chat() -> None:
    assert chat_body_of({}) == {"model": "tiny", "messages": [HELLO]}
    assert chat_body_of({"model": "other", "temperature": None, "stream": True})["stream"] is True


def test_tools_and_a_forced_tool_become_chat_parameters() -> None:
    chat = chat_body_of({"tools": [ADD], "tool_choice": {"name": "add"}})
    assert chat["tools"] == [{"type": "function", "function": ADD}]
    assert chat["tool_choice"] == {"type": "function", "function": {"name": "add"}}
    assert chat_body_of({"tools": [ADD], "tool_choice": "none"})["tool_choice"] == "none"


def test_past_calls_may_have_the_shape_of_generate_or_of_chat() -> None:
    chats = {"id": "call_2", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    calls = [{"id": "call_0", "name": "add", "arguments": {"a": 1}}, {"id": "call_1", "name": "add", "arguments": "{}"}]
    asking = {"role": "assistant", "content": None, "tool_calls": [*calls, chats]}
    results = [{"role": "tool", "tool_call_id": f"call_{number}", "content": "3"} for number in range(3)]
    made = chat_body_of({"messages": [HELLO, asking, *results]})["messages"][1]["tool_calls"]
    assert [call["function"] for call in made] == [
        {"name": "add", "arguments": '{"a":1}'},
        {"name": "add", "arguments": "{}"},
        {"name": "add", "arguments": "{}"},
    ]
    assert chat_body_of({"messages": [HELLO, {"role": "assistant", "content": "a", "tool_calls": None}]})


def test_parameters_without_a_chat_form_are_left_out() -> None:
    ours = {"two_pass": False, "think_tag": "thinking", "tool_parser": "hermes", "max_thinking_tokens": 3}
    assert chat_body_of(ours) == chat_body_of({})


@pytest.mark.parametrize(
    ("limits", "two_pass", "expected"),
    [
        ({"max_response_tokens": 5}, False, 5),
        ({"max_response_tokens": 5}, True, None),
        ({"max_response_tokens": 5, "max_completion_tokens": 3}, False, 3),
        ({"max_response_tokens": 5, "max_completion_tokens": 9}, False, 5),
        ({"max_response_tokens": 5, "max_completion_tokens": 9}, True, 9),
        ({"max_completion_tokens": 9}, False, 9),
    ],
)
def test_a_limit_on_the_answer_does_not_limit_separate_thinking(
    limits: Json, two_pass: bool, expected: int | None
) -> None:
    assert chat_body_of(limits, two_pass=two_pass).get("max_completion_tokens") == expected


def test_a_budget_of_zero_forbids_thinking() -> None:
    assert set_thinking_budget({}, 7, two_pass=False) == {"reasoning": {"max_tokens": 7}}
    assert set_thinking_budget({"reasoning": {"effort": "low"}}, 7, two_pass=True)["reasoning"]["max_tokens"] == 7
    assert set_thinking_budget({}, 0, two_pass=True) == {"reasoning": {"max_tokens": 0}}
    assert set_thinking_budget({}, 0, two_pass=False) == {"thinking": False}


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["hello"]}, "messages[0]"),
        ({"messages": [{"content": "hello"}]}, "messages[0].role"),
        ({"model": ""}, "model"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"two_pass": "yes"}, "two_pass"),
        ({"think_tag": "thought"}, "think_tag"),
        ({"max_thinking_tokens": -1}, "max_thinking_tokens"),
        ({"max_thinking_tokens": 1.5}, "max_thinking_tokens"),
        ({"max_response_tokens": 0}, "max_response_tokens"),
        ({"tools": {"name": "add"}}, "tools"),
        ({"tools": [{"description": "adds"}]}, "tools[0].name"),
        ({"tools": [{"name": "add", "parameters": "none"}]}, "tools[0].parameters"),
        ({"tool_choice": "any"}, "tool_choice"),
        ({"tool_choice": {}}, "tool_choice.name"),
        ({"tool_parser": 3}, "tool_parser"),
        ({"stream": "true"}, "stream"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "arguments": {}}]}]},
            "messages[0].tool_calls[0].name",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "name": "f", "arguments": 3}]}]},
            "messages[0].tool_calls[0].arguments",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
        ({"messages": [{"role": "assistant", "tool_calls": ["f"]}]}, "messages[0].tool_calls[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "nobody", "content": "a"}]}, "messages[0].role"),
        ({"store": True}, "store"),
        ({"logprobs": True}, "logprobs"),
        ({"functions": [ADD]}, "functions"),
        ({"top_p": 3}, "top_p"),
        ({"max_response_tokens": 5, "max_completion_tokens": "10"}, "max_completion_tokens"),
    ],
)
def test_malformed_requests_are_refused_by_field(wrong: Json, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        chat_body_of(wrong)
    assert refused.value.param == param


def test_parameters_without_an_effect_are_accepted() -> None:
    assert chat_body_of({"store": False, "functions": [], "tools": None})


def test_the_schema_can_be_published() -> None:
    schema = REQUEST_SCHEMA()
    assert schema["$id"] == "generate"
    assert schema["required"] == ["messages"]
