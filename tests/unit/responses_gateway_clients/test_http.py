"""Requests of the gateway's own clients: retries, and errors with the gateway's messages."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from responses_gateway_clients import http
from responses_gateway_clients.http import FrameReader, GatewayClient, GatewayError
from tests.polling import PROMPT_S
from tests.upstream import Hang, Reply, ScriptedUpstream, closed_port, error_reply, json_reply, reset
from tests.upstream.builders import SSE

Json = dict[str, Any]

ONE = b'data: {"response":"a"}\n\n'
END = b'event: done\ndata: {"response":"ab"}\n\n'


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as running:
        yield running


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The delays between attempts, without waiting."""
    waited: list[float] = []

    async def note(seconds: float) -> None:
        waited.append(seconds)

    class Time:
        sleep = staticmethod(waited.append)

    class Asyncio:
        sleep = staticmethod(note)

    monkeypatch.setattr(http, "time", Time)
    monkeypatch.setattr(http, "asyncio", Asyncio)
    return waited


def gateway(base_url: str, *, retries: int = 2, timeout_s: float = 5.0, key: str | None = None) -> GatewayClient:
    return GatewayClient(base_url=base_url, api_key=key, timeout_s=timeout_s, max_retries=retries, headers={"x-a": "b"})


async def _post(asked: GatewayClient) -> Any:
    return await asyncio.to_thread(asked.post, "/generate", {"a": 1})


async def _apost(asked: GatewayClient) -> Any:
    return await asked.apost("/generate", {"a": 1})


async def _stream(asked: GatewayClient) -> Any:
    return await asyncio.to_thread(lambda: [frame.payload for frame in asked.stream("/generate", {"a": 1})])


async def _astream(asked: GatewayClient) -> Any:
    return [frame.payload async for frame in asked.astream("/generate", {"a": 1})]


WAYS = pytest.mark.parametrize("way", [_post, _apost, _stream, _astream])
STREAMS = pytest.mark.parametrize("way", [_stream, _astream])


def answer(way: Any) -> tuple[Reply, Any]:
    """A good reply, and what becomes of it."""
    if way in (_stream, _astream):
        return Reply(headers=SSE, body=ONE + END), [{"response": "a"}, {"response": "ab"}]
    return json_reply({"response": "ab"}), {"response": "ab"}


@WAYS
async def test_a_request_has_the_key_and_the_body(way: Any, upstream: ScriptedUpstream) -> None:
    reply, expected = answer(way)
    upstream.script(reply)
    assert await way(gateway(upstream.url, key="secret")) == expected
    asked = upstream.requests[0]
    assert asked.json == {"a": 1}
    assert (asked.headers["authorization"], asked.headers["x-a"]) == ("Bearer secret", "b")


@WAYS
async def test_temporary_failures_are_retried_after_the_requested_delay(
    way: Any, upstream: ScriptedUpstream, waits: list[float]
) -> None:
    reply, expected = answer(way)
    busy = error_reply(429, "slow down", headers={"retry-after": "3"})
    upstream.on("/generate", busy, error_reply(503, "starting", headers={"retry-after": "soon"}), reply)
    assert await way(gateway(upstream.url)) == expected
    assert waits == [3.0, 1.0]


@WAYS
async def test_a_connection_that_breaks_before_the_reply_is_retried(
    way: Any, upstream: ScriptedUpstream, waits: list[float]
) -> None:
    reply, expected = answer(way)
    upstream.on("/generate", reset, reply)
    assert await way(gateway(upstream.url)) == expected
    assert waits == [0.5]


@WAYS
async def test_the_last_failure_has_the_gateways_message(
    way: Any, upstream: ScriptedUpstream, waits: list[float]
) -> None:
    upstream.script(error_reply(429, "slow down", code="rate_limit_exceeded"))
    with pytest.raises(GatewayError) as failed:
        await way(gateway(upstream.url, retries=1))
    assert (failed.value.message, failed.value.status, failed.value.code) == ("slow down", 429, "rate_limit_exceeded")
    assert (len(upstream.requests), waits) == (2, [0.5])


