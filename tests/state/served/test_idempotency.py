"""Requests with an `Idempotency-Key` on two replicas: one request per key runs."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest

from gateway.state.database.database import Database
from tests.mcp_server import CountingServer
from tests.state.served.agui_replicas import two_replicas
from tests.upstream import Pause, ScriptedUpstream, Step
from tests.upstream.builders import chat_calls, chat_chunk, chat_text, data_frame, error_reply, sse_reply

Json = dict[str, Any]

PATIENCE_S = 60.0
CHAT = "/chat/completions"
KEYS = [{"name": name, "key": f"key-of-{name}-0123456789"} for name in ("ann", "bob")]


class Served(NamedTuple):
    """Two replicas on one database, before one upstream and one MCP server."""

    upstream: ScriptedUpstream
    calc: CountingServer
    first: httpx.AsyncClient
    second: httpx.AsyncClient

    @property
    def run_count(self) -> int:
        """Returns the number of requests to the model."""
        return len(self.upstream.requests)


@pytest.fixture
def limits() -> Json:
    return {}


@pytest.fixture
def hours() -> Json:
    return {}


@pytest.fixture
async def served(store_url: str, calc: CountingServer, limits: Json, hours: Json) -> AsyncIterator[Served]:
    sections: Json = {"egress": {"allow": ["127.0.0.1"]}, "auth": {"keys": KEYS}, "limits": limits}
    sections["store"] = {"url": store_url, "poll_s": 0.05, **hours}
    async with ScriptedUpstream() as upstream, two_replicas(store_url, upstream.url, **sections) as (first, second):
        for http in (first, second):
            http.headers["authorization"] = f"Bearer {KEYS[0]['key']}"
        yield Served(upstream, calc, first, second)


async def create(http: httpx.AsyncClient, key: str, **body: Any) -> httpx.Response:
    headers = {"idempotency-key": key, **body.pop("headers", {})}
    return await http.post("/v1/responses", json={"model": "m", "input": "Hello", **body}, headers=headers)


def text_of(reply: httpx.Response) -> str:
    assert reply.status_code == 200, reply.text
    text: str = reply.json()["output"][-1]["content"][0]["text"]
    return text


def events_of(stream: str) -> list[Json]:
    return [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]


def error_of(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


async def test_a_request_that_is_sent_again_gets_the_same_response_in_either_form(served: Served) -> None:
    served.upstream.on(CHAT, chat_text("One"), chat_text("Two"), chat_text("Three"))
    first = await create(served.first, "key-1")
    assert "x-gateway-replayed" not in first.headers
    for http in (served.first, served.second):
        again = await create(http, "key-1")
        assert (again.json(), again.headers["x-gateway-replayed"]) == (first.json(), "true")
    stream = await create(served.second, "key-1", stream=True)
    events = events_of(stream.text)
    assert (events[0]["type"], events[-1]["response"]) == ("response.created", first.json())
    assert stream.text.endswith("data: [DONE]\n\n")
    assert (await served.second.get(f"/v1/responses/{first.json()['id']}")).json() == first.json()
    # Another body, another owner, another key.
    other = await create(served.second, "key-1", input="Bye")
    assert error_of(other) == (422, "idempotency_key_reused")
    assert other.json()["error"]["param"] == "Idempotency-Key"
    bob = {"authorization": f"Bearer {KEYS[1]['key']}"}
    assert text_of(await create(served.first, "key-1", headers=bob)) == "Two"
    assert text_of(await create(served.first, "key-2")) == "Three"
    assert served.run_count == 3
    # A response that its owner deletes gives its key back.
    await served.first.delete(f"/v1/responses/{first.json()['id']}")
    assert text_of(await create(served.second, "key-1", input="Bye")) == "Three"


async def test_requests_at_once_are_one_run_that_all_of_them_follow(served: Served) -> None:
    go_on = asyncio.Event()
    chunks: list[Step] = [data_frame(chat_chunk({"content": "One"})), Pause(go_on), data_frame(chat_chunk({}, "stop"))]
    served.upstream.on(CHAT, sse_reply(*chunks))
    sent = [
        asyncio.ensure_future(create(http, "key", stream=stream))
        for http, stream in ((served.first, True), (served.second, True), (served.first, False), (served.second, False))
    ]
    async with asyncio.timeout(PATIENCE_S):
        while not served.run_count:
            await asyncio.wait(sent, timeout=0.02)
    go_on.set()
    replies = await asyncio.gather(*sent)
    streams = [events_of(reply.text) for reply in replies[:2]]
    assert streams[0] == streams[1]
    assert replies[2].json() == replies[3].json() == streams[0][-1]["response"]
    assert sum("x-gateway-replayed" not in reply.headers for reply in replies) == 1
    assert served.run_count == 1


async def test_a_client_that_leaves_finds_its_response_later(served: Served) -> None:
    go_on = asyncio.Event()
    chunks: list[Step] = [data_frame(chat_chunk({"content": "One"})), Pause(go_on), data_frame(chat_chunk({}, "stop"))]
    served.upstream.on(CHAT, sse_reply(*chunks), chat_text("Two"))
    body = {"model": "m", "input": "Hello", "stream": True}
    headers = {"idempotency-key": "key"}
    async with served.first.stream("POST", "/v1/responses", json=body, headers=headers) as reply:
        async for line in reply.aiter_lines():
            if "output_text.delta" in line:
                break
    again = asyncio.ensure_future(create(served.second, "key"))
    go_on.set()
    assert text_of(await again) == "One"
    background = await create(served.first, "key-2", background=True)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = (await create(served.second, "key-2", background=True)).json()
            assert found["id"] == background.json()["id"]
            if found["status"] == "completed":
                break
    assert served.run_count == 2


async def test_a_request_that_failed_without_a_call_is_run_again_and_one_with_a_call_is_not(served: Served) -> None:
    add = chat_calls(("calc_add", '{"a": 2, "b": 3}'))
    served.upstream.on(CHAT, error_reply(429, "slow down"), chat_text("One"), add, error_reply(500, "broken"))
    assert error_of(await create(served.first, "key")) == (429, "rate_limit_exceeded")
    assert text_of(await create(served.second, "key")) == "One"
    tool = {"type": "mcp", "server_label": "calc", "server_url": served.calc.url, "require_approval": "never"}
    for http in (served.first, served.second):
        failed = await create(http, "with tools", tools=[tool])
        assert error_of(failed) == (502, "upstream_error")
        assert "(response resp_" in failed.json()["error"]["message"]
    assert (served.calc.runs["add"], served.run_count) == (1, 4)


async def test_an_approval_that_is_sent_twice_with_one_key_is_one_response(served: Served) -> None:
    served.upstream.on(CHAT, chat_calls(("calc_add", '{"a": 2, "b": 3}')), chat_text("It is 5."))
    tool = {"type": "mcp", "server_label": "calc", "server_url": served.calc.url}
    asked = (await create(served.first, "ask", tools=[tool])).json()
    (request_id,) = [item["id"] for item in asked["output"] if item["type"] == "mcp_approval_request"]
    answer = {"type": "mcp_approval_response", "approval_request_id": request_id, "approve": True}
    body: Json = {"tools": [tool], "previous_response_id": asked["id"], "input": [answer]}
    replies = await asyncio.gather(
        *(create(http, "answer", **body) for http in [served.first, served.second] * 2),
        create(served.first, "x", **body),
    )
    assert {text_of(reply) for reply in replies[:4] if reply.status_code == 200} <= {"It is 5."}
    with_key = {reply.json().get("id", reply.text) for reply in replies[:4]}
    assert len(with_key) == 1, "each gets the same: the response, or that another key was faster"
    assert sorted({reply.status_code for reply in replies}) == [200, 400]
    assert served.calc.runs["add"] == 1


async def test_without_a_stored_response_the_key_is_a_loss(served: Served) -> None:
    served.upstream.on(CHAT, chat_text("One"))
    for _ in range(2):
        reply = await create(served.first, "key", store=False)
        assert (reply.status_code, reply.headers["x-gateway-loss"]) == (200, "Idempotency-Key=ignored")
    strict = await create(served.first, "key", store=False, headers={"x-gateway-strict": "true"})
    assert (strict.status_code, strict.json()["error"]["param"]) == (400, "Idempotency-Key")
    for key in ("", "x" * 256, "a\tb"):
        refused = await create(served.first, key)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "Idempotency-Key"), key
    # A request that is refused before it runs has not used its key.
    assert (await create(served.first, "key", temperature=9)).status_code == 400
    assert text_of(await create(served.first, "key")) == "One"
    assert served.run_count == 3


MESSAGES: list[Json] = [{"role": "user", "content": "Hello"}]
KEYLESS: dict[str, Json] = {
    "/v1/chat/completions": {"model": "m", "messages": MESSAGES},
    "/v1/messages": {"model": "m", "max_tokens": 9, "messages": MESSAGES},
    "/v1/responses/compact": {"model": "m", "input": "Hello"},
    "/v1/agui/m": {"threadId": "t", "runId": "r", "messages": [{"id": "1", **MESSAGES[0]}]},
    "/v1beta/models/m:generateContent": {"contents": "Hello"},
    "/api/chat": {"model": "m", "messages": MESSAGES, "stream": False},
    "/api/generate": {"model": "m", "prompt": "Hello", "stream": False},
    "/generate": {"model": "m", "messages": MESSAGES},
}
"""Requests to a model that are run again if they are sent again, whatever their key."""


@pytest.mark.parametrize("path", KEYLESS)
async def test_requests_that_are_no_responses_lose_the_key(served: Served, path: str) -> None:
    served.upstream.on(CHAT, chat_text("One"))
    headers = {"idempotency-key": "key", "authorization": f"Bearer {KEYS[0]['key']}"}
    refused = await served.first.post(path, json=KEYLESS[path], headers={**headers, "x-gateway-strict": "true"})
    assert (refused.status_code, served.run_count) == (400, 0)
    assert "Idempotency-Key" in refused.text
    reply = await served.first.post(path, json=KEYLESS[path], headers=headers)
    assert (reply.status_code, reply.headers.get("x-gateway-loss")) == (200, "Idempotency-Key=ignored")
    assert served.run_count == 1


@pytest.mark.parametrize("limits", [{"idempotency_keys": 2}])
async def test_keys_expire_and_are_bounded(served: Served, database: Database) -> None:
    served.upstream.on(CHAT, chat_text("One"))
    for key in ("a", "b", "a"):
        assert text_of(await create(served.first, key)) == "One"
    assert error_of(await create(served.second, "c")) == (429, "too_many_idempotency_keys")
    assert served.run_count == 2
    async with database.write_transaction() as connection:
        await connection.exec_driver_sql("UPDATE idempotency_keys SET created_us = created_us - 90000000000")
    assert text_of(await create(served.second, "a", input="Another request")) == "One"
    assert served.run_count == 3


@pytest.mark.parametrize("hours", [{"events_hours": 1.0}])
async def test_a_key_does_not_outlive_the_stream_of_its_response(served: Served, database: Database) -> None:
    served.upstream.on(CHAT, chat_text("One"), chat_text("Two"))
    await create(served.first, "key", stream=True)
    async with database.write_transaction() as connection:
        await connection.exec_driver_sql("UPDATE idempotency_keys SET created_us = created_us - 4000000000")
        await connection.exec_driver_sql("DELETE FROM events")
    again = await create(served.second, "key", stream=True)
    assert events_of(again.text)[-1]["response"]["output"][0]["content"][0]["text"] == "Two"
    assert served.run_count == 2
