"""The features of ChatVllm beyond any chat model; `pytest` of the clients' environment runs it before the demo model.

BASE_URL says where the gateway is.
"""

import json
import os
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field, ValidationError

from responses_gateway_clients.langchain import ChatVllm, GatewayError, parse_response
from responses_gateway_clients.messages import chat_messages_of

BASE_URL = os.environ["BASE_URL"]
THOUGHT = "The user wrote 2 words. I will repeat it."
ANSWER = "You said: Say hello."

each_api = pytest.mark.parametrize("api", ["generate", "responses"])
each_split = pytest.mark.parametrize("split", [True, False], ids=["split", "raw"])


def model(api: str = "generate", **fields: Any) -> ChatVllm:
    given = {"api": api, "model": "demo", "base_url": BASE_URL, "max_retries": 0, "max_thinking_tokens": 50, **fields}
    return ChatVllm(**given)


def add(a: int) -> int:
    """Add one."""
    return a + 1


async def each_way(asked: Any, content: Any) -> list[AIMessage]:
    """The message by every method there is."""
    streamed = asked.stream(content)
    whole: AIMessageChunk | None = None
    for chunk in streamed:
        whole = chunk if whole is None else whole + chunk
    slowly: AIMessageChunk | None = None
    async for chunk in asked.astream(content):
        slowly = chunk if slowly is None else slowly + chunk
    assert whole is not None
    assert slowly is not None
    return [asked.invoke(content), await asked.ainvoke(content), whole, slowly]


@each_api
async def test_the_raw_text_is_a_closed_block_and_the_answer(api: str) -> None:
    for message in await each_way(model(api), "Say hello."):
        assert message.content == f"<think>{THOUGHT}</think>{ANSWER}"
        assert parse_response(message.content) == {"response": ANSWER, "thinking": THOUGHT}
        assert message.additional_kwargs["thinking"] == THOUGHT
        assert message.tool_calls == []


@each_api
async def test_split_thinking_is_beside_the_answer(api: str) -> None:
    for message in await each_way(model(api, split_thinking=True), "Say hello."):
        assert (message.content, message.additional_kwargs["thinking"]) == (ANSWER, THOUGHT)


async def test_the_block_has_the_tag_that_was_chosen() -> None:
    for message in await each_way(model(think_tag="thinking"), "Say hello."):
        assert message.content == f"<thinking>{THOUGHT}</thinking>{ANSWER}"


async def test_without_thinking_there_is_no_block() -> None:
    for message in await each_way(model(max_thinking_tokens=0), "Say hello."):
        assert (message.content, message.additional_kwargs) == (ANSWER, {})


@each_api
@each_split
async def test_calls_come_after_a_closed_block(api: str, split: bool) -> None:
    asked = model(api, split_thinking=split).bind_tools([add], tool_choice="add")
    for message in await each_way(asked, "Say hello."):
        assert [(call["name"], call["args"]) for call in message.tool_calls] == [("add", {"a": 0})]
        assert message.tool_calls[0]["id"]
        thought = message.additional_kwargs["thinking"]
        assert message.content == ("" if split else f"<think>{thought}</think>")
        assert message.response_metadata["finish_reason"] == "tool_calls"


async def test_a_message_is_shaped_as_that_of_chatopenai() -> None:
    chat = ChatOpenAI(model="demo", base_url=f"{BASE_URL}/v1", api_key="none", max_retries=0, stream_usage=True)
    ours = model(max_thinking_tokens=None, split_thinking=True)
    for pair in ((chat, ours), (chat.bind_tools([add], tool_choice="add"), ours.bind_tools([add], tool_choice="add"))):
        theirs, own = [await each_way(asked, "Say hello.") for asked in pair]
        for one, other in zip(theirs, own, strict=True):
            assert type(one) is type(other)
            assert other.content == one.content
            calls = [[(call["name"], call["args"], call["type"]) for call in said.tool_calls] for said in (one, other)]
            assert calls[0] == calls[1]
            for key in ("input_tokens", "output_tokens", "total_tokens"):
                assert other.usage_metadata[key] == one.usage_metadata[key]
            for key in ("model_name", "finish_reason"):
                assert other.response_metadata[key] == one.response_metadata[key]


@each_api
@each_split
async def test_a_conversation_with_a_tool_goes_round(api: str, split: bool) -> None:
    asked = model(api, split_thinking=split).bind_tools([add])
    question = "Please add 1 and 2."
    for first in await each_way(asked, question):
        result = ToolMessage("3", tool_call_id=first.tool_calls[0]["id"])
        second = asked.invoke([HumanMessage(question), first, result])
        assert parse_response(second.content)["response"] == "add returned: 3"


@pytest.mark.parametrize("version", ["v0", "v1"])
@each_split
def test_past_thinking_goes_back_beside_the_answer(split: bool, version: str) -> None:
    message = model(split_thinking=split, output_version=version).invoke("Say hello.")
    said = {"role": "assistant", "content": ANSWER, "reasoning_content": THOUGHT}
    assert chat_messages_of([message], "think") == [said]


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("<think>a</think>b", {"content": "b", "reasoning_content": "a"}),
        ("<think>a", {"content": "", "reasoning_content": "a"}),
        ("b", {"content": "b"}),
        ("Write <think> before it, </think> after.", {"content": "Write <think> before it, </think> after."}),
    ],
)
def test_messages_of_others_lose_their_blocks_too(content: str, value: dict[str, Any]) -> None:
    assert chat_messages_of([AIMessage(content)], "think") == [{"role": "assistant", **value}]


