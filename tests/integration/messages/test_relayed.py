"""Clients of the Messages API over an upstream with the same API: both sides get what the other one sent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from gateway.sealing.sealer import SEAL_PREFIX
from tests.serving import serving
from tests.unit.support.stream_checks.messages_order import check_message_stream, read_frames
from tests.upstream import Script, ScriptedUpstream
from tests.upstream.anthropic import (
    anthropic_calls,
    anthropic_text,
    block,
    closing,
    message,
    opening,
    text_block,
    text_deltas,
)
from tests.upstream.builders import json_reply, named_frame, sse_reply

Json = dict[str, Any]
HELLO: list[Any] = [
    {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}
]
BETA = "claude-code-20250219,effort-2025-11-24"
BODY: Json = {
    "model": "mine",
    "max_tokens": 50,
    "messages": HELLO,
    "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    "context_management": {"edits": [{"type": "clear_thinking_20251015"}]},
    "thinking": {"type": "adaptive"},
    "tools": [{"type": "code_execution_20250825", "name": "code_execution"}],
    "brand_new": {"x": 1},
}


@asynccontextmanager
async def gateway(
    *scripts: Script, defaults: Json | None = None, **provider: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, ScriptedUpstream]]:
    async with ScriptedUpstream() as upstream:
        upstream.on("/messages", *scripts)
        config = {
            "providers": {
                "p": {"type": "anthropic", "base_url": upstream.url, "api_key": "key-1-of-gateway", **provider}
            },
            "models": {"mine": {"provider": "p", "model": "claude-x", "request_defaults": defaults or {}}},
        }
        with serving(config) as served:
            headers = {"anthropic-version": "2026-10-21", "anthropic-beta": BETA, "x-api-key": "key-of-client"}
            async with httpx.AsyncClient(base_url=served.v1, headers=headers, trust_env=False, timeout=60) as client:
                yield client, upstream


async def test_request_and_headers_are_forwarded_unchanged() -> None:
    async with gateway(anthropic_text("Hi")) as (client, upstream):
        whole = await client.post("/messages?beta=true", json=BODY)
        streamed = await client.post("/messages?beta=true", json={**BODY, "stream": True})
    for request in upstream.requests:
        assert {key: value for key, value in request.json.items() if key != "stream"} == {**BODY, "model": "claude-x"}
        assert request.headers["anthropic-version"] == "2026-10-21"
        assert request.headers["anthropic-beta"] == BETA
        assert request.headers["x-api-key"] == "key-1-of-gateway"
    assert "x-gateway-loss" not in whole.headers
    assert whole.json() == message(text_block("Hi")) | {"model": "mine"}
    assert check_message_stream(streamed.content)["model"] == "mine"


async def test_betas_of_the_operator_and_of_the_client_are_added_up() -> None:
    async with gateway(anthropic_text("Hi"), headers={"Anthropic-Beta": "context-1m-2025-08-07"}) as (client, upstream):
        await client.post("/messages", json=BODY)
        await client.post("/messages", json=BODY, headers={"anthropic-beta": ""})
    first, second = (request.headers["anthropic-beta"] for request in upstream.requests)
    assert (first, second) == (f"context-1m-2025-08-07,{BETA}", "context-1m-2025-08-07")


@pytest.mark.parametrize("thinking", [True, {"type": "adaptive"}, {"type": "enabled", "budget_tokens": 1024}])
@pytest.mark.parametrize("stream", [False, True])
async def test_thinking_of_a_default_is_hidden_from_a_client_that_did_not_request_it(
    stream: bool, thinking: Any
) -> None:
    thinks = anthropic_calls(("c1", "look", {}), thinking=[{"type": "thinking", "thinking": "Hm.", "signature": "s"}])
    body = {"model": "mine", "max_tokens": 5000, "messages": HELLO, "stream": stream}
    body["tools"] = [{"name": "look", "input_schema": {"type": "object"}}]
    async with gateway(thinks, defaults={"thinking": thinking}) as (client, upstream):
        hidden = await client.post("/messages", json=body)
        shown = await client.post("/messages", json={**body, "thinking": {"type": "adaptive"}})
    assert upstream.requests[0].json["thinking"]["type"] != "disabled"
    assert hidden.status_code == 200, hidden.text
    assert '"thinking"' not in hidden.text
    assert '"thinking"' in shown.text


async def test_versions_and_betas_cannot_begin_another_request() -> None:
    evil = "2023-06-01\r\ncontent-length: 0\r\n\r\nPOST /v1/other HTTP/1.1\r\nhost: x"
    cases: list[tuple[Json, dict[str, str], str]] = [
        ({"anthropic_version": evil}, {}, "anthropic_version"),
        ({"anthropic_version": "€"}, {}, "anthropic_version"),
        ({"anthropic_beta": [evil]}, {}, "anthropic_beta[0]"),
        ({}, {"anthropic-beta": "a,b c"}, "anthropic_beta[1]"),
        ({}, {"anthropic-version": "2023 06 01"}, "anthropic_version"),
    ]
    async with gateway(anthropic_text("Hi")) as (client, upstream):
        for params, headers, named in cases:
            for own in ("anthropic-version", "anthropic-beta"):
                client.headers.pop(own, None)
            reply = await client.post("/messages", json=BODY | params, headers=headers)
            assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")
            assert f"'{named}'" in reply.json()["error"]["message"]
        assert upstream.requests == []
        served = await client.post("/messages", json=BODY, headers={"anthropic-version": ""})
    assert served.status_code == 200
    assert [request.headers["anthropic-version"] for request in upstream.requests] == ["2023-06-01"]


@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_keeps_its_details(*, stream: bool) -> None:
    details = {"error_code": "thread_not_found", "hint": "key-1-of-gateway"}
    error = {"type": "invalid_request_error", "message": "no such thread", "details": details}
    async with gateway(json_reply({"type": "error", "error": error}, 400)) as (client, _):
        reply = await client.post("/messages", json={**BODY, "stream": stream})
    assert reply.status_code == 400
    assert reply.json()["error"]["message"] == "no such thread"
    assert reply.json()["error"]["details"]["error_code"] == "thread_not_found"
    assert "key-1-of-gateway" not in reply.text


async def test_a_request_with_too_many_bytes_is_no_prompt_that_is_too_long() -> None:
    error = {"type": "request_too_large", "message": "Request exceeds the maximum allowed number of bytes."}
    async with gateway(json_reply({"type": "error", "error": error}, 413)) as (client, _):
        reply = await client.post("/messages", json=BODY)
    assert (reply.status_code, reply.json()["error"]) == (413, error)
    assert reply.headers["x-should-retry"] == "false"


async def test_an_error_within_a_stream_keeps_its_details() -> None:
    error = {"type": "overloaded_error", "message": "busy", "details": {"error_code": "x"}}
    events = [opening(), *block(0, text_block(), *text_deltas("Hi"))]
    failing = sse_reply(*map(named_frame, [*events, {"type": "error", "error": error}]))
    early = sse_reply(*map(named_frame, [opening(), {"type": "error", "error": error}]))
    async with gateway(failing, early) as (client, _):
        late = await client.post("/messages", json={**BODY, "stream": True})
        first = await client.post("/messages", json={**BODY, "stream": True})
    assert read_frames(late.content)[-1] == {"type": "error", "error": error}
    assert (first.status_code, first.json()["error"]["type"]) == (529, "overloaded_error")


async def test_an_upstream_may_reply_in_the_other_form() -> None:
    stream = sse_reply(*map(named_frame, [opening(), *block(0, text_block(), *text_deltas("Hi")), *closing()]))
    async with gateway(json_reply(message(text_block("Hi"))), stream) as (client, _):
        streamed = await client.post("/messages", json={**BODY, "stream": True})
        whole = await client.post("/messages", json=BODY)
    assert check_message_stream(streamed.content)["content"] == [text_block("Hi")]
    assert whole.json()["content"] == [text_block("Hi")]


async def test_a_relay_can_be_switched_off() -> None:
    async with gateway(anthropic_text("Hi"), dialects=[]) as (client, upstream):
        body = {key: value for key, value in BODY.items() if key != "tools"}
        reply = await client.post("/messages", json=body)
    assert "brand_new=dropped" in reply.headers["x-gateway-loss"]
    assert upstream.requests[0].headers["anthropic-version"] == "2023-06-01"
    assert reply.json()["content"][0]["text"] == "Hi"


async def test_tokens_of_the_relayed_body_are_counted_by_the_upstream() -> None:
    own = [{"type": "thinking", "thinking": "Hm.", "signature": "EqQB"}, {"type": "compaction", "content": "Before."}]
    sealed = {"type": "thinking", "thinking": "Oh.", "signature": f"{SEAL_PREFIX}1.x"}
    history = [*HELLO, {"role": "assistant", "content": [*own, sealed, text_block("Yes")]}, *HELLO]
    counted = {name: value for name, value in BODY.items() if name != "max_tokens"} | {"messages": history}
    async with gateway(defaults={"temperature": 0.5}) as (client, upstream):
        upstream.on("/messages/count_tokens", json_reply({"input_tokens": 7}))
        reply = await client.post("/messages/count_tokens?beta=true", json=counted)
        refused = await client.post("/messages/count_tokens", json={**counted, "thread": {"type": "create"}})
    assert reply.json() == {"input_tokens": 7}
    assert "thinking of another model dropped" in reply.headers["x-gateway-loss"]
    (request,) = upstream.requests
    history[1]["content"].remove(sealed)
    assert request.json == {**counted, "model": "claude-x", "messages": history}
    assert request.headers["anthropic-version"] == "2026-10-21"
    assert request.headers["anthropic-beta"] == BETA
    assert refused.status_code == 400


async def test_a_count_that_is_no_number_is_an_error() -> None:
    async with gateway() as (client, upstream):
        upstream.on("/messages/count_tokens", json_reply({"input_tokens": "7"}))
        reply = await client.post("/messages/count_tokens", json=BODY)
    assert (reply.status_code, reply.json()["error"]["type"]) == (502, "api_error")


@pytest.mark.parametrize("stream", [False, True])
async def test_rate_limits_of_the_upstream_reach_the_client(*, stream: bool) -> None:
    limits = {"anthropic-ratelimit-requests-remaining": "7", "x-other": "1", "retry-after": "3"}
    error = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    replies = json_reply(message(text_block("Hi")), headers=limits), json_reply(error, 429, headers=limits)
    async with gateway(*replies) as (client, _):
        served = await client.post("/messages", json={**BODY, "stream": stream})
        rejected = await client.post("/messages", json={**BODY, "stream": stream})
    for reply, status in ((served, 200), (rejected, 429)):
        assert (reply.status_code, reply.headers["anthropic-ratelimit-requests-remaining"]) == (status, "7")
        assert "x-other" not in reply.headers
    assert rejected.headers["retry-after"] == "3"
