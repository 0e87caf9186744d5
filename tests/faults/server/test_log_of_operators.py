"""What an operator finds in the log: the ids of both servers, what requests lost, who was refused, what has failed."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.faults.client_view import CHAT, GEMINI, MESSAGES, OLLAMA, RESPONSES, address_of, client, question
from tests.faults.config import config
from tests.faults.routes import GEMINI_ROUTES, MESSAGES_ROUTES, NATIVE_ROUTES, OLLAMA_ROUTES, ROUTES
from tests.serving import Command, Gateway, command, read_whole_lines, serving
from tests.upstream import Reply, ScriptedUpstream, chat_text
from tests.upstream.builders import JSON, SSE, either, error_reply, json_reply
from tests.upstream.faults import ANSWERS
from tests.upstream.faults import CHAT as CHAT_ANSWER
from tests.upstream.script import Script
from tests.websocket_client import talking

ALL_ROUTES = {**ROUTES, **NATIVE_ROUTES, **MESSAGES_ROUTES, **OLLAMA_ROUTES, **GEMINI_ROUTES}

KEY = "a-valid-key-of-a-client"
AUTH = {"keys": [{"name": "ada-2026", "owner": "ada", "key": KEY, "models": ["scripted-*"]}]}


def read_lines(log: Path, message: str = "request") -> list[dict[str, Any]]:
    lines = map(json.loads, read_whole_lines(log).splitlines())
    return [line for line in lines if line["message"] == message]


async def send(
    gateway: Gateway | Command, path: str, *, stream: bool = False, headers: Any = (), **more: Any
) -> httpx.Response:
    asked = question(path, stream=stream, **more)
    url = gateway.url if path == OLLAMA else f"{gateway.url}/v1beta" if path == GEMINI else gateway.v1
    async with client() as asking:
        return await asking.post(url + address_of(path, asked), json=asked, headers=dict(headers))


def identified(dialect: str, **headers: str) -> Script:
    """A sound answer whose head has these headers too, with `_` for `-`."""
    answer, own = ANSWERS[dialect], {name.replace("_", "-"): value for name, value in headers.items()}
    return either(
        Reply(headers={**answer.headers, **own}, body=answer.stream), Reply(headers={**JSON, **own}, body=answer.whole)
    )


@pytest.mark.parametrize("route", ALL_ROUTES)
async def test_the_ids_of_both_servers_cross_the_gateway(route: str) -> None:
    path, dialect = ALL_ROUTES[route]
    async with ScriptedUpstream() as upstream:
        upstream.script(identified(dialect, x_request_id="up-1"))
        with serving(config(upstream.url, dialect)) as gateway:
            for stream in (False, True):
                own_id = f"mine-{stream}"
                reply = await send(gateway, path, stream=stream, headers={"x-request-id": own_id})
                request = [each for each in upstream.requests if each.content][-1]
                assert reply.status_code == 200, reply.text
                assert request.headers["x-request-id"] == own_id
                assert reply.headers["x-upstream-request-id"] == "up-1"
                assert reply.headers["x-request-id"] == own_id


@pytest.mark.parametrize("transport", ["pooled", "httpx"])
async def test_every_transport_sends_the_id(transport: str) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(identified("chat", request_id="up-1"))
        with serving(config(upstream.url, "chat", transport=transport)) as gateway:
            reply = await send(gateway, CHAT, headers={"x-request-id": "mine-1"})
    assert [each.headers["x-request-id"] for each in upstream.requests] == ["mine-1"]
    assert reply.headers["x-upstream-request-id"] == "up-1"


async def test_an_uploaded_form_carries_the_id() -> None:
    form: Any = {"model": (None, "scripted-model"), "file": ("a.wav", b"RIFF")}
    async with ScriptedUpstream() as upstream:
        upstream.script(json_reply({"text": "hi"}, headers={"x-request-id": "up-1"}))
        with serving(config(upstream.url, "chat")) as gateway:
            async with client() as asking:
                reply = await asking.post(
                    f"{gateway.v1}/audio/transcriptions", files=form, headers={"x-request-id": "mine-1"}
                )
    assert [each.headers["x-request-id"] for each in upstream.requests] == ["mine-1"]
    assert reply.headers["x-upstream-request-id"] == "up-1"


async def test_an_id_of_the_operators_own_headers_is_not_replaced() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("hi"))
        with serving(config(upstream.url, "chat", headers={"X-Request-Id": "fixed"})) as gateway:
            await send(gateway, CHAT, headers={"x-request-id": "mine-1"})
    assert [each.headers["x-request-id"] for each in upstream.requests] == ["fixed"]


async def test_a_turn_of_a_websocket_has_the_upstreams_id(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(identified("chat", x_request_id="up-1"))
        with command(config(upstream.url, "chat"), tmp_path, forked=True) as gateway:
            async with talking(gateway.v1) as talk:
                events = await talk.turn()
    assert events[0]["headers"]["x-upstream-request-id"] == "up-1"
    assert [line["upstream_request_id"] for line in read_lines(gateway.log, "turn")] == ["up-1"]


@pytest.mark.parametrize(
    ("status", "reply_status"), [(400, 400), (401, 502), (404, 404), (429, 429), (500, 502), (503, 503)]
)
async def test_what_an_upstream_rejects_is_a_warning_with_its_id(
    status: int, reply_status: int, tmp_path: Path
) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(error_reply(status, "the model 'a' is no good", headers={"x-request-id": "up-1"}))
        with command(config(upstream.url, "chat"), tmp_path, forked=True) as gateway:
            replies = [await send(gateway, path) for path in (CHAT, RESPONSES, "/embeddings")]
        lines = read_lines(gateway.log)
    assert [reply.headers["x-upstream-request-id"] for reply in replies] == ["up-1"] * 3
    for line in lines:
        assert (line["status"], line["level"]) == (reply_status, "warning"), line
        assert (line["upstream_status"], line["upstream_request_id"]) == (status, "up-1")
        assert line["upstream"] == upstream.url.removesuffix("/v1")


async def test_a_stream_that_an_upstream_ends_with_an_error_is_a_warning(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=CHAT_ANSWER.opening + CHAT_ANSWER.error))
        with command(config(upstream.url, "chat"), tmp_path, forked=True) as gateway:
            for path in (CHAT, RESPONSES, MESSAGES):
                await send(gateway, path, stream=True)
        lines = read_lines(gateway.log)
    assert [(line["status"], line["error_status"], line["level"]) for line in lines] == [(200, 429, "warning")] * 3


async def test_mistakes_of_clients_are_no_warnings(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("hi"))
        with command({**config(upstream.url, "chat"), "auth": AUTH}, tmp_path, forked=True) as gateway:
            valid = {"authorization": f"Bearer {KEY}"}
            await send(gateway, CHAT, headers=valid, temperature="hot")
            await send(gateway, CHAT, headers=valid, model="another")
            await send(gateway, CHAT)
        lines = read_lines(gateway.log)
    assert [(line["status"], line["level"]) for line in lines] == [(400, "info"), (404, "info"), (401, "info")]


async def test_a_line_has_the_names_of_what_was_lost_and_no_values(tmp_path: Path) -> None:
    lost = {"seed": 4711_4711_4711, "prediction": {"type": "content", "content": "a secret"}, "unknown_key": "a secret"}
    async with ScriptedUpstream() as upstream:
        upstream.script(identified("anthropic"))
        with command(config(upstream.url, "anthropic"), tmp_path, forked=True) as gateway:
            replies = [await send(gateway, CHAT, stream=stream, **lost) for stream in (False, True)]
            await send(gateway, CHAT)
        first, second, last = read_lines(gateway.log)
    for reply, line in zip(replies, (first, second), strict=True):
        assert reply.status_code == 200
        header = [entry.partition("=")[0] for entry in reply.headers["x-gateway-loss"].split(", ")]
        assert line["losses"] == list(dict.fromkeys(header))
        assert {"seed", "prediction", "unknown_key"} <= set(line["losses"])
    assert "losses" not in last
    assert "secret" not in gateway.read_log()
    assert "471147114711" not in gateway.read_log()


UNKNOWN_MODEL_REQUESTS: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "Responses": ("POST", "/v1/responses", {"input": "hi"}),
    "chat": ("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    "Messages": ("POST", "/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}),
    "Ollama": ("POST", "/api/chat", {"messages": [{"role": "user", "content": "hi"}]}),
    "Gemini": ("POST", "/v1beta/models/no-such-model:generateContent", {"contents": [{"parts": [{"text": "hi"}]}]}),
    "AG-UI": ("POST", "/v1/agui/no-such-model", {"threadId": "t", "runId": "r", "messages": [], "tools": []}),
    "generate": ("POST", "/generate", {"messages": [{"role": "user", "content": "hi"}]}),
    "embeddings": ("POST", "/v1/embeddings", {"input": "hi"}),
    "token counts": ("POST", "/v1/responses/input_tokens", {"input": "hi"}),
    "compaction": ("POST", "/v1/responses/compact", {"input": "hi"}),
    "a model object": ("GET", "/v1/models/no-such-model", None),
}


async def test_a_line_of_status_404_has_the_model_that_was_requested(tmp_path: Path) -> None:
    settings = {**config("http://127.0.0.1:9/v1", "chat"), "models": {"some": {"provider": "upstream"}}}
    with command(settings, tmp_path, forked=True) as gateway:
        async with client() as asking:
            for method, path, body in UNKNOWN_MODEL_REQUESTS.values():
                asked = None if body is None else {"model": "no-such-model", **body}
                await asking.request(method, gateway.url + path, json=asked)
    seen = [(line["path"], line["status"], line.get("model")) for line in read_lines(gateway.log)]
    assert seen == [(path, 404, "no-such-model") for _, path, _ in UNKNOWN_MODEL_REQUESTS.values()]


REFUSED_KEYS: Sequence[tuple[dict[str, str], str]] = [
    ({}, "none"),
    ({"authorization": "Basic dXNlcjpwYXNz"}, "none, the authorization header is not Bearer"),
    ({"authorization": "Bearer another-key-of-a-client"}, "...ient, 23 characters"),
    ({"x-api-key": "another-key-of-a-client"}, "...ient, 23 characters"),
    ({"x-goog-api-key": "short-key"}, "9 characters"),
]


async def test_a_line_of_status_401_has_the_address_and_a_hint_at_the_key(tmp_path: Path) -> None:
    settings = {**config("http://127.0.0.1:9/v1", "chat"), "auth": AUTH}
    with command(settings, tmp_path, forked=True) as gateway:
        for headers, _ in REFUSED_KEYS:
            await send(gateway, CHAT, headers=headers)
        await send(gateway, CHAT, headers={"x-forwarded-for": "192.0.2.1, 10.0.0.1"})
        async with client() as asking:
            await asking.get(f"{gateway.v1}/models")
        with pytest.raises(InvalidStatus):
            async with talking(gateway.v1):
                pass
    lines = read_lines(gateway.log)
    hints = [*(hint for _, hint in REFUSED_KEYS), "none", "none", "none"]
    assert [(line["status"], line["address"], line["key_hint"]) for line in lines] == [
        (401, "127.0.0.1", hint) for hint in hints
    ]
    assert lines[len(REFUSED_KEYS)]["forwarded_for"] == "192.0.2.1, 10.0.0.1"
    assert "another-key" not in gateway.read_log()
