"""A content filter that ends a reply before it has content is a judgement that another upstream may not share."""

from typing import Any

import pytest

from tests.faults.client_view import CHAT, MESSAGES, RESPONSES, client, question
from tests.faults.config import StartGateway
from tests.faults.upstreams.test_attempts import TEXT, rejected, shared
from tests.upstream.builders import chat_chunk, data_frame, either, json_reply, named_frame, sse_reply
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.script import Script
from tests.upstream.server import ScriptedUpstream

Json = dict[str, Any]
PATHS = {"Responses": RESPONSES, "Chat": CHAT, "Messages": MESSAGES}
DONE = b"data: [DONE]\n\n"


def filtered_chat(text: str) -> Script:
    message = {"role": "assistant", "content": text or None}
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    choice = {"index": 0, "message": message, "finish_reason": "content_filter"}
    deltas = [chat_chunk({"role": "assistant", "content": ""})]
    if text:
        deltas.append(chat_chunk({"content": text}))
    frames = [data_frame(delta) for delta in [*deltas, chat_chunk({}, "content_filter")]]
    return either(sse_reply(*frames, DONE), json_reply({**whole, "choices": [choice]}))


def filtered_response(text: str) -> Script:
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "incomplete"}
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    output = [{**item, "content": [part]}] if text else []
    begun = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "in_progress", "output": []}
    ended = {**begun, "status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": output}
    events: list[Json] = [{"type": "response.created", "response": begun}]
    if text:
        place = {"output_index": 0, "item_id": "msg_1"}
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
            {"type": "response.content_part.added", **place, "content_index": 0, "part": {**part, "text": ""}},
            {"type": "response.output_text.delta", **place, "content_index": 0, "delta": text, "logprobs": []},
            {"type": "response.output_item.done", "output_index": 0, "item": output[0]},
        ]
    events.append({"type": "response.incomplete", "response": ended})
    frames = [named_frame({"sequence_number": number, **event}) for number, event in enumerate(events)]
    return either(sse_reply(*frames), json_reply(ended))


def filtered_message(text: str) -> Script:
    content = [{"type": "text", "text": text}] if text else []
    usage = {"input_tokens": 1, "output_tokens": 1}
    begun = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    events: list[Json] = [{"type": "message_start", "message": {**begun, "stop_reason": None, "stop_sequence": None}}]
    if text:
        events += [
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
            {"type": "content_block_stop", "index": 0},
        ]
    events += [
        {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    whole = {**begun, "content": content, "stop_reason": "refusal", "stop_sequence": None}
    return either(sse_reply(*[named_frame(event) for event in events]), json_reply(whole))


UPSTREAMS = {"chat": filtered_chat, "responses": filtered_response, "messages": filtered_message}


def configure(first: ScriptedUpstream, second: ScriptedUpstream, dialect: str, **routing: Any) -> Json:
    config = shared(first.url, second.url, **routing)
    config["providers"]["first"]["dialects"] = [dialect]
    return config


def reason_of(path: str) -> str:
    """Returns what a reply says that a filter has ended."""
    return '"refusal"' if path == MESSAGES else "content_filter"


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "JSON"])
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("dialect", UPSTREAMS)
async def test_the_next_upstream_is_asked_only_if_it_is_configured_and_nothing_was_said(
    dialect: str, path: str, stream: bool, gateway: StartGateway
) -> None:
    for configured, text, attempts in ((True, "", "2"), (False, "", "1"), (True, "Well", "1")):
        async with ScriptedUpstream() as first, ScriptedUpstream() as second:
            first.script(UPSTREAMS[dialect](text))
            second.script(sound(ANSWERS["responses"]))
            routing = {"fallback_on": ["content_filter"]} if configured else {}
            running = gateway(configure(first, second, dialect, **routing))
            async with client() as asking:
                reply = await asking.post(f"{running.v1}{path}", json=question(path, stream=stream))
        assert (reply.status_code, reply.headers["x-gateway-attempts"]) == (200, attempts), reply.text
        moved_on = attempts == "2"
        assert (TEXT.split(" ")[-1] in reply.text) is moved_on
        assert (reason_of(path) in reply.text) is not moved_on


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "JSON"])
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("dialect", UPSTREAMS)
async def test_the_client_gets_the_incomplete_reply_if_all_upstreams_filter(
    dialect: str, path: str, stream: bool, gateway: StartGateway
) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(UPSTREAMS[dialect](""))
        config = configure(upstream, upstream, dialect, fallback_on=["content_filter"])
        config["providers"]["second"]["dialects"] = [dialect]
        running = gateway(config)
        async with client() as asking:
            reply = await asking.post(f"{running.v1}{path}", json=question(path, stream=stream))
        assert len(upstream.requests) == 2
    assert (reply.status_code, reply.headers["x-gateway-attempts"]) == (200, "2")
    assert reason_of(path) in reply.text


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation", "moderation_blocked"])
@pytest.mark.parametrize("status", [400, 403])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "JSON"])
async def test_a_refusal_by_a_filter_goes_to_the_next_upstream_if_it_is_configured(
    stream: bool, status: int, code: str, gateway: StartGateway
) -> None:
    for configured in (True, False):
        async with ScriptedUpstream() as first, ScriptedUpstream() as second:
            first.script(rejected(status, code=code))
            second.script(sound(ANSWERS["responses"]))
            routing = {"fallback_on": ["content_filter"]} if configured else {}
            running = gateway(configure(first, second, "chat", **routing))
            async with client() as asking:
                reply = await asking.post(f"{running.v1}{CHAT}", json=question(CHAT, stream=stream))
        assert reply.is_success is configured
        assert reply.headers["x-gateway-attempts"] == ("2" if configured else "1")
