"""`truncation: auto`: an input over the context loses its beginning, and the reply reports that."""

from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, InternalServerError

from tests.context.small_window_model import Reader
from tests.upstream.builders import error_reply, sse_reply

Json = dict[str, Any]
LOSS = "x-gateway-loss"


def message(role: str, text: str) -> Json:
    return {"role": role, "content": text}


HISTORY: list[Json] = [
    message("system", "rules rules"),
    *(message(role, f"{role} {turn} " + "word " * 10) for turn in range(4) for role in ("user", "assistant")),
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
    {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "a", "output": "forty-two"},
    message("user", "and now?"),
]


async def create_response(client: AsyncOpenAI, *, stream: bool, **args: Any) -> tuple[str | None, Any]:
    """The header of losses, and the response."""
    raw: Any = client.responses.with_raw_response
    reply = await raw.create(model="m", input=HISTORY, stream=stream, **args)
    if not stream:
        return reply.headers.get(LOSS), reply.parse()
    events = [event async for event in reply.parse()]
    return reply.headers.get(LOSS), events[-1].response


STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@STREAMED
async def test_an_input_within_the_context_is_sent_whole(client: AsyncOpenAI, reader: Reader, stream: bool) -> None:
    lost, response = await create_response(client, stream=stream, truncation="auto")
    assert (lost, response.truncation, response.output_text) == (None, "auto", "ok")
    assert len(reader.bodies) == 1


@STREAMED
async def test_truncated_items_are_stored_with_the_response(client: AsyncOpenAI, reader: Reader, stream: bool) -> None:
    reader.room = 60
    lost, response = await create_response(client, stream=stream, truncation="auto")
    stored = await client.responses.with_raw_response.retrieve(response.id)
    assert stored.headers[LOSS] == lost
    assert "input=truncated" in stored.headers[LOSS].split(", ")


@STREAMED
async def test_an_input_over_the_context_loses_its_beginning(client: AsyncOpenAI, reader: Reader, stream: bool) -> None:
    reader.room = 60
    lost, response = await create_response(client, stream=stream, truncation="auto")
    assert lost is not None
    assert "input=truncated" in lost.split(", ")
    assert (response.status, response.truncation) == ("completed", "auto")
    assert response.usage.input_tokens <= 60
    roles = [role for role, _ in reader.last]
    assert roles[:2] == ["system", "user"]
    assert roles[-3:] == ["assistant", "tool", "user"]
    assert reader.last[-1] == ("user", "and now?")


async def test_the_stored_input_of_a_truncated_response_is_complete(client: AsyncOpenAI, reader: Reader) -> None:
    reader.room = 60
    _, response = await create_response(client, stream=False, truncation="auto")
    items = await client.responses.input_items.list(response.id, limit=100)
    assert len(items.data) == len(HISTORY)


async def test_a_call_never_loses_its_output(client: AsyncOpenAI, reader: Reader) -> None:
    for room in range(5, 130, 8):
        reader.room = room
        await create_response(client, stream=False, truncation="auto")
        roles = [role for role, _ in reader.last]
        assert ("tool" in roles) == (roles[-3:] == ["assistant", "tool", "user"])


@STREAMED
async def test_items_that_must_stay_and_do_not_fit_are_refused(
    client: AsyncOpenAI, reader: Reader, stream: bool
) -> None:
    reader.room = 3
    with pytest.raises(BadRequestError) as refused:
        await create_response(client, stream=stream, truncation="auto")
    assert refused.value.code == "context_length_exceeded"
    assert len(reader.bodies) <= 6


async def test_without_truncation_nothing_is_left_out(client: AsyncOpenAI, reader: Reader) -> None:
    reader.room = 60
    for args in ({}, {"truncation": "disabled"}):
        with pytest.raises(BadRequestError) as refused:
            await create_response(client, stream=False, **args)
        assert refused.value.code == "context_length_exceeded"
    assert len(reader.bodies) == 2


async def test_an_overflow_inside_a_reply_with_status_200_is_recognized(client: AsyncOpenAI, reader: Reader) -> None:
    told = b'data: {"error":{"message":"prompt is too long","code":"context_length_exceeded"}}\n\n'
    reader.answers = [sse_reply(told)]
    lost, _ = await create_response(client, stream=True, truncation="auto")
    assert "input=truncated" in (lost or "")
    assert len(reader.bodies) == 2


async def test_other_failures_are_not_retried(client: AsyncOpenAI, reader: Reader) -> None:
    reader.answers = [error_reply(400, "no such tool", code="bad")]
    with pytest.raises(BadRequestError):
        await create_response(client, stream=False, truncation="auto")
    reader.answers = [sse_reply(b'data: {"error":{"message":"no","code":"invalid_prompt"}}\n\n')]
    with pytest.raises(InternalServerError):
        await create_response(client, stream=True, truncation="auto")
    assert len(reader.bodies) == 2


async def test_a_compacted_context_that_still_does_not_fit_is_shortened(client: AsyncOpenAI, reader: Reader) -> None:
    first = await client.responses.create(model="m", input="word " * 50)
    steps: list[Any] = [message("user", "go"), *HISTORY[9:12], message("assistant", "word " * 40), *HISTORY[-1:]]
    reader.room = 52
    with pytest.raises(BadRequestError):
        await client.responses.create(model="m", previous_response_id=first.id, input=steps)
    managed: list[Any] = [{"type": "compaction", "compact_threshold": 20}]
    reader.room = 400
    response = await client.responses.create(
        model="m", previous_response_id=first.id, input=steps, context_management=managed, truncation="auto"
    )
    assert [item.type for item in response.output] == ["compaction", "message"]
