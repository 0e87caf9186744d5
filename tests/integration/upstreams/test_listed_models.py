"""Clients that list models of OpenRouter learn which one answered, and so does the log."""

from pathlib import Path

import httpx

from gateway.replies.answering_model import MODEL_HEADER, ModelRelay
from tests.serving import command, serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import CHAT_USAGE, Json, chat_chunk, chat_sse, either, json_reply, text_chunks, whole_chat

ANSWERING = "vendor/second-2026"
REPLY = either(
    chat_sse(
        [
            {**chunk, "model": ANSWERING}
            for chunk in (
                chat_chunk({"role": "assistant", "content": "Hi"}),
                chat_chunk({"content": " there"}),
                chat_chunk({}, "stop"),
                chat_chunk(usage=CHAT_USAGE),
            )
        ]
    ),
    json_reply({**whole_chat("Hi there"), "model": ANSWERING}),
)
MESSAGES: Json = {"messages": [{"role": "user", "content": "Hi"}]}
REQUESTS: dict[str, tuple[str, Json]] = {
    "relayed chat": ("/v1/chat/completions", MESSAGES),
    "translated chat": ("/v1/chat/completions", {**MESSAGES, "extensions": True}),
    "responses": ("/v1/responses", {"input": "Hi", "store": False}),
    "messages": ("/v1/messages", {**MESSAGES, "max_tokens": 99}),
}
LISTED = {"models": ["vendor/first", "vendor/second"]}


async def test_the_model_that_answered_is_in_a_header_and_in_the_log(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(REPLY)
        provider = {"type": "openrouter", "base_url": upstream.url, "api_key": "k"}
        models = {"m": {"provider": "p", "model": "vendor/first"}}
        with command({"providers": {"p": provider}, "models": models}, tmp_path, forked=True) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60) as client:
                for path, body in REQUESTS.values():
                    for stream in (False, True):
                        for more in (LISTED, {}):
                            reply = await client.post(path, json={**body, **more, "model": "m", "stream": stream})
                            assert reply.status_code == 200, reply.text
                            assert "Hi" in reply.text
                            assert reply.headers.get(MODEL_HEADER) == (ANSWERING if more else None), (path, stream)
                            assert ANSWERING not in reply.text
                            assert upstream.requests[-1].json.get("models") == more.get("models")
        lines = gateway.read_log_lines()
    served = [line for line in lines if line["message"] == "request"]
    assert len(served) == 4 * len(REQUESTS)
    assert {line.get("upstream_model") for line in served} == {ANSWERING}


async def test_the_model_of_a_stream_that_is_collected_is_in_the_header() -> None:
    """Some upstreams stream although the request does not ask for it."""
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_sse([{**each, "model": ANSWERING} for each in text_chunks("Hi")]))
        provider = {"type": "openrouter", "base_url": upstream.url, "api_key": "k"}
        with serving({"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60) as client:
                reply = await client.post("/v1/chat/completions", json={**MESSAGES, **LISTED, "model": "m"})
    assert reply.json()["choices"][0]["message"]["content"] == "Hi"
    assert reply.headers[MODEL_HEADER] == ANSWERING


async def test_a_name_that_no_header_can_have_is_left_out() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(json_reply({**whole_chat("Hi"), "model": "vendor/\u00fc\n"}))
        provider = {"type": "openrouter", "base_url": upstream.url, "api_key": "k"}
        with serving({"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60) as client:
                reply = await client.post("/v1/chat/completions", json={**MESSAGES, **LISTED, "model": "m"})
    assert reply.status_code == 200
    assert MODEL_HEADER not in reply.headers


class _Inner:
    template = "the template"

    def feed(self, read: bytes) -> bytes:
        return read


def test_a_relay_keeps_its_fast_path_once_the_model_is_known() -> None:
    seen: list[str] = []
    relay = ModelRelay(_Inner(), seen.append)  # type: ignore[arg-type]
    assert relay.feed(b": comment\n\n") == b": comment\n\n"
    assert relay.template is None
    quoted = rb'data: {"text": "\"model\":\"no\"", "model": "v/\u00fc"}'
    assert relay.feed(quoted) == quoted
    assert relay.feed(b'data: {"model":"other"}') == b'data: {"model":"other"}'
    assert seen == ["v/\u00fc"]
    assert str(relay.template) == "the template"
