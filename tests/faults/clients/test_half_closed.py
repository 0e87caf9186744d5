"""Clients that end their side of the connection after the request, as `nc -N` does, get their whole reply.

A client that is gone looks the same until it is sent something, and is noticed by that.
"""

import asyncio
import json

import pytest

from tests.faults.client_view import CHAT, GEMINI, MESSAGES, OLLAMA, RESPONSES, address_of, question
from tests.faults.config import StartGateway, config
from tests.faults.connection import Connection, connected
from tests.upstream import Hang, Pause, Reply, ScriptedUpstream, chat_text, silence
from tests.upstream.builders import SSE
from tests.upstream.faults import CHAT as CHAT_ANSWER
from tests.upstream.faults import sound

PATIENCE_S = 60
INTERIM = b"HTTP/1.1 102 Processing\r\n\r\n"
ENDS: dict[str, tuple[bytes, bytes]] = {
    RESPONSES: (b"data: [DONE]\n\n", b'"output"'),
    CHAT: (b"data: [DONE]\n\n", b'"finish_reason":"stop"'),
    MESSAGES: (b'"message_stop"', b'"stop_reason":"end_turn"'),
    GEMINI: (b'"finishReason":"STOP"', b'"finishReason":"STOP"'),
    OLLAMA: (b'"done":true', b'"done":true'),
}
"""API -> what the end of a stream, and a whole reply, have."""


def send(client: Connection, path: str, *, stream: bool) -> None:
    """Sends a request, and ends the client's side of the connection."""
    body = question(path, stream=stream)
    target, content = address_of(path, body), json.dumps(body).encode()
    prefix = "" if path == OLLAMA else "/v1"
    head = f"POST {prefix}{target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    client.writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    client.writer.write_eof()


async def read_all(client: Connection) -> bytes:
    """Reads until the server closes the connection."""
    async with asyncio.timeout(PATIENCE_S):
        return await client.reader.read()


def without_interim(reply: bytes) -> bytes:
    """Returns a reply without interim responses, which come before it. There may be any number of them."""
    while reply.startswith(INTERIM):
        reply = reply.removeprefix(INTERIM)
    assert reply.startswith(b"HTTP/1.1 200 OK\r\n")
    assert INTERIM not in reply
    return reply


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
@pytest.mark.parametrize("path", ENDS)
async def test_a_client_that_ends_its_side_gets_its_whole_reply(path: str, stream: bool, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(sound(CHAT_ANSWER))
        serving = gateway(config(upstream.url, "chat"))
        async with connected(serving.v1) as client:
            send(client, path, stream=stream)
            reply = without_interim(await read_all(client))
    assert ENDS[path][0 if stream else 1] in reply
    assert "Grüße ".encode() in reply


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
@pytest.mark.parametrize("path", [RESPONSES, CHAT])
async def test_the_reply_may_come_much_later(path: str, stream: bool, gateway: StartGateway) -> None:
    go_on = asyncio.Event()
    answer = CHAT_ANSWER
    late = Reply(headers=SSE, body=[answer.opening, Pause(go_on), *answer.frames[answer.cut :], answer.done])
    async with ScriptedUpstream() as upstream:
        upstream.script(late)
        serving = gateway(config(upstream.url, "chat"))
        async with connected(serving.v1) as client:
            send(client, path, stream=stream)
            async with asyncio.timeout(PATIENCE_S):
                # A probe shows that the end of the client's side has been noticed.
                begun = await client.read_to(b": keep-alive\n\n" if stream else INTERIM)
            go_on.set()
            reply = begun + await read_all(client)
    assert (b"[DONE]" if stream else b"upstream") in without_interim(reply)


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
async def test_a_client_that_ends_its_side_and_then_leaves_is_noticed(stream: bool, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Hang()]) if stream else silence)
        serving = gateway(config(upstream.url, "chat"))
        async with connected(serving.v1) as client:
            client.post(CHAT, question(CHAT, stream=stream))
            await upstream.received(1)
            if stream:
                await client.read_to(b"upstream")
            client.writer.write_eof()
            client.writer.close()
        async with asyncio.timeout(PATIENCE_S):
            await upstream.requests[0].closed


async def test_all_requests_on_the_connection_are_answered(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("one"), chat_text("two"), chat_text("three"))
        serving = gateway(config(upstream.url, "chat"))
        async with connected(serving.v1) as client:
            for _ in range(3):
                client.post(CHAT, question(CHAT, stream=False))
            client.writer.write_eof()
            reply = await read_all(client)
    assert [text in reply for text in (b'"one"', b'"two"', b'"three"')] == [True] * 3
    assert reply.count(b"connection: close") == 1


async def test_half_a_request_gets_no_reply(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        serving = gateway(config(upstream.url, "chat"))
        for length, sent in ((100, b"{"), (None, b"")):
            async with connected(serving.v1) as client:
                if length is None:
                    client.writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\n")
                else:
                    client.post(CHAT, sent, length=length)
                client.writer.write_eof()
                assert await read_all(client) == b""
        assert not upstream.requests


async def test_a_client_of_http_1_0_that_ends_its_side_is_gone(gateway: StartGateway) -> None:
    """Proxies that speak it end a request so when their client leaves, and HTTP/1.0 has nothing to probe them with."""
    async with ScriptedUpstream() as upstream:
        upstream.script(silence)
        serving = gateway(config(upstream.url, "chat"))
        async with connected(serving.v1) as client:
            body = b'{"model":"scripted-model","messages":[{"role":"user","content":"Hi"}]}'
            head = b"POST /v1/chat/completions HTTP/1.0\r\ncontent-type: application/json\r\n"
            client.writer.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            await upstream.received(1)
            client.writer.write_eof()
            async with asyncio.timeout(PATIENCE_S):
                await upstream.requests[0].closed