def test_every_kind_of_message_has_its_place() -> None:
    call = {"name": "add", "args": {"a": 1}, "id": "call_1"}
    broken = {"name": "add", "args": "{", "id": "call_2", "error": None, "type": "invalid_tool_call"}
    said = chat_messages_of(
        [
            SystemMessage("Be brief."),
            HumanMessage("hello", name="ann"),
            AIMessage("", tool_calls=[call], invalid_tool_calls=[broken], name="bob"),
            ToolMessage("3", tool_call_id="call_1"),
        ],
        "think",
    )
    functions = [{"name": "add", "arguments": '{"a": 1}'}, {"name": "add", "arguments": "{"}]
    assert said == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "name": "ann", "content": "hello"},
        {
            "role": "assistant",
            "content": "",
            "name": "bob",
            "tool_calls": [
                {"id": f"call_{number}", "type": "function", "function": function}
                for number, function in enumerate(functions, 1)
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
    ]


class Number(BaseModel):
    """A number."""

    a: int = Field(ge=0)


@each_api
@each_split
@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
async def test_an_answer_has_the_schema_that_was_asked_for(api: str, split: bool, method: str) -> None:
    asked = model(api, split_thinking=split)
    assert asked.with_structured_output(Number, method=method).invoke("Say hello.") == Number(a=0)
    schema = {"title": "Number", "description": "A number.", **Number.model_json_schema()}
    assert await asked.with_structured_output(schema, method=method).ainvoke("Say hello.") == {"a": 0}
    raw = asked.with_structured_output(Number, method=method, include_raw=True).invoke("Say hello.")
    assert (raw["parsed"], raw["parsing_error"], raw["raw"].additional_kwargs["thinking"] != "") == (
        Number(a=0),
        None,
        True,
    )


def test_an_answer_that_does_not_fit_is_told() -> None:
    raw = model().with_structured_output(Number, method="json_mode", include_raw=True).invoke("Say hello.")
    assert (raw["parsed"], type(raw["parsing_error"]).__name__) == (None, "OutputParserException")
    with pytest.raises(ValueError, match="nonsense"):
        model().with_structured_output(Number, method="nonsense")


@each_api
async def test_a_refusal_is_raised_in_the_gateways_words(api: str) -> None:
    asked = model(api, temperature=9)
    for way in (asked.invoke, lambda said: list(asked.stream(said))):
        with pytest.raises(GatewayError, match="'temperature'") as failed:
            way("Say hello.")
        assert (failed.value.status, failed.value.param) == (400, "temperature")
    with pytest.raises(GatewayError):
        await asked.ainvoke("Say hello.")
    with pytest.raises(GatewayError):
        [chunk async for chunk in asked.astream("Say hello.")]


def test_two_passes_are_refused_where_they_cannot_be() -> None:
    with pytest.raises(GatewayError, match="two passes") as failed:
        model(two_pass=True).invoke("Say hello.")
    assert failed.value.param == "two_pass"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"api": "responses", "two_pass": True}, "two_pass"),
        ({"api": "responses", "tool_parser": "hermes"}, "tool_parser"),
        ({"api": "responses", "model": None}, "set model"),
        ({"api": "chat"}, "api"),
        ({"think_tag": "thought"}, "think_tag"),
        ({"max_thinking_tokens": -1}, "max_thinking_tokens"),
        ({"max_respone_tokens": 5}, "max_respone_tokens"),
    ],
)
def test_a_mistake_in_a_field_is_told_at_once(fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        model(**fields)


@pytest.mark.parametrize(
    ("choice", "value"),
    [
        (None, None),
        ("auto", "auto"),
        ("none", "none"),
        ("any", "required"),
        ("required", "required"),
        (True, "required"),
        ("add", {"name": "add"}),
        ({"name": "add"}, {"name": "add"}),
        ({"type": "function", "function": {"name": "add"}}, {"name": "add"}),
        ({"type": "any"}, "required"),
        ({"type": "auto"}, "auto"),
    ],
)
def test_a_tool_choice_may_be_said_in_any_way(choice: Any, value: Any) -> None:
    def now() -> str:
        """The time."""
        return "now"

    bound = model().bind_tools([add, now], tool_choice=choice).kwargs
    assert bound["tool_choice"] == value
    assert [tool["name"] for tool in bound["tools"]] == ["add", "now"]


@pytest.mark.parametrize("choice", ["sub", {"name": "sub"}, {"type": "function"}, 3])
def test_a_tool_choice_that_is_none_is_told_at_once(choice: Any) -> None:
    with pytest.raises(ValueError, match="tool"):
        model().bind_tools([add], tool_choice=choice)


def test_one_call_may_ask_otherwise() -> None:
    asked = model()
    assert asked.invoke("Say hello.", max_response_tokens=2).response_metadata["finish_reason"] == "length"
    assert asked.invoke("Say hello.", max_tokens=2).response_metadata["finish_reason"] == "length"
    assert asked.invoke("Say hello.", max_thinking_tokens=0, split_thinking=True).additional_kwargs == {}
    assert asked.bind(seed=3).invoke("Say hello.").content


def test_counts_are_told_with_what_was_thought() -> None:
    usage = model(max_thinking_tokens=4).invoke("Say hello.").usage_metadata
    assert usage["output_token_details"] == {"reasoning": 4}
    assert usage["output_tokens"] == 8
    assert usage["input_token_details"] == {"cache_read": 0}


def test_an_address_may_end_in_the_version() -> None:
    assert model(base_url=f"{BASE_URL}/v1/").invoke("Say hello.").content


def test_a_key_is_kept_to_itself() -> None:
    asked = model(api_key="secret-key", headers={"x-request-id": "req_mine"})
    assert "secret-key" not in repr(asked) + json.dumps(asked._identifying_params, default=str)
    assert asked.invoke("Say hello.").content
