"""Token counts and truncation on real engines."""

from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI

from tests.integration.engines import CONTEXT, Engine
from tests.serving import serving

WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": None,
}
WAYS = {"openai_compatible": ["turn", "chat", "template", "responses"], "vllm": ["turn", "tokenize"]}
"""Type of provider -> the ways its engine counts."""

REQUESTS: dict[str, Any] = {
    "a question": {"input": "What is the capital of France?"},
    "instructions": {"input": "Hi", "instructions": "Be brief."},
    "tools": {"input": "What is the weather in Paris?", "tools": [WEATHER]},
    "a conversation": {
        "input": [
            {"role": "user", "content": "My name is Ada."},
            {"role": "assistant", "content": "Nice to meet you, Ada."},
            {"role": "user", "content": "What is my name?"},
        ]
    },
    "a tool that was called": {
        "input": [
            {"role": "user", "content": "What is the weather in Paris?"},
            {"type": "function_call", "call_id": "a", "name": "get_weather", "arguments": '{"city": "Paris"}'},
            {"type": "function_call_output", "call_id": "a", "output": "sunny"},
        ],
        "tools": [WEATHER],
    },
}


@pytest.fixture(scope="module")
def counting_client(engine: Engine) -> Iterator[OpenAI]:
    """The engine as a model for each way of counting, named like it."""
    capabilities = {
        way: {"provider": "engine", "model": "tiny", "capabilities": {"counting": way}} for way in WAYS[engine.kind]
    }
    config = {"providers": {"engine": {"type": engine.kind, "base_url": f"{engine.url}/v1"}}, "models": capabilities}
    with (
        serving(config) as gateway,
        OpenAI(base_url=gateway.v1, api_key="none", max_retries=0, timeout=60) as client,
    ):
        yield client


@pytest.mark.parametrize("request_args", REQUESTS.values(), ids=REQUESTS)
def test_a_count_equals_the_usage_of_the_response(counting_client: OpenAI, engine: Engine, request_args: Any) -> None:
    answered = counting_client.responses.create(model="turn", **request_args, max_output_tokens=16, store=False)
    assert answered.usage is not None
    for way in WAYS[engine.kind]:
        counted = counting_client.responses.input_tokens.count(model=way, **request_args)
        assert (way, counted.input_tokens) == (way, answered.usage.input_tokens)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_conversation_beyond_the_context_is_answered_without_its_beginning(
    counting_client: OpenAI, stream: bool
) -> None:
    long = "river " * (CONTEXT + 100)
    history: Any = [{"role": role, "content": long if role == "user" else "Hm."} for role in ("user", "assistant") * 3]
    body: Any = {"model": "turn", "input": [*history, {"role": "user", "content": "What is the capital of France?"}]}
    raw: Any = counting_client.responses.with_raw_response
    reply = raw.create(**body, truncation="auto", store=False, stream=stream)
    assert "input=truncated" in reply.headers["x-gateway-loss"]
    response = list(reply.parse())[-1].response if stream else reply.parse()
    assert response.output_text == "The capital of France is Paris."
