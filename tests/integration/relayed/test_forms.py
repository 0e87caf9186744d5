"""Transcriptions and the other endpoints with a form: streamed to the upstream, in any order of the fields."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from tests.faults.connection import connected
from tests.integration.relayed.relay_gateway import CLIENT_KEY, OWN_KEY, relaying
from tests.polling import wait_until
from tests.upstream import Hang, Reply, closed_port, error_reply, json_reply, silence
from tests.upstream.script import Exchange

WAVE = bytes(range(256)) * 400
HEARD = json_reply({"text": "hello"})
PATH = "audio/transcriptions"
MODEL_PART = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nmine\r\n'
FILE_HEAD = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
END = b"\r\n--b--\r\n"


def parts_of(content_type: str, body: bytes) -> list[tuple[str, bytes]]:
    """The names and contents of a form's parts, in their order."""
    boundary = content_type.partition("boundary=")[2].encode()
    parts: list[tuple[str, bytes]] = []
    for part in body.split(b"--" + boundary)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        name = re.search(rb' name="([^"]+)"', head)
        assert name is not None
        parts.append((name[1].decode(), content.removesuffix(b"\r\n")))
    return parts


async def post(client: AsyncOpenAI, content: Any, query: str = "") -> httpx.Response:
    headers = {"authorization": f"Bearer {CLIENT_KEY}", "content-type": "multipart/form-data; boundary=b"}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as plain:
        return await plain.post(f"{client.base_url}{PATH}{query}", content=content, headers=headers)


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # the client's, about two of its methods
async def test_transcriptions_and_images_are_sent_to_the_upstreams_model_with_its_key() -> None:
    async with relaying() as (client, upstream):
        upstream.on("/audio/transcriptions", HEARD)
        upstream.on("/audio/translations", Reply(200, {"content-type": "text/plain"}, b"hello"))
        upstream.script(json_reply({"created": 1, "data": [{"b64_json": "aGk="}]}))
        heard = await client.audio.transcriptions.create(model="mine", file=("a.wav", WAVE), language="en")
        text: Any = await client.audio.translations.create(model="mine", file=("a.wav", WAVE), response_format="text")
        images: list[Any] = [("1.png", WAVE), ("2.png", b"2")]
        await client.images.edit(model="mine", image=images, prompt="bigger")
        await client.images.create_variation(model="mine", image=("1.png", WAVE))
    assert heard.text == text.strip() == "hello"
    first, _, edit, variation = upstream.requests
    assert first.headers["authorization"] == f"Bearer {OWN_KEY}"
    assert CLIENT_KEY not in str(first.headers)
    expected = [("model", b"vendor/model-1"), ("language", b"en"), ("file", WAVE)]
    sent = parts_of(first.headers["content-type"], first.content)
    assert sent[0] == expected[0]
    assert [part for part in sent if part in expected] == expected
    assert [name for name, _ in parts_of(edit.headers["content-type"], edit.content)].count("image[]") == 2
    assert ("image", WAVE) in parts_of(variation.headers["content-type"], variation.content)


async def test_a_file_may_precede_the_model_within_the_look_ahead() -> None:
    async with relaying() as (client, upstream):
        upstream.on("/audio/transcriptions", HEARD)
        reply = await post(client, FILE_HEAD + WAVE + b"\r\n" + MODEL_PART[:-2] + END)
    assert reply.json() == {"text": "hello"}
    request = upstream.requests[0]
    assert parts_of(request.headers["content-type"], request.content) == [("model", b"vendor/model-1"), ("file", WAVE)]


async def test_a_large_file_before_the_model_is_refused_and_works_with_the_model_in_the_url() -> None:
    form = FILE_HEAD + WAVE * 20 + b"\r\n" + MODEL_PART[:-2] + END
    async with relaying(server={"max_form_lookahead_kb": 64}) as (client, upstream):
        upstream.on("/audio/transcriptions", HEARD)
        refused = await post(client, form)
        assert upstream.requests == []
        heard = await post(client, form, "?model=mine")
        other = await post(client, form, "?model=played")
    assert refused.status_code == 400
    assert "server.max_form_lookahead_kb" in refused.json()["error"]["message"]
    assert "?model=" in refused.json()["error"]["message"]
    assert heard.json() == {"text": "hello"}
    assert other.status_code == 400
    request = upstream.requests[0]
    assert parts_of(request.headers["content-type"], request.content)[1] == ("file", WAVE * 20)


async def test_a_form_is_sent_while_it_arrives() -> None:
    """The upstream has the beginning of a form whose end the client has not sent yet."""
    begun, seen = asyncio.Event(), asyncio.Event()

    async def slow_form() -> AsyncIterator[bytes]:
        yield MODEL_PART + FILE_HEAD + WAVE
        await begun.wait()
        yield WAVE + END

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = await reader.readuntil(b"vendor/model-1")
        begun.set()
        while not body.endswith(b"0\r\n\r\n"):
            body += await reader.read(65536)
        seen.set()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, relaying(base_url=f"http://127.0.0.1:{port}/v1") as (client, _):
        reply = await post(client, slow_form())
    assert seen.is_set()
    assert reply.json() == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (MODEL_PART + MODEL_PART + FILE_HEAD + b"x" + END, "model is in the form twice"),
        (FILE_HEAD + b"x" + END, "model is required"),
        (MODEL_PART + FILE_HEAD + WAVE, "ends before its last boundary"),
        (MODEL_PART.replace(b"mine", b"m" * 2000), "model is longer than"),
        (MODEL_PART.replace(b"mine", b"\xff") + FILE_HEAD + END, "model is not UTF-8"),
        (MODEL_PART.replace(b'model"', b'model"; filename="x"') + END, "model is a file"),
        (b'{"model": "mine"}', "malformed"),
        (MODEL_PART.replace(b"mine", b"played") + FILE_HEAD + b"x" + END, "has no /v1/audio/transcriptions"),
    ],
)
async def test_forms_that_name_no_one_model_are_refused(content: bytes, message: str) -> None:
    async with relaying() as (client, _):
        reply = await post(client, content)
    assert reply.status_code == 400
    assert message in reply.json()["error"]["message"]


