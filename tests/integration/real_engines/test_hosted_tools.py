"""Real engines with tools that the gateway runs: an MCP server is called in one response, in one pass and in two."""

from collections.abc import Iterator
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.integration.engines import Engine
from tests.mcp_server import CountingServer
from tests.serving import command

LABEL = "get"
"""The label of the server, so that its tool `weather` has the only name that the tiny model knows: `get_weather`."""

PLAIN = {"provider": "engine", "model": "tiny", "thinking_switch": "chat_template_kwargs"}
TWO_PASS = {"tool_parser": "hermes", "two_pass": {"max_thinking_tokens": 64, "bridge": "Now I answer."}}


@pytest.fixture(scope="module")
def client(
    engine: Engine, counting_server: CountingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenAI]:
    kind = "vllm" if engine.kind == "vllm" else "llama_server"
    two_pass = {"provider": "engine", "model": "tiny", **TWO_PASS}
    server = {"url": counting_server.url, "approval": "never", "allow": ["weather"]}
    config = {
        "egress": {"allow": ["127.0.0.1"]},
        "providers": {"engine": {"type": kind, "base_url": f"{engine.url}/v1"}},
        "tools": {"mcp": {"servers": {LABEL: server}}},
        "models": {
            "tiny": PLAIN,
            "two": two_pass,
            "tiny with tools": {**PLAIN, "tools": {"mcp": [LABEL]}},
            "two with tools": {**two_pass, "tools": {"mcp": [LABEL]}},
        },
    }
    with (
        command(config, tmp_path_factory.mktemp("gateway"), forked=True) as gateway,
        OpenAI(base_url=gateway.v1, api_key="none", max_retries=0, timeout=60) as client,
    ):
        yield client


def _respond(client: OpenAI, *, streams: bool, **body: Any) -> Any:
    if not streams:
        return client.responses.create(temperature=0, **body)
    with client.responses.create(temperature=0, stream=True, **body) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events].count("response.created") == 1
    last = events[-1]
    assert last.type == "response.completed"
    return last.response


def _weather_tool(server: CountingServer) -> Any:
    return {
        "type": "mcp",
        "server_label": LABEL,
        "server_url": server.url,
        "require_approval": "never",
        "allowed_tools": ["weather"],
    }


def _texts_of(response: Any, kind: str) -> list[str]:
    return ["".join(part.text for part in item.content) for item in response.output if item.type == kind]


def check_weather(client: OpenAI, calc: CountingServer, model: str, *, streams: bool) -> None:
    """Checks a response in which the model calls a tool twice at once and answers with the results."""
    calc.runs.clear()
    question = "What is the weather in Paris and Rome?"
    response = _respond(client, streams=streams, model=model, input=question, tools=[_weather_tool(calc)])
    calls = [item for item in response.output if item.type == "mcp_call"]
    assert [(call.name, call.arguments, call.output) for call in calls] == [
        ("weather", '{"city": "Paris"}', "sunny, 21 C"),
        ("weather", '{"city": "Rome"}', "rainy, 9 C"),
    ]
    assert [item.type for item in response.output] == [
        "mcp_list_tools",
        "reasoning",
        "mcp_call",
        "mcp_call",
        "reasoning",
        "message",
    ]
    assert [thought.strip() for thought in _texts_of(response, "reasoning")] == [
        "I need get_weather for Paris and Rome.",
        "The tools returned sunny, 21 C and rainy, 9 C",
    ]
    assert response.output_text.strip() == "The weather in Paris: sunny, 21 C. The weather in Rome: rainy, 9 C"
    assert calc.runs == {"weather": 2}
    assert response.usage.output_tokens_details.reasoning_tokens < response.usage.output_tokens
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", ["tiny", "two"])
def test_a_thinking_model_has_its_tool_run_in_one_response(
    client: OpenAI, calc: CountingServer, model: str, streams: bool
) -> None:
    check_weather(client, calc, model, streams=streams)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", ["tiny with tools", "two with tools"])
def test_a_chat_completion_has_the_tool_of_its_model_run(
    client: OpenAI, calc: CountingServer, model: str, streams: bool
) -> None:
    calc.runs.clear()
    messages: Any = [{"role": "user", "content": "What is the weather in Paris and Rome?"}]
    reply: Any = client.chat.completions.create(model=model, messages=messages, temperature=0, stream=streams)
    if streams:
        choices = [choice for chunk in reply for choice in chunk.choices]
        content = "".join(choice.delta.content or "" for choice in choices)
        reasons = [choice.finish_reason for choice in choices if choice.finish_reason]
    else:
        content, reasons = reply.choices[0].message.content, [reply.choices[0].finish_reason]
    assert content.strip() == "The weather in Paris: sunny, 21 C. The weather in Rome: rainy, 9 C"
    assert reasons == ["stop"]
    assert calc.runs == {"weather": 2}


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", ["tiny with tools", "two with tools"])
def test_a_message_has_the_tool_of_its_model_run(
    client: OpenAI, calc: CountingServer, model: str, streams: bool
) -> None:
    calc.runs.clear()
    question: Any = [{"role": "user", "content": "What is the weather in Paris and Rome?"}]
    body: dict[str, Any] = {"model": model, "messages": question, "max_tokens": 512, "extra_body": {"temperature": 0}}
    origin = str(client.base_url).removesuffix("/v1/")
    with Anthropic(base_url=origin, api_key="none", max_retries=0, timeout=60) as messages:
        if streams:
            with messages.messages.stream(**body) as stream:
                message = stream.get_final_message()
        else:
            message = messages.messages.create(**body)
    text = "".join(block.text for block in message.content if block.type == "text")
    assert text.strip() == "The weather in Paris: sunny, 21 C. The weather in Rome: rainy, 9 C"
    assert message.stop_reason == "end_turn"
    assert {block.type for block in message.content} <= {"thinking", "text"}, "the client knows of no call"
    assert calc.runs == {"weather": 2}


def test_the_answer_without_a_tool_is_as_ever(client: OpenAI, calc: CountingServer) -> None:
    response = _respond(
        client, streams=False, model="tiny", input="What is the capital of France?", tools=[_weather_tool(calc)]
    )
    assert [item.type for item in response.output] == ["mcp_list_tools", "reasoning", "message"]
    assert response.output_text.strip() == "The capital of France is Paris."
