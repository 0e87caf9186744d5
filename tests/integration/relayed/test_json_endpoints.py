"""Embeddings and the other endpoints with a JSON body, with the client that most applications use."""

import asyncio
import base64
import struct
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from gateway.relayed_paths.relays import RELAYED_PATHS
from tests.integration.relayed.relay_gateway import CLIENT_KEY, OWN_KEY, relaying
from tests.serving import command
from tests.upstream import (
    Close,
    Hang,
    Pause,
    Repeat,
    Reply,
    ScriptedUpstream,
    closed_port,
    error_reply,
    json_reply,
    silence,
    sse_reply,
)
from tests.upstream.builders import DONE, data_frame
from tests.upstream.script import Exchange

FLOATS = [0.5, -1.25, 3.0]
USAGE = {"prompt_tokens": 2, "total_tokens": 2}
COMPLETION = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "vendor/model-1"}
AUDIO = bytes(range(256)) * 1024
JSON_ROWS = [row for row in RELAYED_PATHS if not row.takes_form]


def embeddings(embedding: Any) -> Reply:
    data = [{"object": "embedding", "index": 0, "embedding": embedding}]
    return json_reply({"object": "list", "data": data, "model": "vendor/model-1", "usage": USAGE})


async def test_embeddings_are_sent_to_the_upstreams_model_with_its_key() -> None:
    encoded = base64.b64encode(struct.pack("<3f", *FLOATS)).decode()
    async with relaying() as (client, upstream):
        upstream.on("/embeddings", embeddings(encoded), embeddings(FLOATS))
        decoded = await client.embeddings.create(model="mine", input=["a", "b"])
        plain = await client.embeddings.create(model="mine", input="a", encoding_format="float", dimensions=3)
    assert decoded.data[0].embedding == plain.data[0].embedding == FLOATS
    first, second = upstream.requests
    assert first.path == "/v1/embeddings"
    assert first.json == {"model": "vendor/model-1", "input": ["a", "b"], "encoding_format": "base64"}
    assert second.json["dimensions"] == 3
    assert first.headers["authorization"] == f"Bearer {OWN_KEY}"
    assert CLIENT_KEY not in str(first.headers)


async def test_the_log_line_has_the_token_counts_of_whole_replies_and_of_streams(tmp_path: Path) -> None:
    counts = {"prompt_tokens": 4, "completion_tokens": 5}
    chunks = [{**COMPLETION, "choices": [{"index": 0, "text": "Hi"}]}, {**COMPLETION, "choices": [], "usage": counts}]
    async with ScriptedUpstream() as upstream:
        upstream.on("/embeddings", embeddings(FLOATS * 20_000))
        upstream.on("/completions", sse_reply(*map(data_frame, chunks), DONE))
        provider = {"type": "openai_compatible", "base_url": upstream.url}
        config = {"providers": {"p": provider}, "models": {"m": {"provider": "p"}}, "store": {"url": None}}
        with command(config, tmp_path, forked=True) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60) as client:
                for path, body in (("embeddings", {"input": "a"}), ("completions", {"prompt": "a", "stream": True})):
                    assert (await client.post(f"/v1/{path}", json={"model": "m", **body})).status_code == 200
                await client.post("/api/embed", json={"model": "m", "input": "a"})
        lines = gateway.read_log_lines()
    logged = [(line.get("input_tokens"), line.get("output_tokens")) for line in lines if line["message"] == "request"]
    assert logged == [(2, None), (4, 5), (2, None)]


async def test_completions_are_streamed_as_they_arrive() -> None:
    gate = asyncio.Event()
    frames = [data_frame({**COMPLETION, "choices": [{"index": 0, "text": text}]}) for text in ("one", " two")]
    async with relaying() as (client, upstream):
        upstream.on("/completions", sse_reply(frames[0], Pause(gate), frames[1], DONE))
        stream = await client.completions.create(model="mine", prompt="count", stream=True)
        texts = [(await anext(stream)).choices[0].text]
        gate.set()
        texts += [chunk.choices[0].text async for chunk in stream]
    assert texts == ["one", " two"]
    assert "text/event-stream" in upstream.requests[0].headers["accept"]


async def test_speech_is_relayed_byte_for_byte() -> None:
    async with relaying() as (client, upstream):
        upstream.on("/audio/speech", Reply(200, {"content-type": "audio/mpeg"}, AUDIO))
        reply = await client.audio.speech.create(model="mine", voice="alloy", input="Hello")
    assert reply.content == AUDIO
    assert reply.response.headers["content-type"] == "audio/mpeg"


