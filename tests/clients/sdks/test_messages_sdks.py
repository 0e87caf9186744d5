"""Anthropic's SDKs, LangChain and the AI SDK on the Messages API, over chat, Responses and a real engine."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.clients.client_processes import InstalledClients
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import ScriptedUpstream, chat_calls, chat_chunk, chat_sse, chat_text, error_reply
from tests.upstream.builders import CHAT_USAGE

ADDS = chat_calls(("add", '{"a":2,"b":40}'))
TEXT = [{"type": "text", "text": "It is 42."}]

Do = Callable[[str], Awaitable[Any]]


@pytest.fixture
def do(clients: InstalledClients, front: Gateway) -> Do:
    async def run(case: str) -> Any:
        return await clients.run_program("sdks/messages.mjs", case, BASE_URL=front.url)

    return run


async def test_a_message_is_whole(do: Do, answer: Answer) -> None:
    answer(chat_text("It is ", "42."))
    got = await do("text")
    assert (got["content"], got["stop_reason"], got["id"][:4]) == (TEXT, "end_turn", "req_")
    assert (got["usage"]["input_tokens"], got["usage"]["output_tokens"]) == (9, 3)


async def test_a_message_streams(do: Do, answer: Answer) -> None:
    answer(chat_text("It is ", "42."))
    assert await do("text_streamed") == {"content": TEXT, "stop_reason": "end_turn"}


async def test_a_tool_runner_continues_without_a_thread(do: Do, answer: Answer) -> None:
    answer(ADDS, chat_text("It is 42."))
    got = await do("tools")
    assert got["content"] == TEXT
    assert [len(body["messages"]) for body in got["sent"] if "thread" not in body] == [1, 3]


async def test_with_a_store_a_tool_runner_sends_only_new_messages(
    clients: InstalledClients, stateful_gateway: Gateway, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(ADDS, chat_text("It is 42."))
    got = await clients.run_program("sdks/messages.mjs", "tools", BASE_URL=stateful_gateway.url)
    assert got["content"] == TEXT
    first, second = got["sent"]
    assert (first["thread"], second["thread"]["type"]) == ({"type": "create"}, "continue")
    assert [block["type"] for message in second["messages"] for block in message["content"]] == ["tool_result"]
    assert not {"system", "tools"} & second.keys()
    body = upstream.requests[-1].json
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
    assert [tool["function"]["name"] for tool in body["tools"]] == ["add"]


@pytest.mark.parametrize("case", ["anthropic", "langchain"])
async def test_clients_in_python_call_functions(
    case: str, clients: InstalledClients, front: Gateway, answer: Answer
) -> None:
    answer(ADDS, chat_text("It is 42."))
    environ = {"BASE_URL": front.url, "MODEL": "some-model", "PROMPT": "Add."}
    assert await clients.run_program("sdks/messages_tools.py", case, **environ) == {"text": "It is 42."}


async def test_an_optional_field_is_parsed_by_the_sdk(
    clients: InstalledClients, front: Gateway, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(chat_text('{"name":"Rome","country":null}'))
    environ = {"BASE_URL": front.url, "MODEL": "some-model", "PROMPT": "Which city?"}
    got = await clients.run_program("sdks/messages_tools.py", "parsed", **environ)
    assert got == {"text": {"name": "Rome", "country": None}}
    # OpenAI enforces only schemas that require every property.
    sent = upstream.requests[0].json["response_format"]["json_schema"]
    assert (sent["strict"], sent["schema"]["required"]) == (True, ["name", "country"])


@pytest.mark.parametrize("case", ["anthropic", "langchain"])
async def test_with_clients_in_python_a_real_model_calls_a_function(
    case: str, clients: InstalledClients, engine_gateway: Gateway
) -> None:
    environ = {"BASE_URL": engine_gateway.url, "MODEL": "tiny", "PROMPT": "Use add for 2 and 40."}
    assert await clients.run_program("sdks/messages_tools.py", case, **environ) == {"text": "The answer is 42."}


@pytest.mark.parametrize("case", ["tools", "ai_tools"])
async def test_a_real_model_calls_a_function(case: str, clients: InstalledClients, engine_gateway: Gateway) -> None:
    environ = {"BASE_URL": engine_gateway.url, "MODEL": "tiny", "PROMPT": "Use add for 2 and 40."}
    got = await clients.run_program("sdks/messages.mjs", case, **environ)
    text = got["text"] if case == "ai_tools" else got["content"][0]["text"]
    assert text == "The answer is 42."


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
