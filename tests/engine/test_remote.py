"""The embedded engine and vLLM's own server generate the same for the same request, with one pass and with two."""

from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI

from tests.engine.engine_gateway import engine_python
from tests.integration.engines import vllm
from tests.integration.real_engines.test_engines import WEATHER
from tests.serving import command

QUESTIONS = [
    "What is the capital of France?",
    "What is 3 * 3?",
    "Show me unicode.",
    "Write hello world in Python.",
    "Think in 5 steps about river.",
]
TWO_PASS = {"tool_parser": "hermes", "two_pass": True, "max_thinking_tokens": 64, "bridge": "Now I answer."}


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    folder = tmp_path_factory.mktemp("remote")
    with vllm(engine_python(), folder / "server.log") as server:
        model = {"provider": "engine", "model": "tiny", "thinking_switch": "chat_template_kwargs"}
        config = {
            "providers": {"engine": {"type": "vllm", "base_url": f"{server.url}/v1"}},
            "models": {"tiny": model, "two": {**model, **TWO_PASS}},
        }
        with (
            command(config, folder) as gateway,
            OpenAI(base_url=gateway.v1, api_key="none", max_retries=0, timeout=60) as client,
        ):
            yield client


def ask_model(client: OpenAI, model: str, question: str, **options: Any) -> Any:
    response = client.responses.create(model=model, input=question, temperature=0, **options)
    items = [item.model_dump(exclude={"id", "call_id"}, exclude_none=True) for item in response.output]
    texts = [str(part["text"]).strip() for item in items for part in item.get("content") or ()]
    calls = [(item["name"], item["arguments"]) for item in items if item["type"] == "function_call"]
    return texts, calls


@pytest.mark.parametrize("model", ["tiny", "two"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_both_generate_the_same_answer(question: str, model: str, client: OpenAI, remote: OpenAI) -> None:
    assert ask_model(client, model, question) == ask_model(remote, model, question)


@pytest.mark.parametrize("model", ["tiny", "two"])
def test_both_make_the_same_calls(model: str, client: OpenAI, remote: OpenAI) -> None:
    tools: Any = [{"type": "function", "strict": False, **WEATHER}]
    question = "What is the weather in Paris and Rome?"
    assert ask_model(client, model, question, tools=tools) == ask_model(remote, model, question, tools=tools)


def test_both_read_a_prompt_as_the_same_tokens(client: OpenAI, remote: OpenAI) -> None:
    tools: Any = [{"type": "function", "strict": False, **WEATHER}]
    counts = {
        each.responses.input_tokens.count(model="tiny", input="What is 3 + 4?", tools=tools).input_tokens
        for each in (client, remote)
    }
    assert len(counts) == 1
