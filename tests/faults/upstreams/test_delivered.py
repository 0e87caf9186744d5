"""After content was delivered nobody else is asked, a client that left is nobody's failure, and streams stay alive."""

import asyncio
import time
from typing import Any

import httpx
import pytest

from tests.faults.client_view import CHAT, MESSAGES, RESPONSES, client, question, read
from tests.faults.config import StartGateway
from tests.faults.upstreams.test_attempts import APIS, TEXT, ask, limit_silence, rejected, shared
from tests.polling import PROMPT_S, read_until
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.script import Close, Hang, Pause, Reply, Reset, Step, silence
from tests.upstream.server import ScriptedUpstream

ANSWER = ANSWERS["chat"]
HURRY_S = 4.0
"""A deadline that a test waits for, and within which an upstream has begun its reply on a busy machine too."""
CUTS: dict[str, list[Step]] = {
    "reset": [ANSWER.opening, Reset()],
    "end": [ANSWER.opening, Close()],
    "an error event": [ANSWER.opening, ANSWER.error],
    "silence": [ANSWER.opening, Hang()],
}


async def report(url: str) -> list[dict[str, Any]]:
    async with client() as asking:
        rows: list[dict[str, Any]] = (await asking.get(f"{url}/v1/gateway/routes/scripted-model")).json()["upstreams"]
    return rows


@pytest.mark.parametrize("path", APIS.values(), ids=APIS)
@pytest.mark.parametrize("cut", CUTS)
async def test_a_stream_that_breaks_after_content_ends_in_one_failure(
    cut: str, path: str, gateway: StartGateway
) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(Reply(headers=ANSWER.headers, body=CUTS[cut]))
        config = shared(first.url, second.url, eject_failures=1)
        if cut == "silence":
            limit_silence(config, "first", seconds=HURRY_S)
        running = gateway(config)
        seen, headers = await ask(running.v1, path, stream=True)
        rows = await report(running.url)
    assert (seen.status, seen.ending, seen.text) == (200, "failed", TEXT)
    assert (headers["x-gateway-upstream"], headers["x-gateway-attempts"]) == ("first", "1")
    assert not second.requests
    assert rows[0]["state"] == "ejected"  # it counts against the upstream
    assert rows[0]["in_flight"] == 0


@pytest.mark.parametrize("path", APIS.values(), ids=APIS)
async def test_a_client_that_leaves_ends_its_attempt_and_nobody_else_is_asked(path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(Reply(headers=ANSWER.headers, body=[Hang()]))
        running = gateway(shared(first.url, second.url, eject_failures=1))
        async with client() as asking:
            task = asyncio.ensure_future(asking.post(f"{running.v1}{path}", json=question(path, stream=True)))
            request = await first.received(1)
            task.cancel()
            await asyncio.wait([task])
        async with asyncio.timeout(PROMPT_S):
            await request.closed
        rows = await read_until(lambda: report(running.url), lambda rows: [row["in_flight"] for row in rows] == [0, 0])
    assert not second.requests
    assert [row["state"] for row in rows] == ["available", "available"]


@pytest.mark.parametrize("path", [RESPONSES, CHAT, MESSAGES])
async def test_a_stream_is_kept_alive_while_upstreams_fail(path: str, gateway: StartGateway) -> None:
    go_on = asyncio.Event()
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(Reply(headers=ANSWER.headers, body=[Pause(go_on), Close()]))
        second.script(sound(ANSWERS["responses"]))
        config = shared(first.url, second.url)
        config["server"]["keepalive_s"] = 0.05
        running = gateway(config)
        body = b""
        async with (
            client() as asking,
            asking.stream("POST", f"{running.v1}{path}", json=question(path, stream=True)) as reply,
        ):
            async for piece in reply.aiter_bytes():
                if not body:
                    go_on.set()  # the first bytes are a keep-alive: no upstream has sent content
                body += piece
    whole = httpx.Response(200, headers={**reply.headers}, content=body)
    assert read(path, whole, stream=True).text == TEXT
    assert second.requests


async def test_a_failure_after_a_keepalive_is_an_event(gateway: StartGateway) -> None:
    go_on = asyncio.Event()
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=ANSWER.headers, body=[Pause(go_on), Close()]))
        config = shared(upstream.url, upstream.url)
        config["providers"]["second"]["dialects"] = ["chat"]
        config["server"]["keepalive_s"] = 0.05
        running = gateway(config)
        body = b""
        async with (
            client() as asking,
            asking.stream("POST", f"{running.v1}{RESPONSES}", json=question(RESPONSES, stream=True)) as reply,
        ):
            async for piece in reply.aiter_bytes():
                go_on.set()
                body += piece
    seen = read(RESPONSES, httpx.Response(200, headers={**reply.headers}, content=body), stream=True)
    assert (seen.ending, seen.code) == ("failed", "upstream_disconnected")


