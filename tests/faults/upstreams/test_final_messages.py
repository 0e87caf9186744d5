"""The official SDKs read the whole answer where a chat upstream's last message holds more than its deltas.

An answer that contradicts its deltas is an error for them, never a whole answer.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from anthropic import APIStatusError, AsyncAnthropic
from openai import APIError, AsyncOpenAI

from tests.serving import Gateway, serving
from tests.upstream import ScriptedUpstream, chat_chunk, chat_sse

CALL = {"index": 0, "id": "a", "type": "function", "function": {"name": "look_up", "arguments": '{"city": "Paris"}'}}


def stream(*deltas: dict[str, Any], message: dict[str, Any], reason: str = "stop") -> list[dict[str, Any]]:
    """Returns many deltas, so that some take the fast path, and a last chunk with the message."""
    last = chat_chunk({}, reason)
    last["choices"][0]["message"] = {"role": "assistant", **message}
    return [chat_chunk({"role": "assistant", "content": ""}), *map(chat_chunk, deltas), last]


WORDS = [{"content": f"word{number} "} for number in range(40)]
STREAMED = "".join(delta["content"] for delta in WORDS)
MORE = stream(*WORDS, message={"content": f"{STREAMED}end."})
OTHER = stream(*WORDS, message={"content": f"other {STREAMED}"})
HALF_CALL = {**CALL, "function": {"name": "look_up", "arguments": '{"city"'}}
CALLS = stream({"tool_calls": [HALF_CALL]}, message={"tool_calls": [CALL]}, reason="tool_calls")


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as scripted:
        yield scripted


@pytest.fixture
def gateway(upstream: ScriptedUpstream) -> Any:
    provider = {"type": "openai_compatible", "base_url": upstream.url, "dialects": ["chat"]}
    with serving({"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}) as running:
        yield running


async def ask_chat(gateway: Gateway) -> tuple[str, str]:
    """Returns (text, arguments) of a relayed completion, as the SDK adds its chunks up."""
    messages: Any = [{"role": "user", "content": "Hi"}]
    async with (
        AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client,
        client.chat.completions.stream(model="m", messages=messages) as stream,
    ):
        message = (await stream.get_final_completion()).choices[0].message
    calls = message.tool_calls or []
    return message.content or "", "".join(call.function.arguments for call in calls)


async def ask_responses(gateway: Gateway) -> tuple[str, str]:
    async with (
        AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client,
        client.responses.stream(model="m", input="Hi", store=False) as stream,
    ):
        response = await stream.get_final_response()
    if response.status == "failed":
        raise RuntimeError(response.error)
    arguments = [item.arguments for item in response.output if item.type == "function_call"]
    return response.output_text, "".join(arguments)


async def ask_messages(gateway: Gateway) -> tuple[str, str]:
    messages: Any = [{"role": "user", "content": "Hi"}]
    async with (
        AsyncAnthropic(base_url=gateway.v1.removesuffix("/v1"), api_key="none", max_retries=0) as client,
        client.messages.stream(model="m", max_tokens=100, messages=messages) as stream,
    ):
        message = await stream.get_final_message()
    text = "".join(block.text for block in message.content if block.type == "text")
    inputs = [block.input for block in message.content if block.type == "tool_use"]
    return text, '{"city": "Paris"}' if inputs == [{"city": "Paris"}] else str(inputs or "")


WAYS = {"chat": ask_chat, "Responses": ask_responses, "Messages": ask_messages}


@pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS)
async def test_an_sdk_reads_what_only_the_last_message_has(
    ask: Any, upstream: ScriptedUpstream, gateway: Gateway
) -> None:
    upstream.script(chat_sse(MORE))
    assert (await ask(gateway))[0] == f"{STREAMED}end."
    upstream.script(chat_sse(CALLS))
    assert (await ask(gateway))[1] == '{"city": "Paris"}'


@pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS)
async def test_an_sdk_fails_where_the_last_message_is_another(
    ask: Any, upstream: ScriptedUpstream, gateway: Gateway
) -> None:
    upstream.script(chat_sse(OTHER))
    with pytest.raises((APIError, APIStatusError, RuntimeError)):
        await ask(gateway)
