"""The official SDK against the demo model, over a socket."""

from collections.abc import Iterator
from typing import Any

import pytest
from openai import NotFoundError, OpenAI

from tests.serving import Gateway, serving

DEMO = {"providers": {"demo": {"type": "scripted"}}, "models": {"demo": {"provider": "demo"}}}

ADD = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with serving(DEMO) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def client(gateway: Gateway) -> Iterator[OpenAI]:
    with OpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
        yield client


def test_a_response_has_text(client: OpenAI) -> None:
    response = client.responses.create(model="demo", input="Hello there")
    assert response.output_text == "You said: Hello there"
    assert response.status == "completed"


def test_the_stream_helper_adds_up_to_the_final_response(client: OpenAI) -> None:
    with client.responses.stream(model="demo", input="Hello there", reasoning={"effort": "low"}) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert final.output_text == text == "You said: Hello there"
    assert [item.type for item in final.output] == ["reasoning", "message"]


def test_a_tool_loop_ends_with_the_tools_result(client: OpenAI) -> None:
    tools: list[Any] = [{"type": "function", "name": "add", "parameters": ADD, "strict": True}]
    first = client.responses.create(model="demo", input="Add.", tools=tools)
    call = first.output[-1]
    assert call.type == "function_call"
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "forty-two"}
    history: list[Any] = [{"role": "user", "content": "Add."}, call.model_dump(), output]
    second = client.responses.create(model="demo", tools=tools, input=history)
    assert "forty-two" in second.output_text


def test_a_chat_completion_has_text_and_the_stream_the_same(client: OpenAI) -> None:
    messages: list[Any] = [{"role": "user", "content": "Hello there"}]
    whole = client.chat.completions.create(model="demo", messages=messages)
    chunks = client.chat.completions.create(model="demo", messages=messages, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert whole.choices[0].message.content == text == "You said: Hello there"


def test_an_unknown_model_is_a_404_with_its_code(client: OpenAI) -> None:
    with pytest.raises(NotFoundError) as caught:
        client.responses.create(model="nobody", input="Hello")
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"
    assert caught.value.request_id
