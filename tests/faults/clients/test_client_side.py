"""Clients that leave, do not read, or send invalid requests."""

import asyncio
import json
from typing import Any

import pytest

from tests.faults.client_view import CHAT, RESPONSES, ask, client, question
from tests.faults.config import StartGateway, config
from tests.faults.connection import connected
from tests.faults.routes import ROUTES
from tests.polling import PROMPT_S
from tests.upstream import Exchange, Hang, Pause, Reply, ScriptedUpstream, Step, chat_text, silence
from tests.upstream.builders import SSE
from tests.upstream.faults import CHAT as CHAT_ANSWER
from tests.upstream.faults import RESPONSES as RESPONSES_ANSWER
from tests.upstream.faults import Answer, sound
from tests.upstream.flood import WHOLE, Flood

PATHS = pytest.mark.parametrize("path", [RESPONSES, CHAT])


def patient(base_url: str, dialect: str = "chat", **server: Any) -> dict:
    return config(base_url, dialect, server=server)


def hangs_after_the_opening(answer: Answer) -> Reply:
    return Reply(headers=SSE, body=[answer.opening, Hang()])


async def closes_at_once(upstream: ScriptedUpstream) -> None:
    async with asyncio.timeout(PROMPT_S):
        await upstream.requests[0].closed