async def test_images_and_moderations_are_relayed() -> None:
    result = {"id": "m", "model": "x", "results": []}
    async with relaying() as (client, upstream):
        upstream.on("/images/generations", json_reply({"created": 1, "data": [{"b64_json": "aGk="}]}))
        upstream.on("/moderations", json_reply(result))
        images = await client.images.generate(model="mine", prompt="a cat")
        judged = await client.moderations.create(model="mine", input="hello")
    assert images.data is not None
    assert images.data[0].b64_json == "aGk="
    assert judged.id == "m"


async def test_tokens_are_beside_the_version_of_the_upstream() -> None:
    async with relaying() as (client, upstream):
        upstream.on("/tokenize", json_reply({"tokens": [1, 2]}))
        upstream.on("/rerank", json_reply({"results": [{"index": 0, "relevance_score": 0.5}]}))
        root = str(client.base_url).removesuffix("/v1/")
        tokens = await client.post(f"{root}/tokenize", body={"model": "mine", "prompt": "hi"}, cast_to=object)
        await client.post("/rerank", body={"model": "mine", "query": "q", "documents": ["d"]}, cast_to=object)
    assert tokens == {"tokens": [1, 2]}
    assert [request.path for request in upstream.requests] == ["/tokenize", "/v1/rerank"]


NO_NAMES: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "missing_required_parameter"),
    ({"model": ""}, "missing_required_parameter"),
    ({"model": None}, "missing_required_parameter"),
    ({"model": 1}, "invalid_type"),
    ({"model": ["mine"]}, "invalid_type"),
)
"""Bodies without the name of a model, with the codes of other APIs for them."""


@pytest.mark.parametrize("row", JSON_ROWS, ids=lambda row: row.name)
async def test_a_model_that_may_not_be_used_is_like_an_unknown_one(row: Any) -> None:
    async with relaying() as (client, upstream):
        url = str(client.base_url).removesuffix("/v1/") + row.path
        with pytest.raises(openai.NotFoundError) as secret:
            await client.post(url, body={"model": "secret"}, cast_to=object)
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.post(url, body={"model": "absent"}, cast_to=object)
        with pytest.raises(openai.BadRequestError, match=f"has no {row.path}.*capabilities.endpoints"):
            await client.post(url, body={"model": "played"}, cast_to=object)
        for model, code in NO_NAMES:
            with pytest.raises(openai.BadRequestError, match=r"'model'|model is required") as refused:
                await client.post(url, body={"input": "x", **model}, cast_to=object)
            assert (refused.value.param, refused.value.code) == ("model", code)
        with pytest.raises(openai.AuthenticationError):
            await client.with_options(api_key="wrong").post(url, body={"model": "mine"}, cast_to=object)
    assert secret.value.message.replace("secret", "absent") == unknown.value.message
    assert upstream.requests == []


async def test_errors_of_the_upstream_have_the_statuses_of_other_apis() -> None:
    async with relaying() as (client, upstream):
        upstream.on(
            "/embeddings",
            error_reply(400, f"input is empty, dear {OWN_KEY}", code="bad_input"),
            error_reply(401, "wrong key"),
            error_reply(429, "slow down", headers={"retry-after": "7"}),
            json_reply({"detail": "Not Found"}, 404),
            error_reply(404, "The model does not exist", code="model_not_found"),
            json_reply({"error": {"message": "out of memory"}}),
        )
        with pytest.raises(openai.BadRequestError, match="input is empty") as refused:
            await client.embeddings.create(model="mine", input="")
        assert OWN_KEY not in str(refused.value)
        with pytest.raises(openai.InternalServerError, match="refused the gateway's own credentials"):
            await client.embeddings.create(model="mine", input="x")
        with pytest.raises(openai.RateLimitError) as limited:
            await client.embeddings.create(model="mine", input="x")
        assert limited.value.response.headers["retry-after"] == "7"
        with pytest.raises(openai.BadRequestError, match="has no /v1/embeddings"):
            await client.embeddings.create(model="mine", input="x")
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            await client.embeddings.create(model="mine", input="x")
        with pytest.raises(openai.InternalServerError, match="out of memory"):
            await client.embeddings.create(model="mine", input="x")


