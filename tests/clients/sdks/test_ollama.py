"""Ollama's client for Python: before a strict chat upstream, before one with the Responses API, and a real engine."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.clients.client_processes import InstalledClients
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import chat_calls, chat_chunk, chat_sse, chat_text, error_reply
from tests.upstream.builders import text_chunks

Do = Callable[..., Awaitable[Any]]

ADDS = chat_calls(("add", '{"a":2,"b":40}'))


@pytest.fixture
def do(clients: InstalledClients, front: Gateway) -> Do:
    async def run(case: str, model: str = "some-model") -> Any:
        return await clients.run_program("sdks/ollama_python.py", case, BASE_URL=front.url, MODEL=model)

    return run


async def test_a_reply_is_whole(do: Do, answer: Answer) -> None:
    answer(chat_text("It is ", "42."))
    assert await do("text") == {"text": "It is 42.", "done_reason": "stop", "counts": [9, 3]}


async def test_a_reply_streams(do: Do, answer: Answer) -> None:
    answer(chat_text("It is ", "42."))
    got = await do("text_streamed")
    assert ("".join(got["deltas"]), got["done_reason"]) == ("It is 42.", "stop")


async def test_thinking_is_apart(do: Do, answer: Answer) -> None:
    chunks = [chat_chunk({"role": "assistant", "reasoning_content": "A sum."}), *text_chunks("It is 42.")]
    answer(chat_sse(chunks))
    assert await do("thinking") == {"thought": "A sum.", "text": "It is 42."}


async def test_a_prompt_is_continued_with_options(do: Do, answer: Answer) -> None:
    answer(chat_text("It is 42."))
    assert await do("generated") == {"text": "It is 42.", "done_reason": "stop"}


async def test_functions_of_python_are_called(do: Do, answer: Answer) -> None:
    answer(ADDS, chat_text("It is 42."))
    assert await do("tools") == {"text": "It is 42.", "outputs": ["42"]}


async def test_an_answer_has_the_form_of_a_schema(do: Do, answer: Answer) -> None:
    answer(chat_text('{"total":42}'))
    assert await do("schema") == {"total": 42}


async def test_models_are_listed_and_described(do: Do) -> None:
    got = await do("models")
    assert "demo" in got["names"]
    assert "completion" in got["capabilities"]


async def test_failures_are_errors_of_the_client(do: Do, answer: Answer) -> None:
    answer(error_reply(429, "slow down"))
    assert await do("refused") == {"status": 429, "error": "slow down"}


async def test_a_stream_that_breaks_off_is_an_error_of_the_client(do: Do, answer: Answer) -> None:
    answer(chat_sse([text_chunks("Hi")[0], chat_chunk({"content": "Hi"})], done=False))
    assert await do("broken") == {"failed": True}


async def test_a_real_engine_calls_functions_of_python(clients: InstalledClients, engine_gateway: Gateway) -> None:
    environ = {"BASE_URL": engine_gateway.url, "MODEL": "tiny:latest", "PROMPT": "Use add for 2 and 40."}
    got = await clients.run_program("sdks/ollama_python.py", "tools", **environ)
    assert got == {"text": "The answer is 42.", "outputs": ["42"]}