@pytest.mark.parametrize(("path", "dialect"), ROUTES.values(), ids=ROUTES)
@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
async def test_a_client_that_leaves_before_the_first_byte_closes_the_upstream_connection(
    path: str, dialect: str, stream: bool, gateway: StartGateway
) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(silence)
        serving = gateway(patient(upstream.url, dialect))
        async with connected(serving.v1) as client:
            client.post(path, question(path, stream=stream))
            await upstream.received(1)
        await closes_at_once(upstream)


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
async def test_a_client_that_leaves_after_a_large_request_is_noticed(stream: bool, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(silence)
        serving = gateway(patient(upstream.url))
        async with connected(serving.v1) as client:
            client.post(RESPONSES, {**question(RESPONSES, stream=stream), "input": "x" * 1_000_000})
            await upstream.received(1)
        await closes_at_once(upstream)


async def test_a_request_that_waited_in_line_is_watched_too(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("Hi"), silence)
        serving = gateway(patient(upstream.url))
        async with connected(serving.v1) as client:
            client.post(CHAT, question(CHAT, stream=True))
            client.post(CHAT, question(CHAT, stream=False))
            await upstream.received(2)
        async with asyncio.timeout(PROMPT_S):
            await upstream.requests[1].closed


@pytest.mark.parametrize(("path", "dialect"), ROUTES.values(), ids=ROUTES)
async def test_a_client_that_leaves_in_mid_stream_closes_the_upstream_connection(
    path: str, dialect: str, gateway: StartGateway
) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(hangs_after_the_opening(CHAT_ANSWER if dialect == "chat" else RESPONSES_ANSWER))
        serving = gateway(patient(upstream.url, dialect))
        async with connected(serving.v1) as client:
            client.post(path, question(path, stream=True))
            assert await client.status() == 200
            await client.read_to(b"upstream")
        await closes_at_once(upstream)


@PATHS
async def test_a_client_that_leaves_during_a_json_reply_closes_the_upstream_connection(
    path: str, gateway: StartGateway
) -> None:
    arriving = asyncio.Event()

    async def half_an_answer(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{")
        arriving.set()
        await exchange.request.closed

    async with ScriptedUpstream() as upstream:
        upstream.script(half_an_answer)
        serving = gateway(patient(upstream.url))
        async with connected(serving.v1) as client:
            client.post(path, question(path, stream=False))
            await arriving.wait()
        await closes_at_once(upstream)


@PATHS
async def test_two_hundred_clients_that_leave_at_once_leave_nothing_open(path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(hangs_after_the_opening(CHAT_ANSWER))
        serving = gateway(patient(upstream.url))

        async def begin() -> None:
            async with connected(serving.v1) as client:
                client.post(path, question(path, stream=True))
                await client.read_to(b"upstream")

        await asyncio.gather(*(begin() for _ in range(200)))
        async with asyncio.timeout(60):
            await asyncio.gather(*(request.closed for request in upstream.requests))
        upstream.script(chat_text("hi"))
        assert (await ask(serving.v1, path, stream=True)).text == "hi"


@PATHS
async def test_a_client_that_does_not_read_slows_the_upstream_down(path: str, gateway: StartGateway) -> None:
    flood = Flood()
    async with ScriptedUpstream() as upstream:
        upstream.script(flood)
        serving = gateway(patient(upstream.url))
        async with connected(serving.v1) as client:
            client.post(path, question(path, stream=True))
            assert await flood.sent_before_held < WHOLE / 2
        await closes_at_once(upstream)


@pytest.mark.parametrize(("path", "dialect"), ROUTES.values(), ids=ROUTES)
@pytest.mark.parametrize("begun", [False, True], ids=["before the first byte", "in mid-stream"])
async def test_silence_is_filled_with_comments(path: str, dialect: str, begun: bool, gateway: StartGateway) -> None:
    go_on = asyncio.Event()
    answer = CHAT_ANSWER if dialect == "chat" else RESPONSES_ANSWER
    opening = answer.opening if begun else b""
    async with ScriptedUpstream() as upstream:
        steps: list[Step] = [opening, Pause(go_on), answer.stream.removeprefix(opening)]
        upstream.script(Reply(headers=SSE, body=steps))
        serving = gateway(patient(upstream.url, dialect, keepalive_s=0.05))
        async with connected(serving.v1) as client:
            client.post(path, question(path, stream=True))
            assert await client.status() == 200
            silent = await client.read_to(b"\n:") + await client.read_to(b"\n:")
            go_on.set()
            assert (b"upstream" in silent) == begun
            assert b"upstream" in silent + await client.read_to(b"data: [DONE]\n\n")


@PATHS
async def test_a_failure_after_a_comment_is_the_last_event(path: str, gateway: StartGateway) -> None:
    end = asyncio.Event()
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[Pause(end)]))
        serving = gateway(patient(upstream.url, keepalive_s=0.05))
        async with connected(serving.v1) as client:
            client.post(path, question(path, stream=True))
            assert await client.status() == 200
            await client.read_to(b":")
            end.set()
            assert b"upstream_truncated" in await client.read_to(b"data: [DONE]\n\n")


@PATHS
@pytest.mark.parametrize("declared", [True, False], ids=["by its length", "by what arrives"])
async def test_a_body_over_the_cap_is_refused(path: str, declared: bool, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        serving = gateway(patient(upstream.url, max_body_mb=1))
        padding = json.dumps(question(path, stream=True, user="x" * 1_100_000)).encode()

        async def chunked():
            for start in range(0, len(padding), 65_536):
                yield padding[start : start + 65_536]

        async with client() as asking:
            reply = await asking.post(serving.v1 + path, content=padding if declared else chunked())
        assert reply.status_code == 413
        assert reply.json()["error"]["code"] == "request_too_large"
        assert not upstream.requests


@PATHS
async def test_a_body_that_declares_a_gigabyte_is_refused_before_it_arrives(path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        serving = gateway(patient(upstream.url))
        async with connected(serving.v1) as client:
            client.post(path, b"{", length=1024**3)
            assert await client.status() == 413


def nested(depth: int) -> bytes:
    return b'{"model":"m","input":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


UNACCEPTABLE = {
    "nested 201 deep": nested(201),
    "nested 10 000 deep": nested(10_000),
    "nested a million deep": nested(1_000_000),
    "empty": b"",
    "cut off": b'{"model":',
    "not UTF-8": b'{"model":"\xff"}',
    "a list": b"[]",
    "null": b"null",
    "half of a surrogate pair": b'{"model":"\\ud800"}',
}


@PATHS
@pytest.mark.parametrize("body", UNACCEPTABLE.values(), ids=UNACCEPTABLE)
async def test_a_body_that_is_no_sensible_json_is_refused(body: bytes, path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        serving = gateway(patient(upstream.url))
        async with client() as asking:
            reply = await asking.post(serving.v1 + path, content=body)
        assert reply.status_code == 400
        assert reply.json()["error"]["type"] == "invalid_request_error"
        assert not upstream.requests


@PATHS
async def test_null_for_every_field_is_refused_or_answered(path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(sound(CHAT_ANSWER))
        serving = gateway(patient(upstream.url))
        nothing = dict.fromkeys(
            ("temperature", "top_p", "tools", "tool_choice", "metadata", "user", "stream_options", "reasoning", "n")
        )
        assert (await ask(serving.v1, path, stream=False, **nothing)).status in (200, 400)


SMUGGLED = {
    "both a length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "a header cut in two": b"Content-Length\r\n: 5\r\n\r\nhello",
}


@pytest.mark.parametrize("rest", SMUGGLED.values(), ids=SMUGGLED)
async def test_a_request_that_two_servers_would_cut_differently_is_refused(rest: bytes, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        serving = gateway(patient(upstream.url))
        async with connected(serving.v1) as client:
            client.writer.write(b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\n" + rest)
            assert await client.status() == 400
        assert not upstream.requests


@pytest.mark.parametrize("name", ["..%2F..%2Fetc%2Fpasswd", "%00", "x" * 5000], ids=["a traversal", "NUL", "long"])
async def test_a_strange_model_name_in_a_path_is_not_found(name: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        serving = gateway({**patient(upstream.url), "models": {"known": {"provider": "upstream"}}})
        async with client() as asking:
            reply = await asking.get(f"{serving.v1}/models/{name}")
        assert reply.status_code == 404
        assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