@WAYS
async def test_a_client_error_is_not_retried(way: Any, upstream: ScriptedUpstream) -> None:
    error = {"error": {"message": "no such parser", "param": "tool_parser", "code": "invalid_value"}}
    upstream.script(json_reply(error, 400))
    with pytest.raises(GatewayError, match="no such parser") as failed:
        await way(gateway(upstream.url))
    assert (failed.value.param, failed.value.status, len(upstream.requests)) == ("tool_parser", 400, 1)


@WAYS
@pytest.mark.parametrize("body", [b"<html>", b'"error"', b'{"error": "no"}', b"[]"])
async def test_a_refusal_without_a_message_has_a_status(way: Any, body: bytes, upstream: ScriptedUpstream) -> None:
    upstream.script(Reply(404, {"content-type": "text/html"}, body, framing="length"))
    with pytest.raises(GatewayError, match="status 404"):
        await way(gateway(upstream.url))


@WAYS
async def test_an_unreachable_gateway_is_reported(way: Any) -> None:
    with pytest.raises(GatewayError, match="cannot be reached") as failed:
        await way(gateway(f"http://127.0.0.1:{closed_port()}", retries=1))
    assert (failed.value.code, failed.value.status) == ("unreachable", None)


@WAYS
async def test_a_silent_gateway_times_out(way: Any, upstream: ScriptedUpstream) -> None:
    upstream.script(Reply(headers=SSE, body=[Hang()]))
    with pytest.raises(GatewayError, match="in time") as failed:
        await way(gateway(upstream.url, retries=0, timeout_s=0.2))
    assert failed.value.code == "timeout"


@WAYS
@pytest.mark.parametrize("body", [b"nonsense", b"[1]", b"3"])
async def test_a_reply_that_is_not_a_gateways_is_reported(way: Any, body: bytes, upstream: ScriptedUpstream) -> None:
    framed = b"data: " + body + b"\n\n" if way in (_stream, _astream) else body
    upstream.script(Reply(200, {"content-type": "text/plain"}, framed, framing="length"))
    with pytest.raises(GatewayError, match="is not a JSON object"):
        await way(gateway(upstream.url))


@STREAMS
async def test_a_stream_that_began_is_not_retried(way: Any, upstream: ScriptedUpstream) -> None:
    upstream.script(Reply(headers=SSE, body=[ONE, Hang()]))
    with pytest.raises(GatewayError):
        await way(gateway(upstream.url, timeout_s=5))
    assert len(upstream.requests) == 1


async def test_closing_a_stream_closes_the_connection(upstream: ScriptedUpstream) -> None:
    upstream.script(Reply(headers=SSE, body=[ONE, Hang()]))

    def leave() -> None:
        frames = gateway(upstream.url).stream("/generate", {})
        assert next(frames).payload == {"response": "a"}
        frames.close()

    await asyncio.to_thread(leave)
    async with asyncio.timeout(PROMPT_S):
        await upstream.requests[0].closed
    frames = gateway(upstream.url).astream("/generate", {})
    assert (await anext(frames)).payload == {"response": "a"}
    await frames.aclose()
    async with asyncio.timeout(PROMPT_S):
        await upstream.requests[1].closed


def _cuts(whole: bytes) -> Iterator[list[bytes]]:
    yield [whole[place : place + 1] for place in range(len(whole))]
    for place in range(len(whole)):
        yield [whole[:place], whole[place:]]


def test_frames_are_the_same_wherever_they_are_cut() -> None:
    text = "a\u2028b\x85c\x0bd\ré\\n"
    said = json.dumps({"response": text}, ensure_ascii=False)
    whole = f": keep-alive\n\ndata: {said}\n\nevent: done\ndata: {{}}\n\ndata: [DONE]\n\nevent: empty\n\n".encode()
    for reads in _cuts(whole):
        reader = FrameReader()
        frames = [frame for read in reads for frame in reader.feed(read)]
        assert frames == [(None, {"response": text}), ("done", {})]


def test_retry_delays_grow_and_stay_bounded() -> None:
    assert list(gateway("http://x", retries=8)._retry_waits()) == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, None]
