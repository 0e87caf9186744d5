"""Why a model stopped is in the span of its turn and in the outcome of its request, relayed or translated."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.metrics.test_metrics import read_values, value_of
from tests.integration.requests import traffic
from tests.integration.tracing.collector import collecting
from tests.upstream import anthropic
from tests.upstream.builders import (
    RESPONSES_USAGE,
    SSE,
    chat_calls,
    chat_text,
    either,
    json_reply,
    message_item,
    named_frame,
    response_snapshot,
    responses_sse,
    sse_reply,
    text_events,
)
from tests.upstream.faults import ANSWERS
from tests.upstream.script import Reply, Script

Json = dict[str, Any]

SAID = [{"role": "user", "content": traffic.PROMPT}]
REQUESTS: dict[str, Json] = {
    "/v1/chat/completions": {"messages": SAID},
    "/v1/responses": {"input": traffic.PROMPT, "store": False},
    "/v1/messages": {"messages": SAID, "max_tokens": 9},
}


def response_end(status: str, *, output: Json | None = None, reason: str | None = None) -> Script:
    details = None if reason is None else {"reason": reason}
    whole = response_snapshot(
        status, [output or message_item(traffic.TEXT)], incomplete_details=details, usage=RESPONSES_USAGE
    )
    events = [*text_events(traffic.TEXT)[:-1], {"type": f"response.{status}", "response": whole}]
    if output is not None:
        events = [*text_events(traffic.TEXT)[:2], events[-1]]
    return either(responses_sse(events), json_reply(whole))


def message_end(reason: str, *calls: Json) -> Script:
    block = anthropic.text_block(traffic.TEXT)
    events = [
        *anthropic.text_events(traffic.TEXT)[:-2],
        *(event for index, call in enumerate(calls, 1) for event in anthropic.block(index, call)),
        *anthropic.closing(reason),
    ]
    whole = anthropic.message(block, *calls, stop_reason=reason)
    return either(sse_reply(*map(named_frame, events)), json_reply(whole))


CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look_up", "arguments": "{}"}

ENDS: list[tuple[str, Script, str, str]] = [
    ("/v1/chat/completions", chat_text(traffic.TEXT), "stop", "ok"),
    ("/v1/chat/completions", chat_text(traffic.TEXT, finish_reason="length"), "length", "incomplete"),
    ("/v1/chat/completions", chat_text(traffic.TEXT, finish_reason="content_filter"), "content_filter", "incomplete"),
    ("/v1/chat/completions", chat_text(traffic.TEXT, finish_reason="unknown"), "other", "ok"),
    ("/v1/chat/completions", chat_calls(("look_up", "{}")), "tool_calls", "ok"),
    ("/v1/responses", response_end("completed"), "stop", "ok"),
    ("/v1/responses", response_end("completed", output={**CALL, "status": "completed"}), "tool_calls", "ok"),
    ("/v1/responses", response_end("incomplete", reason="max_output_tokens"), "length", "incomplete"),
    ("/v1/responses", response_end("incomplete", reason="content_filter"), "content_filter", "incomplete"),
    ("/v1/responses", response_end("incomplete", reason="of_tomorrow"), "length", "incomplete"),
    ("/v1/messages", message_end("end_turn"), "stop", "ok"),
    ("/v1/messages", message_end("max_tokens"), "length", "incomplete"),
    ("/v1/messages", message_end("refusal"), "content_filter", "incomplete"),
    ("/v1/messages", message_end("tool_use", anthropic.call_block("look_up")), "tool_calls", "ok"),
    ("/v1/messages", message_end("of_tomorrow"), "other", "ok"),
]


@pytest.mark.parametrize("streams", [False, True], ids=["json", "stream"])
async def test_relayed_replies_tell_why_they_ended(streams: bool, tmp_path: Path) -> None:
    with collecting() as collector:
        async with traffic.serving_site(tmp_path, auth=None, tracing={"endpoint": collector.url, "sample": 1}) as site:
            for path, script, _, _ in ENDS:
                site.first.script(script)
                reply = await site.post(path, {"model": "native", "stream": streams, **REQUESTS[path]})
                assert reply.status_code == httpx.codes.OK, reply.text
            await collector.await_spans(len(ENDS), "chat native")
            values = await read_values(site.gateway.url)
    turns = [span for span in collector.spans if span.name == "chat native"]
    turns.sort(key=lambda span: span.began)
    told = [tuple(span.attributes.get("gen_ai.response.finish_reasons", ())) for span in turns]
    assert told == [(reason,) for _, _, reason, _ in ENDS]
    assert all("gen_ai.usage.output_tokens" in span.attributes for span in turns)
    for path in REQUESTS:
        for outcome in ("ok", "incomplete"):
            expected = sum((each[0], each[3]) == (path, outcome) for each in ENDS)
            assert value_of(values, "gateway_requests_total", route=path, outcome=outcome) == expected
    assert value_of(values, "gateway_requests_total") == len(ENDS)


@pytest.mark.parametrize("path", REQUESTS)
async def test_a_stream_in_place_of_json_tells_why_it_ended_and_its_tokens(path: str, tmp_path: Path) -> None:
    """Some upstreams send a stream although JSON was requested."""
    answers = {"/v1/chat/completions": "chat", "/v1/responses": "responses", "/v1/messages": "anthropic"}
    answer = ANSWERS[answers[path]]
    with collecting() as collector:
        async with traffic.serving_site(tmp_path, auth=None, tracing={"endpoint": collector.url, "sample": 1}) as site:
            site.first.script(Reply(headers=SSE, body=answer.stream))
            reply = await site.post(path, {"model": "native", **REQUESTS[path]})
            assert reply.status_code == httpx.codes.OK, reply.text
            await collector.await_spans(1, "chat native")
            values = await read_values(site.gateway.url)
    (turn,) = (span for span in collector.spans if span.name == "chat native")
    assert turn.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert value_of(values, "gateway_tokens_total", model="native", kind="output") == 3