async def test_a_model_that_may_not_be_used_is_like_an_unknown_one() -> None:
    async with relaying() as (client, upstream):
        messages = []
        for model in ("secret", "absent"):
            with pytest.raises(openai.NotFoundError) as unknown:
                await client.audio.transcriptions.create(model=model, file=("a.wav", WAVE * 50))
            messages.append(unknown.value.message.replace(model, "it"))
        with pytest.raises(openai.AuthenticationError):
            await client.with_options(api_key="wrong").audio.transcriptions.create(model="mine", file=("a.wav", WAVE))
    assert messages[0] == messages[1]
    assert upstream.requests == []


async def test_a_form_over_the_limit_is_refused_with_and_without_a_length() -> None:
    async def in_chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield WAVE

    async with relaying(server={"max_body_mb": 1}) as (client, upstream):
        upstream.on("/audio/transcriptions", HEARD)
        with pytest.raises(openai.APIStatusError) as declared:
            await client.audio.transcriptions.create(model="mine", file=("a.wav", WAVE * 20))
        assert declared.value.status_code == 413
        reply = await post(client, _chain(MODEL_PART + FILE_HEAD, in_chunks()))
    assert reply.status_code == 413
    assert upstream.requests == []


async def _chain(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


@pytest.mark.parametrize(("body_s", "form_s"), [(0.2, 60), (60, 0.4)], ids=["pause", "drips"])
async def test_a_form_that_arrives_too_slowly_is_refused(body_s: float, form_s: float) -> None:
    async with relaying(server={"body_s": body_s, "form_s": form_s}) as (client, upstream):
        upstream.on("/audio/transcriptions", HEARD)
        url = str(client.base_url).removesuffix("/v1/")
        async with connected(url) as plain:
            head = f"authorization: Bearer {CLIENT_KEY}\r\ncontent-type: multipart/form-data; boundary=b\r\n"
            plain.writer.write(
                f"POST /v1/{PATH} HTTP/1.1\r\nhost: localhost\r\n{head}content-length: 9999\r\n\r\n".encode()
            )
            plain.writer.write(MODEL_PART + FILE_HEAD)
            reading = asyncio.create_task(plain.status())
            while form_s < body_s and not reading.done():
                plain.writer.write(b"x")
                await asyncio.wait([reading], timeout=0.1)
            assert await reading == 408
            await plain.read_to(b"server.body_s")


async def test_an_upstream_that_does_not_read_slows_the_client_down() -> None:
    piece, count = bytes(1024 * 1024), 48
    sent, may_read, received = 0, asyncio.Event(), 0

    async def send_pieces() -> AsyncIterator[bytes]:
        nonlocal sent
        yield MODEL_PART + FILE_HEAD
        for _ in range(count):
            yield piece
            sent += 1
        yield END

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        await may_read.wait()
        tail = b""
        while not tail.endswith(b"0\r\n\r\n"):
            data = await reader.read(1024 * 1024)
            received += len(data)
            tail = (tail + data)[-5:]
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server, relaying(base_url=base_url, server={"max_body_mb": 64}) as (client, _):
        asking = asyncio.create_task(post(client, send_pieces()))
        await wait_until(lambda: sent)
        before = -1
        while before < sent:  # it has stopped once half a second brings nothing more
            before = sent
            await asyncio.wait([asking], timeout=0.5)
        assert 0 < sent < count / 2, "what the kernel does not hold stays with the client"
        may_read.set()
        reply = await asking
    assert reply.json() == {}
    assert received > count * len(piece)


async def test_failures_of_the_upstream_are_errors() -> None:
    async def reset_early(exchange: Exchange) -> None:
        exchange.reset()

    async with relaying() as (client, upstream):
        upstream.on(
            "/audio/transcriptions",
            error_reply(400, f"no speech for {OWN_KEY}", code="silent"),
            error_reply(401, "wrong key"),
            json_reply({"detail": "Not Found"}, 404),
            reset_early,
        )
        expected = [
            (400, "no speech"),
            (502, "credentials"),
            (400, "has no /v1/audio"),
            (502, "cannot be reached"),
        ]
        for status, message in expected:
            with pytest.raises(openai.APIStatusError, match=message) as failed:
                await client.audio.transcriptions.create(model="mine", file=("a.wav", WAVE))
            assert failed.value.status_code == status
            assert OWN_KEY not in str(failed.value)
    async with relaying(answer_s=0.3) as (client, upstream):
        upstream.on("/audio/transcriptions", silence)
        with pytest.raises(openai.InternalServerError, match="no data in time") as late:
            await client.audio.transcriptions.create(model="mine", file=("a.wav", WAVE))
        assert late.value.status_code == 504
    async with relaying(base_url=f"http://127.0.0.1:{closed_port()}/v1") as (client, _):
        with pytest.raises(openai.InternalServerError, match="cannot be reached"):
            await client.audio.transcriptions.create(model="mine", file=("a.wav", WAVE))


async def test_a_client_that_leaves_ends_the_upload() -> None:
    async with relaying() as (client, upstream):
        upstream.on("/audio/transcriptions", Reply(200, {"content-type": "application/json"}, (Hang(),)))
        asking = asyncio.create_task(client.audio.transcriptions.create(model="mine", file=("a.wav", WAVE)))
        request = await upstream.received(1)
        asking.cancel()
        async with asyncio.timeout(60):
            await request.closed