async def test_first_content_and_the_whole_turn_have_deadlines(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(Reply(headers=ANSWER.headers, body=[ANSWER.frames[0], Hang()]))
        second.script(sound(ANSWERS["responses"]))
        config = shared(first.url, second.url, first_content_s=HURRY_S)
        seen, headers = await ask(gateway(config).v1, CHAT, stream=True)
        assert (seen.text, headers["x-gateway-attempts"]) == (TEXT, "2")
        for stream in (True, False):
            config = shared(first.url, first.url, total_s=HURRY_S)
            config["providers"]["second"]["dialects"] = ["chat"]
            seen, headers = await ask(gateway(config).v1, CHAT, stream=stream)
            assert (seen.status, seen.code, headers["x-gateway-attempts"]) == (504, "upstream_timeout", "1")


async def test_a_stream_that_takes_longer_than_a_turn_may_ends_in_a_failure(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as first:
        first.script(Reply(headers=ANSWER.headers, body=[ANSWER.opening, Hang()]))
        running = gateway(shared(first.url, first.url, total_s=HURRY_S, eject_failures=1))
        seen, _ = await ask(running.v1, CHAT, stream=True)
        rows = await report(running.url)
    assert (seen.ending, seen.text, seen.code) == ("failed", TEXT, "upstream_timeout")
    assert rows[0]["state"] == "available"  # that a turn is long says nothing of its upstream


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "JSON"])
@pytest.mark.parametrize("path", APIS.values(), ids=APIS)
async def test_the_end_of_the_time_of_a_turn_is_no_failure_of_its_upstream(
    path: str, stream: bool, gateway: StartGateway
) -> None:
    async with ScriptedUpstream() as first:
        first.script(silence)
        running = gateway(shared(first.url, first.url, total_s=HURRY_S, eject_failures=1))
        seen, headers = await ask(running.v1, path, stream=stream)
        rows = await report(running.url)
    assert (seen.status, headers["x-gateway-attempts"]) == (504, "1")
    assert [row["state"] for row in rows] == ["available", "available"]


async def test_all_parked_upstreams_are_not_asked_again(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(rejected(429, retry_after="30"))
        config = shared(upstream.url, upstream.url)
        running = gateway(config)
        began = time.monotonic()
        await ask(running.v1, CHAT, stream=False)
        count = len(upstream.requests)
        seen, headers = await ask(running.v1, CHAT, stream=False)
        least = 30 - (time.monotonic() - began)
    assert (seen.status, seen.code) == (429, "rate_limit_exceeded")
    assert least <= int(headers["retry-after"]) <= 30, "what is left of its pause"
    assert headers["x-gateway-attempts"] == "0"
    assert "x-gateway-upstream" not in headers
    assert len(upstream.requests) == count


async def test_an_unknown_model_has_no_attempt_and_no_upstream(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        config = shared(upstream.url, upstream.url)
        config["models"] = {"known": config["models"]["*"]}
        running = gateway(config)
        for path in APIS.values():
            _, headers = await ask(running.v1, path, stream=False)
            assert headers["x-gateway-attempts"] == "0"
            assert "x-gateway-upstream" not in headers
        assert not upstream.requests


async def test_a_name_with_one_provider_has_the_headers_too(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(sound(ANSWER), rejected(400))
        config = shared(upstream.url, upstream.url)
        config["models"] = {"*": {"provider": "first"}}
        running = gateway(config)
        for expected in (200, 400):
            seen, headers = await ask(running.v1, CHAT, stream=True)
            assert seen.status == expected
            assert (headers["x-gateway-upstream"], headers["x-gateway-attempts"]) == ("first", "1")
        config["routing"] = {"reply_headers": False}
        for running in (gateway(config),):
            _, headers = await ask(running.v1, CHAT, stream=False)
            assert "x-gateway-attempts" not in headers
