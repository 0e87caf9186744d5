"""Vercel's AI SDK with state on the server: by default it refers to earlier items by id."""

from typing import Any

import pytest

from tests.clients.client_processes import ClientProgram, InstalledClients
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import Script, ScriptedUpstream, chat_calls, chat_chunk, chat_json, chat_sse, chat_text
from tests.upstream.builders import CHAT_USAGE, either

ADD = ("add", '{"a":2,"b":40}')
ADDS = chat_calls(ADD)
CALL = {"id": "call_0", "type": "function", "function": dict(zip(("name", "arguments"), ADD, strict=True))}
ANSWERS = (chat_text("Good day, Ada. It is 42."), chat_text("Ada."))
WHOLE = ["user", "assistant", "tool", "assistant", "user"]
"""The roles in a conversation of two turns, with a tool in the first."""


@pytest.fixture
def sdk(clients: InstalledClients, stateful_gateway: Gateway) -> ClientProgram:
    return clients.program("frameworks/ai_sdk_state.mjs", BASE_URL=stateful_gateway.v1)


def thinks_and_adds() -> Script:
    chunks = [
        chat_chunk({"role": "assistant", "reasoning_content": "They want a sum."}),
        chat_chunk({"tool_calls": [{**CALL, "index": 0}]}),
        chat_chunk({}, "tool_calls"),
        chat_chunk(usage=CHAT_USAGE),
    ]
    whole = chat_json(finish_reason="tool_calls", reasoning_content="They want a sum.", tool_calls=[CALL])
    return either(chat_sse(chunks), whole)


def sent_messages(upstream: ScriptedUpstream) -> list[dict[str, Any]]:
    """Returns the messages of the last upstream request."""
    messages: list[dict[str, Any]] = upstream.requests[-1].json["messages"]
    return messages


@pytest.mark.parametrize("case", ["whole", "streamed"])
async def test_references_are_followed(
    case: str, sdk: ClientProgram, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(ADDS, *ANSWERS)
    got = await sdk.do(case)
    assert got["text"] == "Ada."
    assert got["sent"][2] == ["user", "function_call", "function_call_output", "item_reference", "user"]
    assert [message["role"] for message in sent_messages(upstream)] == WHOLE
    assert sent_messages(upstream)[3]["content"] == "Good day, Ada. It is 42."


@pytest.mark.parametrize("case", ["whole", "streamed"])
async def test_thoughts_are_sent_back_by_reference(
    case: str, sdk: ClientProgram, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(thinks_and_adds(), *ANSWERS)
    got = await sdk.do(case)
    assert got["sent"][1] == ["user", "item_reference", "function_call", "function_call_output"]
    assert got["text"] == "Ada."
    assert sent_messages(upstream)[1]["reasoning_content"] == "They want a sum."


async def test_a_response_is_continued(sdk: ClientProgram, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(ADDS, *ANSWERS)
    got = await sdk.do("chained")
    assert (got["text"], got["sent"][2]) == ("Ada.", ["user"])
    assert [message["role"] for message in sent_messages(upstream)] == WHOLE


async def test_a_conversation_is_stored(sdk: ClientProgram, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(ADDS, *ANSWERS)
    got = await sdk.do("conversation")
    assert (got["text"], got["sent"][2]) == ("Ada.", ["user"])
    # With the result of a tool it sends the user message again, as it does in every conversation.
    assert got["sent"][1] == ["user", "function_call_output"]
    assert [message["role"] for message in sent_messages(upstream)] == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
        "user",
    ]
