"""Tools described in the prompt and calls parsed from text, on a real engine without a tool API."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI

from tests.integration.engines import Engine
from tests.serving import command

WEATHER = {
    "name": "get_weather",
    "description": "Get the weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
QUESTION = "What is the weather in Paris?"


@pytest.fixture(scope="module")
def client(llama_server: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    config = {
        "providers": {"engine": {"type": llama_server.kind, "base_url": f"{llama_server.url}/v1"}},
        "models": {
            "tiny": {"provider": "engine", "text_tool_calls": "hermes"},
            "reporting": {"provider": "engine", "text_tool_calls": "hermes", "tool_validation": "report"},
        },
    }
    with (
        command(config, tmp_path_factory.mktemp("gateway"), forked=True) as gateway,
        OpenAI(base_url=gateway.v1, api_key="none", max_retries=0, timeout=60) as client,
    ):
        yield client


def test_a_model_calls_a_tool_described_in_text_and_reads_its_output(client: OpenAI) -> None:
    tools = [{"type": "function", "strict": False, **WEATHER}]
    create: Any = client.responses.create
    asked = create(model="tiny", input=QUESTION, tools=tools, temperature=0)
    (call,) = (item for item in asked.output if item.type == "function_call")
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
    answered = create(
        model="tiny",
        previous_response_id=asked.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}],
        tools=tools,
        temperature=0,
    )
    assert answered.output_text == "The weather in Paris: sunny"


@pytest.mark.parametrize(("model", "waits_for_whole_calls"), [("tiny", True), ("reporting", False)])
def test_a_stream_has_calls_when_they_are_valid_or_arguments_in_pieces(
    client: OpenAI, model: str, waits_for_whole_calls: bool
) -> None:
    create: Any = client.chat.completions.create
    chunks = create(
        model=model,
        messages=[{"role": "user", "content": QUESTION}],
        tools=[{"type": "function", "function": WEATHER}],
        temperature=0,
        stream=True,
    )
    choices = [choice for chunk in chunks for choice in chunk.choices]
    calls = [call.function for choice in choices for call in choice.delta.tool_calls or () if call.function]
    pieces = [call.arguments for call in calls if call.arguments]
    assert calls[0].name == "get_weather"
    assert json.loads("".join(pieces)) == {"city": "Paris"}
    assert (len(pieces) == 1) is waits_for_whole_calls
    assert choices[-1].finish_reason == "tool_calls"
    assert not "".join(choice.delta.content or "" for choice in choices)
