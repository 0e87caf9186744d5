"""Streams with odd contents never read as another answer: clients get what the upstream meant, or a failure.

The streams are those of `tests/upstream/odd_streams.py`. What clients of other APIs than the upstream's get is read
strictly; clients of the same API, whose streams are relayed, are the official SDKs.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import openai
import pytest

from tests.faults.client_view import CHAT, GEMINI, MESSAGES, OLLAMA, RESPONSES, Seen, ask
from tests.faults.config import StartGateway, config
from tests.upstream import Reply, ScriptedUpstream
from tests.upstream.builders import SSE
from tests.upstream.odd_streams import ODD_STREAMS, Odd
from tests.upstream.ollama import LINES

Ask = Callable[[str], Awaitable[Seen]]
MODEL = "scripted-model"
FAILED = Seen(200, "failed")
TOOLS: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


async def ask_chat_sdk(base_url: str) -> Seen:
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        messages: Any = [{"role": "user", "content": "Hi"}]
        chunks = await client.chat.completions.create(model=MODEL, messages=messages, stream=True)
        text, calls, reason = "", dict[int, list[str]](), None
        async for chunk in chunks:
            if not chunk.choices:
                continue
            choice = chunk.choices[0]  # as nearly all programs do
            text += (choice.delta.content or "") + (choice.delta.refusal or "")
            for call in choice.delta.tool_calls or ():
                name, arguments = calls.get(call.index, ["", ""])
                assert call.function is not None
                calls[call.index] = [name + (call.function.name or ""), arguments + (call.function.arguments or "")]
            reason = choice.finish_reason or reason
    ending = "incomplete" if reason in ("length", "content_filter") else "completed"
    return Seen(200, ending, text=text, calls=tuple((name, arguments) for name, arguments in calls.values()))


async def ask_responses_sdk(base_url: str) -> Seen:
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        deltas, final = "", None
        async for event in await client.responses.create(model=MODEL, input="Hi", stream=True, store=False):
            if event.type == "response.output_text.delta":
                deltas += event.delta
            elif event.type in ("response.completed", "response.incomplete", "response.failed"):
                final = getattr(event, "response")  # noqa: B009  # mypy narrows no union by these names
    if final is None or final.status == "failed":
        return FAILED
    assert final.output_text == deltas
    calls = tuple((item.name, item.arguments) for item in final.output if item.type == "function_call")
    return Seen(200, final.status, text=deltas, calls=calls)


async def ask_messages_sdk(base_url: str) -> Seen:
    messages: Any = [{"role": "user", "content": "Hi"}]
    async with (
        anthropic.AsyncAnthropic(base_url=base_url.removesuffix("/v1"), api_key="none", max_retries=0) as client,
        client.messages.stream(model=MODEL, max_tokens=100, messages=messages) as stream,
    ):
        message = await stream.get_final_message()
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = tuple((block.name, json.dumps(block.input)) for block in message.content if block.type == "tool_use")
    return Seen(200, "incomplete" if message.stop_reason == "max_tokens" else "completed", text=text, calls=calls)


def ask_with_sdk(ask_sdk: Ask) -> Ask:
    """Returns a way to ask in which every error of the SDK is a failure. A relayed stream may fail where a translated
    one is repaired."""

    async def ask_safely(base_url: str) -> Seen:
        try:
            return await ask_sdk(base_url)
        except (openai.APIError, anthropic.APIError, TypeError, AttributeError, ValueError, LookupError):
            return FAILED

    return ask_safely


def ask_strictly(path: str, **more: Any) -> Ask:
    return lambda base_url: ask(base_url, path, stream=True, **more)


TRANSLATED: dict[str, Ask] = {
    "chat": ask_strictly(CHAT, extensions=True),
    "responses": ask_strictly(RESPONSES),
    "anthropic": ask_strictly(MESSAGES),
    "gemini": ask_strictly(GEMINI),
    "ollama": ask_strictly(OLLAMA),
}
RELAYED: dict[str, Ask] = {
    "chat": ask_with_sdk(ask_chat_sdk),
    "responses": ask_with_sdk(ask_responses_sdk),
    "anthropic": ask_with_sdk(ask_messages_sdk),
}
"""Dialect -> how clients of the same dialect ask, whose streams are relayed."""


READ_FROM_DELTAS = {"two inputs"}
"""Relayed streams that are forwarded as they came: the API says that deltas replace what a block began with."""


@pytest.mark.parametrize("api", TRANSLATED)
@pytest.mark.parametrize("dialect", ODD_STREAMS)
async def test_odd_streams_read_as_what_they_mean_or_fail(dialect: str, api: str, gateway: StartGateway) -> None:
    ask_api = RELAYED[api] if dialect == api and api in RELAYED else TRANSLATED[api]
    ask_all = [RELAYED[api], TRANSLATED[api]] if dialect == api == "chat" else [ask_api]
    wrong: dict[str, Any] = {}
    async with ScriptedUpstream() as upstream:
        serving = gateway(config(upstream.url, dialect))
        for name, odd in ODD_STREAMS[dialect].items():
            upstream.script(Reply(headers=LINES if dialect == "ollama" else SSE, body=odd.stream))
            for seen in await asyncio.gather(*(each(serving.v1) for each in ask_all)):
                is_relayed = ask_api is RELAYED.get(api)
                if not (is_right(seen, odd, api) or (is_relayed and (seen is FAILED or name in READ_FROM_DELTAS))):
                    wrong[name] = seen
    assert wrong == {}, wrong


def is_right(seen: Seen, odd: Odd, api: str) -> bool:
    has_failed = seen.ending in ("failed", "refused")
    if odd.ending == "failed" or has_failed:
        return odd.ending == "failed" and has_failed
    if seen.text != odd.text or (seen.ending != odd.ending and api != "ollama"):
        return False
    return api == "ollama" or [(name, json.loads(arguments)) for name, arguments in seen.calls] == [
        (name, json.loads(arguments)) for name, arguments in odd.calls
    ]
