"""Anthropic's SDK for Node and the AI SDK's provider for its API, over a strict chat upstream."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.clients.client_processes import InstalledClients
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import chat_calls, chat_chunk, chat_sse, chat_text, error_reply
from tests.upstream.builders import CHAT_USAGE

ADDS = chat_calls(("add", '{"a":2,"b":40}'))
TEXT = [{"type": "text", "text": "It is 42."}]

Do = Callable[[str], Awaitable[Any]]


@pytest.fixture
def do(clients: InstalledClients, gateway: Gateway) -> Do:
    async def run(case: str) -> Any:
        return await clients.run_program("messages.mjs", case, BASE_URL=gateway.url)

    return run


async def test_a_message_is_whole(do: Do, answer: Answer) -> None:
    answer(chat_text("It is ", "42."))
    got = await do("text")
    assert (got["content"], got["stop_reason"], got["id"][:4]) == (TEXT, "end_turn", "req_")
    assert (got["usage"]["input_tokens"], got["usage"]["output_tokens"]) == (9, 3)


async def test_a_message_streams(do: Do, answer: Answer) -> None:
    answer(chat_text("It is ", "42."))
    assert await do("text_streamed") == {"content": TEXT, "stop_reason": "end_turn"}


async def test_a_runner_of_tools_goes_on_without_a_thread(do: Do, answer: Answer) -> None:
    answer(ADDS, chat_text("It is 42."))
    assert (await do("tools"))["content"] == TEXT


async def test_a_failure_is_the_error_of_the_sdk(do: Do, answer: Answer) -> None:
    answer(error_reply(429, "slow down"))
    assert await do("refused") == {"name": "RateLimitError", "status": 429, "type": "rate_limit_error"}


async def test_the_ai_sdk_streams_thinking_and_text(do: Do, answer: Answer) -> None:
    chunks = [
        chat_chunk({"role": "assistant", "reasoning_content": "A sum."}),
        chat_chunk({"content": "It is 42."}),
        chat_chunk({}, "stop"),
        chat_chunk(usage=CHAT_USAGE),
    ]
    answer(chat_sse(chunks))
    assert await do("ai_text") == {"text": "It is 42.", "thought": "A sum.", "finishReason": "stop"}


async def test_the_ai_sdk_runs_tools(do: Do, answer: Answer) -> None:
    answer(ADDS, chat_text("It is 42."))
    assert await do("ai_tools") == {"text": "It is 42.", "outputs": ["42"]}


async def test_the_ai_sdk_gets_objects_by_a_tool(do: Do, answer: Answer) -> None:
    answer(chat_calls(("json", '{"city":"Rome"}')))
    assert await do("ai_object") == {"output": {"city": "Rome"}}