async def test_replies_that_are_no_json_are_no_success() -> None:
    async with relaying() as (client, upstream):
        upstream.on(
            "/embeddings",
            Reply(200, {"content-type": "text/html"}, b"<html>"),
            Reply(200, {"content-type": "application/json"}, b'{"data": ['),
            Reply(200, {"content-type": "application/json"}, b"x" * 100_000),
            Reply(200, {"content-type": "application/json"}, (b'{"data": [', Close())),
        )
        for _ in range(4):
            with pytest.raises(openai.InternalServerError) as failed:
                await client.embeddings.create(model="mine", input="x")
            assert failed.value.status_code == 502


async def test_an_upstream_that_is_down_or_silent_is_an_error() -> None:
    async with relaying(base_url=f"http://127.0.0.1:{closed_port()}/v1", retries=0) as (client, _):
        with pytest.raises(openai.InternalServerError, match="cannot be reached"):
            await client.embeddings.create(model="mine", input="x")
    async with relaying(answer_s=0.2) as (client, upstream):
        upstream.on("/embeddings", Reply(200, {"content-type": "application/json"}, (Hang(),)))
        with pytest.raises(openai.InternalServerError) as late:
            await client.embeddings.create(model="mine", input="x")
        assert late.value.status_code == 504


async def test_a_body_that_breaks_off_is_cut_off() -> None:
    async with relaying() as (client, upstream):
        upstream.on("/audio/speech", Reply(200, {"content-type": "audio/mpeg"}, (Repeat(b"x" * 1000, 100), Close())))
        upstream.on("/completions", sse_reply(data_frame({**COMPLETION, "choices": []}), b'data: {"ch', Close()))
        with pytest.raises((openai.APIConnectionError, httpx.RemoteProtocolError, httpx.ReadError)):
            await client.audio.speech.create(model="mine", voice="alloy", input="Hello")
        stream = await client.completions.create(model="mine", prompt="x", stream=True)
        with pytest.raises((openai.APIError, ValueError)):
            async for _ in stream:
                pass


async def test_a_client_that_leaves_ends_the_request_upstream() -> None:
    async with relaying() as (client, upstream):
        upstream.on("/audio/speech", Reply(200, {"content-type": "audio/mpeg"}, (b"begin", Hang())))
        upstream.on("/embeddings", Reply(200, {"content-type": "application/json"}, (Hang(),)))
        async with client.audio.speech.with_streaming_response.create(model="mine", voice="alloy", input="x") as reply:
            assert await anext(reply.iter_bytes()) == b"begin"
        async with asyncio.timeout(60):
            await upstream.requests[0].closed
        asking = asyncio.create_task(client.embeddings.create(model="mine", input="x"))
        request = await upstream.received(2)
        asking.cancel()
        async with asyncio.timeout(60):
            await request.closed


async def test_a_body_over_the_limit_is_refused() -> None:
    async with relaying(server={"max_body_mb": 0.01}) as (client, upstream):
        with pytest.raises(openai.APIStatusError) as large:
            await client.embeddings.create(model="mine", input="x" * 20_000)
        assert large.value.status_code == 413
    assert upstream.requests == []


async def test_a_reply_larger_than_the_examined_part_is_relayed_whole() -> None:
    body = b'{"data": [' + b"1," * 100_000 + b"1]}"
    async with relaying() as (client, upstream):
        upstream.on("/embeddings", Reply(200, {"content-type": "application/json"}, body, framing="length"))
        reply = await client.embeddings.with_raw_response.create(model="mine", input="x", encoding_format="float")
    assert reply.content == body
    assert reply.headers["content-length"] == str(len(body))


async def test_a_key_has_no_more_open_requests_than_its_limit() -> None:
    async with relaying(limits={"open_requests": 1}) as (client, upstream):
        upstream.on("/embeddings", silence)
        asking = asyncio.create_task(client.embeddings.create(model="mine", input="x"))
        await upstream.received(1)
        with pytest.raises(openai.RateLimitError, match="open requests"):
            await client.moderations.create(model="mine", input="x")
        asking.cancel()


async def test_a_client_that_does_not_read_slows_the_upstream_down() -> None:
    sent = 0

    async def send_audio(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\ncontent-length: 400000000\r\n\r\n")
        while sent < 400_000_000:
            await exchange.send(AUDIO[:250_000])
            sent += 250_000

    async with relaying() as (client, upstream):
        upstream.on("/audio/speech", send_audio)
        upstream.on("/embeddings", embeddings(FLOATS))
        async with client.audio.speech.with_streaming_response.create(model="mine", voice="alloy", input="x") as reply:
            await anext(reply.iter_bytes())
            for _ in range(50):  # time in which the upstream could send more
                await client.embeddings.create(model="mine", input="x", encoding_format="float")
            assert sent < 100_000_000
