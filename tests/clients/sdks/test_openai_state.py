"""The official SDKs and all stored state, with a chat upstream and a Responses upstream."""

import asyncio
from typing import Any

import pytest

from tests.clients.client_processes import ClientProgram, InstalledClients
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import (
    Exchange,
    Hang,
    Pause,
    Reply,
    Request,
    ScriptedUpstream,
    chat_calls,
    chat_chunk,
    chat_text,
    sse_reply,
)
from tests.upstream.builders import DONE, data_frame

GONE = ["NotFoundError", None, None]


@pytest.fixture(params=["sdks/openai_state.py", "sdks/openai_state.mjs"], ids=["Python", "JavaScript"])
def sdk(request: pytest.FixtureRequest, clients: InstalledClients, stateful_gateway: Gateway) -> ClientProgram:
    return clients.program(request.param, BASE_URL=stateful_gateway.v1)


def sent_texts(request: Request) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in request.json["messages"]]


def streamed(*steps: Any) -> Reply:
    """A chat stream with the text "Good " before these steps."""
    opening = [
        data_frame(chat_chunk({"role": "assistant", "content": ""})),
        data_frame(chat_chunk({"content": "Good "})),
    ]
    return sse_reply(*opening, *steps)


async def test_a_response_is_continued(sdk: ClientProgram, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_text("Good day, Ada."), chat_text("Ada."), chat_text("Yes."))
    assert await sdk.do("continued") == {"text": "Yes.", "linked": [True, True], "same": True}
    assert sent_texts(upstream.requests[0])[0] == ("system", "Be brief.")
    assert sent_texts(upstream.requests[2]) == [
        ("user", "I am Ada."),
        ("assistant", "Good day, Ada."),
        ("user", "Who am I?"),
        ("assistant", "Ada."),
        ("user", "Are you sure?"),
    ]


async def test_a_deleted_response_is_unknown_but_its_history_remains(
    sdk: ClientProgram, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(chat_text("Good day."))
    assert await sdk.do("deleted") == {
        "gone": GONE,
        "continued": ["BadRequestError", "previous_response_not_found", "previous_response_id"],
    }
    assert [text for role, text in sent_texts(upstream.requests[-1]) if role == "user"] == ["Root", "Left", "Leaf"]


async def test_the_result_of_a_call_continues_it(
    sdk: ClientProgram, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(chat_calls(("add", '{"a":2,"b":40}')), chat_text("It is 42."))
    assert await sdk.do("tools") == "It is 42."
    assert [message["role"] for message in upstream.requests[1].json["messages"]] == ["user", "assistant", "tool"]


async def test_input_items_are_read_page_by_page(sdk: ClientProgram, answer: Answer) -> None:
    answer(chat_text("Good day."))
    assert await sdk.do("paged") == {"asc": list("01234"), "default": list("43210")}


async def test_a_conversation_is_stored(sdk: ClientProgram, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_text("Ada."))
    assert await sdk.do("conversation") == {
        "text": "Ada.",
        "within": True,
        "said": ["I am Ada.", "Who am I?", "Ada.", "Thanks."],
        "same": True,
        "topic": {"topic": "Ada"},
        "left": ["Ada.", "Who am I?", "I am Ada."],
        "deleted": True,
        "gone": GONE,
    }
    assert sent_texts(upstream.requests[0]) == [("user", "I am Ada."), ("user", "Who am I?")]


async def test_a_background_response_is_polled(sdk: ClientProgram, answer: Answer) -> None:
    answer(chat_text("Good ", "day."))
    assert await sdk.do("background") == {"began": "queued", "status": "completed", "text": "Good day."}


async def test_a_stream_is_resumed_without_gap_or_repetition(sdk: ClientProgram, answer: Answer) -> None:
    going_on = asyncio.Event()

    async def open_gate(exchange: Exchange) -> None:
        going_on.set()
        await chat_text("It may.")(exchange)

    end = [data_frame(chat_chunk({"content": "day."})), data_frame(chat_chunk({}, "stop")), DONE]
    answer(streamed(Pause(going_on), *end), open_gate)
    assert await sdk.do("resumed") == {
        "once": True,
        "deltas": ["Good ", "day."],
        "text": "Good day.",
        "replayed": ["response.completed"],
        "same": True,
    }


async def test_a_cancelled_response_ends_at_the_upstream_too(
    sdk: ClientProgram, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(streamed(Hang()))
    assert await sdk.do("cancelled") == {
        "status": "cancelled",
        "last": "response.incomplete",
        "read": "cancelled",
        "text": "Good ",
    }
    async with asyncio.timeout(60):
        await upstream.requests[0].closed


async def test_chat_completions_are_stored(sdk: ClientProgram, answer: Answer) -> None:
    answer(chat_text("Good day."))
    assert await sdk.do("completions") == {
        "listed": True,
        "topic": {"topic": "c"},
        "text": "Good day.",
        "messages": [["user", "Two"]],
        "deleted": True,
        "left": True,
        "gone": GONE,
    }


async def test_a_compacted_conversation_continues(
    sdk: ClientProgram, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(chat_text("Good day, Ada."), chat_text("They said that they are Ada."), chat_text("Ada."))
    assert await sdk.do("compacted") == {
        "object": "response.compaction",
        "types": ["message", "compaction"],
        "text": "Ada.",
    }
    assert "They said that they are Ada." in str(upstream.requests[2].json["messages"])
    assert "Good day, Ada." not in str(upstream.requests[2].json["messages"])


async def test_the_history_is_counted(sdk: ClientProgram) -> None:
    assert await sdk.do("counted", model="demo") is True


async def test_a_conversation_continues_over_a_websocket_of_the_javascript_sdk(
    clients: InstalledClients, stateful_gateway: Gateway, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(chat_text("Good day."), chat_text("Again."))
    assert await clients.program("sdks/openai_state.mjs", BASE_URL=stateful_gateway.v1).do("websocket") == [
        "Good day.",
        "Again.",
    ]
    assert sent_texts(upstream.requests[1]) == [("user", "Hello"), ("assistant", "Good day."), ("user", "Again")]
