"""The Responses API over WebSockets, on a real socket before a scripted upstream."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.faults.client_view import RESPONSES, client, frames, question
from tests.faults.config import config
from tests.polling import PROMPT_S
from tests.serving import serving
from tests.upstream import Hang, Pause, Reply, ScriptedUpstream, chat_text, error_reply
from tests.upstream.builders import SSE, chat_chunk, chat_sse, data_frame
from tests.upstream.faults import CHAT as CHAT_ANSWER
from tests.upstream.faults import RESPONSES as RESPONSES_ANSWER
from tests.upstream.flood import WHOLE, Flood
from tests.websocket_client import Json, Talk, kinds, talking, text

pytestmark = pytest.mark.anyio

LANES = 4


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("Good day."))
        yield upstream


def chat_config(upstream: ScriptedUpstream, **server: Any) -> Json:
    return config(upstream.url, "chat", server=server)


@pytest.fixture
async def v1(upstream: ScriptedUpstream) -> AsyncIterator[str]:
    with serving(chat_config(upstream)) as gateway:
        yield gateway.v1


@pytest.fixture
async def talk(v1: str) -> AsyncIterator[Talk]:
    async with talking(v1) as talk:
        yield talk


def without_chance(event: Json) -> str:
    """An event without what no two responses share: ids, and times."""
    said = re.sub(r'"[a-z]+_[0-9a-f]{32,}"', '"id"', json.dumps(event))
    return re.sub(r'"(created_at|completed_at)": \d+', r'"\1": 0', said)


@pytest.mark.parametrize("dialect", ["chat", "responses"])
async def test_the_events_are_those_of_the_stream_over_http(dialect: str, upstream: ScriptedUpstream) -> None:
    answer = CHAT_ANSWER if dialect == "chat" else RESPONSES_ANSWER
    upstream.script(Reply(headers=SSE, body=answer.stream))
    with serving(config(upstream.url, dialect)) as gateway:
        async with client() as asking:
            reply = await asking.post(gateway.v1 + RESPONSES, json=question(RESPONSES, stream=True, store=False))
        async with talking(gateway.v1) as talk:
            events = await talk.turn(model="scripted-model", store=False)
    streamed = [json.loads(payload) for _, payload in frames(reply.content)]
    assert list(map(without_chance, events)) == list(map(without_chance, streamed))


async def test_the_official_client_works_over_websockets(v1: str) -> None:
    async with AsyncOpenAI(base_url=v1, api_key="none") as sdk, sdk.responses.connect() as connection:
        for asked in ("Hello", "Again"):
            await connection.response.create(model="some-model", input=asked, store=False)
            output = ""
            async for event in connection:
                if event.type == "response.output_text.delta":
                    output += event.delta
                if event.type == "response.completed":
                    assert event.response.output_text == output == "Good day."
                    break


async def test_the_official_client_reads_errors(v1: str) -> None:
    async with AsyncOpenAI(base_url=v1, api_key="none") as sdk, sdk.responses.connect() as connection:
        await connection.response.create(model="some-model", previous_response_id="resp_0", store=False)
        event = await connection.recv()
        assert event.type == "error"
        assert event.status == 400
        assert event.error.code == "previous_response_not_found"


async def test_turns_run_one_after_the_other(talk: Talk, upstream: ScriptedUpstream) -> None:
    go_on = asyncio.Event()
    slow = Reply(headers=SSE, body=[CHAT_ANSWER.opening, Pause(go_on), CHAT_ANSWER.stream[len(CHAT_ANSWER.opening) :]])
    upstream.script(slow, chat_text("Good day."))
    await talk.create()
    await talk.create(input="Second")
    await talk.read_to("response.output_text.delta")
    assert len(upstream.requests) == 1
    go_on.set()
    await talk.read_turn()
    second = await talk.read_turn()
    assert [event["sequence_number"] for event in second] == list(range(len(second)))
    assert text(second[-1]["response"]) == "Good day."


async def test_lanes_run_concurrently_and_every_event_names_its_lane(talk: Talk, upstream: ScriptedUpstream) -> None:
    go_on = asyncio.Event()
    slow = Reply(headers=SSE, body=[CHAT_ANSWER.opening, Pause(go_on), CHAT_ANSWER.stream[len(CHAT_ANSWER.opening) :]])
    upstream.script(slow, chat_text("Good day."))
    await talk.create(stream_id="slow")
    await upstream.received(1)
    await talk.create(stream_id="fast")
    events = await talk.read_turn()
    assert {event["stream_id"] for event in events} == {"slow", "fast"}
    assert events[-1]["stream_id"] == "fast"
    go_on.set()
    assert {event["stream_id"] for event in await talk.read_turn()} == {"slow"}


async def test_a_response_without_output_is_prepared_and_can_be_continued(
    talk: Talk, upstream: ScriptedUpstream
) -> None:
    events = await talk.turn(instructions="Be brief.", input="I am Ada.", store=False, generate=False)
    assert kinds(events) == ["response.created", "response.in_progress", "response.completed"]
    prepared = events[-1]["response"]
    assert (prepared["output"], prepared["status"]) == ([], "completed")
    assert not upstream.requests
    await talk.response(input="Who am I?", previous_response_id=prepared["id"], store=False)
    messages = [(message["role"], message["content"]) for message in upstream.requests[0].json["messages"]]
    assert messages == [("user", "I am Ada."), ("user", "Who am I?")]


async def test_a_connection_remembers_unstored_responses(talk: Talk, upstream: ScriptedUpstream) -> None:
    first = await talk.response(input="I am Ada.", store=False)
    second = await talk.response(input="And he is Bob.", previous_response_id=first["id"], store=False)
    await talk.response(input="Who are we?", previous_response_id=second["id"], store=False)
    messages = [(message["role"], message["content"]) for message in upstream.requests[2].json["messages"]]
    assert messages == [
        ("user", "I am Ada."),
        ("assistant", "Good day."),
        ("user", "And he is Bob."),
        ("assistant", "Good day."),
        ("user", "Who are we?"),
    ]


async def test_only_the_latest_response_of_a_lane_is_remembered(talk: Talk) -> None:
    first = await talk.response(store=False)
    await talk.response(store=False)
    error = await talk.error(previous_response_id=first["id"], store=False)
    assert error == {
        "type": "error",
        "status": 400,
        "error": {
            "type": "invalid_request_error",
            "code": "previous_response_not_found",
            "message": f"Previous response with id '{first['id']}' not found.",
            "param": "previous_response_id",
        },
    }


async def test_nothing_is_remembered_after_the_connection(v1: str) -> None:
    async with talking(v1) as talk:
        first = await talk.response(store=False)
    async with talking(v1) as talk:
        error = await talk.error(previous_response_id=first["id"], store=False)
        assert error["error"]["code"] == "previous_response_not_found"


@pytest.mark.parametrize("fields", [{"temperature": 9}, {}], ids=["400", "502"])
async def test_a_failed_continuation_evicts_the_response_that_it_continued(
    fields: Json, talk: Talk, upstream: ScriptedUpstream
) -> None:
    first = await talk.response(store=False)
    upstream.script(error_reply(500, "No."))
    error = await talk.error(previous_response_id=first["id"], store=False, **fields)
    assert error["status"] == (400 if fields else 502)
    upstream.script(chat_text("Good day."))
    error = await talk.error(previous_response_id=first["id"], store=False)
    assert error["error"]["code"] == "previous_response_not_found"


async def test_a_failed_fork_leaves_the_lane_it_came_from_alone(talk: Talk, upstream: ScriptedUpstream) -> None:
    first = await talk.response(store=False, stream_id="main")
    error = await talk.error(previous_response_id=first["id"], store=False, stream_id="fork", temperature=9)
    assert error["stream_id"] == "fork"
    fork = await talk.response(previous_response_id=first["id"], store=False, stream_id="fork")
    await talk.response(previous_response_id=first["id"], store=False, stream_id="main")
    await talk.response(previous_response_id=fork["id"], store=False, stream_id="fork")
    assert len(upstream.requests[-1].json["messages"]) == 5


@pytest.mark.parametrize(
    ("message", "status", "code", "param"),
    [
        ("{", 400, "invalid_request_error", None),
        ("[]", 400, "invalid_request_error", None),
        (b"{}", 400, "invalid_request_error", None),
        ("[" * 10_000, 400, "invalid_request_error", None),
        ('{"input":' + "[" * 300 + "]" * 300 + "}", 400, "invalid_request_error", None),
        ({}, 400, "missing_required_parameter", "type"),
        ({"type": "response.cancel"}, 400, "invalid_value", "type"),
        ({"type": "response.create", "input": "Hi"}, 400, "missing_required_parameter", "model"),
        ({"type": "response.create", "model": "m", "input": 1}, 400, "invalid_type", "input"),
        ({"type": "response.create", "model": "m", "background": True}, 400, "unsupported_parameter", "background"),
        ({"type": "response.create", "model": "m", "stream_id": ""}, 400, "invalid_stream_id", "stream_id"),
        ({"type": "response.create", "model": "m", "input": "x" * 1_100_000}, 413, "request_too_large", None),
    ],
)
async def test_a_refused_message_is_one_error_and_the_connection_stays_open(
    message: Any, status: int, code: str, param: str | None, upstream: ScriptedUpstream
) -> None:
    with serving(chat_config(upstream, max_body_mb=1)) as gateway:
        async with talking(gateway.v1) as talk:
            await talk.send(message)
            event = await talk.read()
            assert (event["type"], event["status"]) == ("error", status)
            assert (event["error"]["code"], event["error"]["param"]) == (code, param)
            assert text(await talk.response()) == "Good day."


async def test_a_message_too_large_to_be_read_closes_the_connection(upstream: ScriptedUpstream) -> None:
    with serving(chat_config(upstream, max_body_mb=1)) as gateway:
        async with talking(gateway.v1) as talk:
            await talk.create(input="x" * 2_200_000)
            assert await talk.closed() == (1009, [])


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x81\x02{}", 1002),
        (b"\xf1\x82\0\0\0\0{}", 1002),
        (b"\x83\x82\0\0\0\0{}", 1002),
        (b"\x81\x81\0\0\0\0\xff", 1007),
    ],
    ids=["not masked", "reserved bits", "an opcode that does not exist", "not UTF-8"],
)
async def test_bytes_that_are_no_message_close_the_connection(frame: bytes, code: int, talk: Talk) -> None:
    talk.socket.transport.write(frame)
    assert await talk.closed() == (code, [])


async def test_a_message_may_arrive_in_many_fragments(talk: Talk, upstream: ScriptedUpstream) -> None:
    message = json.dumps({"type": "response.create", "model": "some-model", "input": "Hello" * 400})

    async def pieces() -> AsyncIterator[str]:
        for character in message:
            yield character
            yield ""

    await talk.socket.send(pieces())
    assert (await talk.read_turn())[-1]["type"] == "response.completed"
    assert upstream.requests[0].json["messages"][0]["content"] == "Hello" * 400


async def test_steering_is_refused(talk: Talk) -> None:
    await talk.send({"type": "response.steer", "previous_response_id": "resp_1", "input": "Louder"})
    event = await talk.read()
    assert (event["type"], event["error"]["code"]) == ("response.steer.failed", "steering_not_supported")


async def test_turns_wait_in_a_queue_with_an_end(talk: Talk, upstream: ScriptedUpstream) -> None:
    upstream.script(Reply(headers=SSE, body=[Hang()]))
    for _ in range(66):
        await talk.create()
    error = await talk.read()
    assert (error["status"], error["error"]["code"]) == (429, "websocket_queue_full")


async def test_a_failure_before_content_has_a_status(talk: Talk, upstream: ScriptedUpstream) -> None:
    upstream.script(error_reply(429, "Slow down.", headers={"retry-after": "7"}))
    error = await talk.error()
    assert (error["status"], error["error"]["code"]) == (429, "rate_limit_exceeded")
    assert error["error"]["headers"]["retry-after"] == "7"


async def test_a_failure_after_content_ends_the_response(talk: Talk, upstream: ScriptedUpstream) -> None:
    upstream.script(chat_sse([chat_chunk({"role": "assistant", "content": "Good"})], done=False))
    events = await talk.turn()
    assert kinds(events)[-1] == "response.failed"
    assert "response.output_text.delta" in kinds(events)


async def test_a_response_that_begins_late_is_announced(upstream: ScriptedUpstream) -> None:
    role = data_frame(chat_chunk({"role": "assistant", "content": ""}))
    upstream.script(Reply(headers=SSE, body=[role, Hang()]))
    with serving(chat_config(upstream, keepalive_s=0.05)) as gateway:
        async with talking(gateway.v1) as talk:
            await talk.create()
            assert kinds([await talk.read(), await talk.read()]) == ["response.created", "response.in_progress"]


async def test_losses_are_reported_with_the_first_event(talk: Talk) -> None:
    events = await talk.turn(novelty=1)
    told = [event.get("headers") for event in events]
    assert told[0] == {"x-gateway-loss": "novelty=dropped"}
    assert set(map(str, told[1:])) == {"None"}


async def test_a_client_that_leaves_closes_every_upstream_connection(v1: str, upstream: ScriptedUpstream) -> None:
    upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Hang()]))
    async with talking(v1) as talk:
        for lane in range(LANES):
            await talk.create(stream_id=str(lane))
        await upstream.received(LANES)
        talk.socket.transport.abort()
        async with asyncio.timeout(PROMPT_S):
            await asyncio.gather(*(request.closed for request in upstream.requests))


async def test_a_client_that_does_not_read_slows_the_upstream_down(v1: str, upstream: ScriptedUpstream) -> None:
    flood = Flood()
    upstream.script(flood)
    async with talking(v1, max_queue=1) as talk:
        await talk.create()
        assert await flood.sent_before_held < WHOLE / 2
        talk.socket.transport.abort()
    async with asyncio.timeout(60):
        await upstream.requests[0].closed
