"""Limits of WebSockets: who may open one, for how long, and how it ends."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.faults.config import config
from tests.faults.connection import EXIT_S
from tests.serving import command, serving
from tests.upstream import Hang, Pause, Reply, ScriptedUpstream, chat_text
from tests.upstream.builders import SSE
from tests.upstream.faults import CHAT as CHAT_ANSWER
from tests.websocket_client import Json, kinds, talking

pytestmark = pytest.mark.anyio

REST = CHAT_ANSWER.stream.removeprefix(CHAT_ANSWER.opening)


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("Good day."))
        yield upstream


def configured(upstream: ScriptedUpstream, *, server: Json | None = None, **sections: Any) -> Json:
    return {**config(upstream.url, "chat", server=server), **sections}


async def refusal(v1: str, path: str = "/responses", **options: Any) -> httpx.Response:
    """Returns the reply to a refused handshake."""
    with pytest.raises(InvalidStatus) as refused:
        async with talking(v1, path, **options):
            pass
    reply = refused.value.response
    return httpx.Response(reply.status_code, headers=list(reply.headers.raw_items()), content=bytes(reply.body))


def code_of(reply: httpx.Response) -> str | None:
    error: Json = reply.json()["error"]
    code: str | None = error["code"]
    return code


AUTH = {
    "keys": [
        {"name": "ada", "key": "key-of-ada", "models": ["some-*"]},
        {"name": "bob", "key": "key-of-bob", "models": ["other-*"]},
    ]
}


def bearer(key: str) -> Json:
    return {"additional_headers": {"authorization": f"Bearer {key}"}}


@pytest.mark.parametrize("options", [{}, bearer("wrong")], ids=["no key", "a wrong key"])
async def test_without_a_good_key_the_handshake_is_answered_401(options: Json, upstream: ScriptedUpstream) -> None:
    with serving(configured(upstream, auth=AUTH)) as gateway:
        reply = await refusal(gateway.v1, **options)
        assert (reply.status_code, code_of(reply)) == (401, "invalid_api_key")
        assert reply.headers["www-authenticate"] == "Bearer"
        assert reply.headers["x-request-id"].startswith("req_")


async def test_a_key_is_good_for_its_models(upstream: ScriptedUpstream) -> None:
    with serving(configured(upstream, auth=AUTH)) as gateway:
        async with talking(gateway.v1, **bearer("key-of-ada")) as talk:
            assert (await talk.response())["status"] == "completed"
        async with talking(gateway.v1, **bearer("key-of-bob")) as talk:
            error = await talk.error()
            assert (error["status"], error["error"]["code"]) == (404, "model_not_found")


async def test_responses_of_one_connection_cannot_be_continued_on_another(upstream: ScriptedUpstream) -> None:
    with serving(configured(upstream)) as gateway:
        async with talking(gateway.v1) as mine, talking(gateway.v1) as other:
            response = await mine.response(store=False)
            error = await other.error(previous_response_id=response["id"], store=False)
            assert error["error"]["code"] == "previous_response_not_found"


async def test_the_request_id_of_a_client_is_returned(upstream: ScriptedUpstream) -> None:
    with serving(configured(upstream)) as gateway:
        async with talking(gateway.v1, additional_headers={"x-request-id": "mine-1"}) as talk:
            assert talk.socket.response is not None
            assert talk.socket.response.headers["x-request-id"] == "mine-1"


async def test_strict_mode_holds_for_every_turn(upstream: ScriptedUpstream) -> None:
    with serving(configured(upstream)) as gateway:
        async with talking(gateway.v1, additional_headers={"x-gateway-strict": "true"}) as talk:
            for _ in range(2):
                error = await talk.error(novelty=1)
                assert (error["error"]["code"], error["error"]["param"]) == ("unsupported_parameter", "novelty")
        reply = await refusal(gateway.v1, additional_headers={"x-gateway-strict": "perhaps"})
        assert reply.status_code == 400


@pytest.mark.parametrize("path", ["/chat/completions", "/responses/resp_1", ""])
async def test_other_paths_have_no_websocket(path: str, upstream: ScriptedUpstream) -> None:
    with serving(configured(upstream)) as gateway:
        assert (await refusal(gateway.v1, path)).status_code == 404


async def test_a_page_of_another_host_may_not_connect(upstream: ScriptedUpstream) -> None:
    with serving(configured(upstream)) as gateway:
        reply = await refusal(gateway.v1, origin="https://evil.example")
        assert (reply.status_code, code_of(reply)) == (403, "origin_not_allowed")
        async with talking(gateway.v1, origin=gateway.url) as talk:
            await talk.response()


async def test_a_page_that_may_send_requests_may_connect(upstream: ScriptedUpstream) -> None:
    cors = {"origins": ["https://app.example.com"]}
    with serving(configured(upstream, server={"cors": cors})) as gateway:
        async with talking(gateway.v1, origin="https://app.example.com") as talk:
            await talk.response()
        assert (await refusal(gateway.v1, origin="https://evil.example")).status_code == 403


async def test_connections_are_counted_while_they_are_open(upstream: ScriptedUpstream) -> None:
    with serving(configured(upstream, websocket={"max_connections": 1})) as gateway:
        async with talking(gateway.v1) as talk:
            await talk.response()
            reply = await refusal(gateway.v1)
            assert (reply.status_code, code_of(reply)) == (503, "too_many_connections")
            assert reply.headers["retry-after"] == "1"
        async with asyncio.timeout(60):
            while True:
                try:
                    async with talking(gateway.v1) as talk:
                        await talk.response()
                        return
                except InvalidStatus:
                    continue  # the server has not noticed the end of the first one yet


async def test_an_idle_connection_is_closed_when_its_time_is_over(upstream: ScriptedUpstream) -> None:
    with serving(configured(upstream, websocket={"max_minutes": 0.002})) as gateway:
        async with talking(gateway.v1) as talk:
            code, events = await talk.closed()
            assert code == 1000
            assert [event["error"]["code"] for event in events] == ["websocket_connection_limit_reached"]
            assert events[0]["status"] == 400


async def test_a_turn_may_outlast_its_connection_and_no_other_begins(upstream: ScriptedUpstream) -> None:
    go_on = asyncio.Event()
    upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Pause(go_on), REST]))
    with serving(configured(upstream, websocket={"max_minutes": 0.05})) as gateway:
        async with talking(gateway.v1) as talk:
            await talk.create(stream_id="a")
            await talk.create(stream_id="a")
            events = await talk.read_to("error")
            assert events[-1]["error"]["code"] == "websocket_connection_limit_reached"
            assert events[-1]["stream_id"] == "a"
            await talk.create(stream_id="b")
            assert (await talk.read())["stream_id"] == "b"
            go_on.set()
            code, events = await talk.closed()
            assert code == 1000
            assert kinds(events)[-2:] == ["response.completed", "error"]
    assert len(upstream.requests) == 1


async def test_a_server_that_stops_closes_idle_connections_at_once(upstream: ScriptedUpstream) -> None:
    with serving(configured(upstream, server={"drain_s": 20.0})) as gateway:
        async with talking(gateway.v1) as talk:
            await talk.response()
            gateway.begin_stop()
            assert await talk.closed() == (1012, [])
        assert await asyncio.to_thread(gateway.stopped.wait, 5)


async def test_a_server_that_stops_lets_a_turn_finish_and_begins_no_other(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    go_on = asyncio.Event()
    upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Pause(go_on), REST]))
    with command(configured(upstream, server={"drain_s": 20.0}), tmp_path, forked=True) as server:
        async with talking(server.v1) as talk:
            await talk.create()
            await talk.create()
            await talk.read_to("response.output_text.delta")
            server.process.terminate()
            events = await talk.read_to("error")
            assert (events[-1]["status"], events[-1]["error"]["code"]) == (503, "server_shutting_down")
            go_on.set()
            code, events = await talk.closed()
            assert (code, kinds(events)[-1]) == (1012, "response.completed")
        assert server.process.wait(EXIT_S) == 0


async def test_a_turn_that_outlasts_the_drain_ends_with_a_failure_event(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Hang()]))
    with command(configured(upstream, server={"drain_s": 0.2}), tmp_path, forked=True) as server:
        async with talking(server.v1) as talk:
            await talk.create()
            await talk.read_to("response.output_text.delta")
            server.process.terminate()
            code, events = await talk.closed()
            assert code == 1012
            assert events[-1]["type"] == "response.failed"
            assert "shutting down" in events[-1]["response"]["error"]["message"]
            await upstream.requests[0].closed
        assert server.process.wait(EXIT_S) == 0
        assert "Traceback" not in server.read_log()


async def test_every_turn_has_a_line_in_the_log(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    with command(configured(upstream), tmp_path, forked=True) as server:
        async with talking(server.v1, additional_headers={"x-request-id": "mine-1"}) as talk:
            await talk.response()
            await talk.error(model="other", temperature=9)
        server.process.terminate()
        assert server.process.wait(EXIT_S) == 0
        lines = [line for line in server.read_log().splitlines() if "mine-1" in line]
        lines = [line for line in lines if '"message":"model_list_failed"' not in line]
    assert [('"message":"turn"' in line, '"status":200' in line, '"status":400' in line) for line in lines] == [
        (True, True, False),
        (True, False, True),
        (False, False, False),
    ]
    assert '"status":101' in lines[2]
    assert '"model":"some-model"' in lines[0]
    assert "invalid_value" not in lines[0]
