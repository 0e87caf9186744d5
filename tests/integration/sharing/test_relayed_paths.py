"""Paths that are only relayed share their turns too: the next upstream is asked, and those without the path are not."""

from contextlib import nullcontext
from typing import Any

import httpx
import orjson
import pytest

from gateway.relayed_paths.relays import RELAYED_PATHS, RelayedPath
from tests.faults.upstreams.test_attempts import limit_silence, rejected, shared
from tests.serving import Gateway, serving
from tests.upstream.builders import json_reply
from tests.upstream.script import Close, Hang, Reply, Script, reset, silence
from tests.upstream.server import ScriptedUpstream, closed_port

Json = dict[str, Any]
EVENTS = {"content-type": "text/event-stream"}
VECTORS = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "m"}


def configure(first: str, second: str) -> Json:
    config = shared(first, second)
    for provider in config["providers"].values():
        provider["capabilities"] = {"endpoints": ["embeddings", "transcriptions"]}
    return config


async def embed(running: Gateway) -> httpx.Response:
    async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
        return await client.post(f"{running.v1}/embeddings", json={"model": "scripted-model", "input": "Hi"})


async def list_upstreams(running: Gateway) -> list[Json]:
    async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
        rows: list[Json] = (await client.get(f"{running.v1}/gateway/routes/scripted-model")).json()["upstreams"]
    return rows


async def test_the_next_upstream_embeds_what_the_first_could_not() -> None:
    broken = Reply(headers={"content-type": "application/json"}, body=[b'{"data":', Close()])
    for fault in (rejected(503), rejected(429), broken, json_reply({"error": {"message": "no"}})):
        async with ScriptedUpstream() as first, ScriptedUpstream() as second:
            first.script(fault)
            second.script(json_reply(VECTORS))
            with serving(configure(first.url, second.url)) as running:
                reply = await embed(running)
                rows = await list_upstreams(running)
        assert reply.json() == VECTORS
        assert (reply.headers["x-gateway-upstream"], reply.headers["x-gateway-attempts"]) == ("second", "2")
        assert [row["in_flight"] for row in rows] == [0, 0]


LONG_VECTORS = {**VECTORS, "data": [{"object": "embedding", "index": 0, "embedding": [0.5] * 100_000}]}
BROKEN_BODIES: dict[str, Script] = {
    "it breaks off": Reply(headers={"content-type": "application/json"}, body=[b'{"data":"' + b"x" * 200_000, Close()]),
    "it stalls": Reply(headers={"content-type": "application/json"}, body=[b'{"data":"' + b"x" * 200_000, Hang()]),
    "it is no JSON": Reply(
        headers={"content-type": "application/json"}, body=b'{"data": ' + b"x" * 200_000, framing="length"
    ),
}


@pytest.mark.parametrize("fault", BROKEN_BODIES.values(), ids=BROKEN_BODIES)
async def test_a_long_body_is_held_until_it_is_whole(fault: Script) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(fault)
        second.script(json_reply(LONG_VECTORS))
        config = configure(first.url, second.url)
        limit_silence(config, "first")
        with serving(config) as running:
            reply = await embed(running)
    assert (reply.status_code, reply.headers["x-gateway-upstream"]) == (200, "second")
    assert reply.json() == LONG_VECTORS


EVENT = b'data: {"choices":[{"text":"Hi"}]}\n\n'
EMPTY_STREAMS: dict[str, Reply] = {
    "it ends": Reply(headers=EVENTS, body=[Close()]),
    "it ends after a comment": Reply(headers=EVENTS, body=[b": ping\n\n", Close()]),
    "it begins with an error": Reply(headers=EVENTS, body=[b'data: {"error": {"message": "no"}}\n\n', Close()]),
    "it stalls": Reply(headers=EVENTS, body=[Hang()]),
}


async def complete(running: Gateway) -> httpx.Response:
    async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
        body = {"model": "scripted-model", "prompt": "Hi", "stream": True}
        return await client.post(f"{running.v1}/completions", json=body)


def configure_completions(first: str, second: str, **provider: Any) -> Json:
    config = configure(first, second)
    for each in config["providers"].values():
        each |= {"capabilities": {"endpoints": ["completions"]}, **provider}
    return config


@pytest.mark.parametrize("stall", ["silence_s", "first_content_s"])
@pytest.mark.parametrize("fault", EMPTY_STREAMS.values(), ids=EMPTY_STREAMS)
async def test_a_stream_without_an_event_is_made_by_the_next_upstream(fault: Reply, stall: str) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(fault)
        second.script(Reply(headers=EVENTS, body=[EVENT, b"data: [DONE]\n\n"]))
        config = configure_completions(first.url, second.url)
        if stall == "first_content_s":
            config["routing"] = {"first_content_s": 1.5}  # of the next upstream too
        else:
            limit_silence(config, "first")
        with serving(config) as running:
            reply = await complete(running)
    assert (reply.status_code, reply.headers["x-gateway-upstream"]) == (200, "second")
    assert reply.content == EVENT + b"data: [DONE]\n\n"


@pytest.mark.parametrize("payload", [b"[1]", b'{"id":"error"}', b'{"error":', b"error"])
async def test_a_stream_that_breaks_after_an_event_ends_in_a_failure(payload: bytes) -> None:
    event = b"data: " + payload + b"\n\n"
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(Reply(headers=EVENTS, body=[event, Close()]))
        with serving(configure_completions(first.url, second.url)) as running:
            reply = await complete(running)
    assert (reply.status_code, reply.headers["x-gateway-upstream"]) == (200, "first")
    assert reply.content.startswith(event)
    assert b'"code":"upstream_disconnected"' in reply.content
    assert not second.requests


async def test_a_body_that_is_too_long_to_be_held_is_forwarded_as_it_arrives() -> None:
    huge = {**VECTORS, "data": [{"object": "embedding", "index": 0, "embedding": [0.5] * 1_500_000}]}
    async with ScriptedUpstream() as first:
        first.script(json_reply(huge))
        config = configure(first.url, first.url)
        config["providers"]["first"]["max_line_mb"] = 64
        with serving(config) as running:
            reply = await embed(running)
    assert (reply.status_code, len(reply.content) > 5_000_000) == (200, True)


JSON_PATHS = [row for row in RELAYED_PATHS if not row.takes_form]


@pytest.mark.parametrize("row", JSON_PATHS, ids=[row.name for row in JSON_PATHS])
async def test_each_path_with_a_json_body_is_served_by_the_next_upstream(row: RelayedPath) -> None:
    answer: Script = json_reply({"object": "list", "data": []})
    if not row.replies_json:
        answer = Reply(headers={"content-type": "audio/mpeg"}, body=b"sound", framing="length")
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503))
        second.script(answer)
        config = configure(first.url, second.url)
        for provider in config["providers"].values():
            provider["capabilities"] = {"endpoints": [each.name for each in RELAYED_PATHS]}
        with serving(config) as running:
            async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
                reply = await client.post(f"{running.url}{row.path}", json={"model": "scripted-model", "input": "Hi"})
    assert (reply.status_code, reply.headers["x-gateway-upstream"]) == (200, "second")
    assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_a_turn_of_a_relayed_path_has_its_time_and_no_more() -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(silence)
        config = configure(first.url, second.url)
        config["routing"] = {"total_s": 1.0}
        with serving(config) as running:
            reply = await embed(running)
            rows = await list_upstreams(running)
    assert (reply.status_code, reply.json()["error"]["code"]) == (504, "upstream_timeout")
    assert reply.headers["x-gateway-attempts"] == "1"
    assert [row["in_flight"] for row in rows] == [0, 0]
    assert not second.requests


BODIES: dict[str, tuple[str, Reply]] = {
    "a stream": ("completions", Reply(headers=EVENTS, body=[b'data: {"choices":[]}\n\n', Hang()])),
    "a stream without events": ("completions", Reply(headers=EVENTS, body=[Hang()])),
    "a long JSON body": (
        "embeddings",
        Reply(headers={"content-type": "application/json"}, body=[b'{"data":"' + b"x" * 5_000_000, Hang()]),
    ),
    "sound": ("speech", Reply(headers={"content-type": "audio/mpeg"}, body=[b"sound", Hang()])),
}


@pytest.mark.parametrize("kind", BODIES)
async def test_a_reply_has_the_time_of_its_turn_also_after_its_head(kind: str) -> None:
    name, script = BODIES[kind]
    async with ScriptedUpstream() as first:
        first.script(script)
        config = configure(first.url, first.url)
        config["routing"] = {"total_s": 6, "eject_failures": 1}
        for provider in config["providers"].values():
            provider["capabilities"] = {"endpoints": [name]}
        with serving(config) as running:
            (path,) = (row.path for row in RELAYED_PATHS if row.name == name)
            body = {"model": "scripted-model", "input": "Hi", "stream": name == "completions"}
            content = b""
            with pytest.raises(httpx.RemoteProtocolError) if "stream" not in kind else nullcontext():
                async with (
                    httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client,
                    client.stream("POST", f"{running.url}{path}", json=body) as reply,
                ):
                    async for piece in reply.aiter_bytes():
                        content += piece
            rows = await list_upstreams(running)
    if "stream" in kind:
        error = orjson.loads(content.rstrip().rpartition(b"data: ")[2])["error"]
        assert (error["code"], error["message"]) == ("upstream_timeout", "the turn took longer than 6 s")
    assert [(row["state"], row["in_flight"]) for row in rows] == [("available", 0), ("available", 0)]


async def test_a_judgement_is_final_and_names_its_upstream() -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(400))
        with serving(configure(first.url, second.url)) as running:
            reply = await embed(running)
    assert (reply.status_code, reply.headers["x-gateway-upstream"]) == (400, "first")
    assert not second.requests


async def test_only_upstreams_with_the_path_are_asked() -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        second.script(json_reply(VECTORS))
        config = configure(first.url, second.url)
        config["providers"]["first"]["capabilities"] = {"endpoints": []}
        with serving(config) as running:
            assert (await embed(running)).headers["x-gateway-attempts"] == "1"
        config["providers"]["second"]["capabilities"] = {"endpoints": []}
        with serving(config) as running:
            assert (await embed(running)).status_code == 400
    assert not first.requests


FAULTS: dict[str, Script] = {"503": rejected(503), "429": rejected(429), "reset": reset, "silence": silence}


async def transcribe(running: Gateway, *, model_in_url: bool = False) -> httpx.Response:
    async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
        return await client.post(
            f"{running.v1}/audio/transcriptions" + ("?model=scripted-model" if model_in_url else ""),
            data={} if model_in_url else {"model": "scripted-model", "language": "en"},
            files={"file": ("a.wav", b"RIFF" * 1000)},
        )


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_form_that_an_upstream_may_have_read_is_sent_to_nobody_else(fault: Script) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(fault)
        config = configure(first.url, second.url)
        limit_silence(config, "first")
        with serving(config) as running:
            reply = await transcribe(running)
    assert (reply.is_success, reply.headers["x-gateway-attempts"]) == (False, "1")
    assert not second.requests


@pytest.mark.parametrize("model_in_url", [True, False])
async def test_a_form_of_which_no_byte_was_read_goes_to_the_next_upstream(model_in_url: bool) -> None:
    async with ScriptedUpstream() as second:
        second.script(json_reply({"text": "Hello"}))
        with serving(configure(f"http://127.0.0.1:{closed_port()}/v1", second.url)) as running:
            reply = await transcribe(running, model_in_url=model_in_url)
        assert (reply.json(), reply.headers["x-gateway-attempts"]) == ({"text": "Hello"}, "2")
        assert second.requests[0].content.count(b"RIFF") == 1000


async def test_an_upstream_that_has_no_such_path_is_no_upstream_without_the_model() -> None:
    """Its other paths get turns as before."""
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(
            Reply(404, {"content-type": "application/json"}, body=b'{"detail": "Not Found"}', framing="length")
        )
        second.script(json_reply(VECTORS))
        with serving(configure(first.url, second.url)) as running:
            reply = await embed(running)
            rows = await list_upstreams(running)
            second.script(rejected(503))
            refused = await embed(running)
    assert (reply.json(), reply.headers["x-gateway-attempts"]) == (VECTORS, "2")
    assert [row["state"] for row in rows] == ["available", "available"]
    assert (refused.status_code, refused.headers["x-gateway-attempts"]) == (503, "2")


async def test_a_name_with_one_provider_has_the_headers() -> None:
    async with ScriptedUpstream() as first:
        first.script(json_reply(VECTORS))
        config = configure(first.url, first.url)
        config["models"] = {"*": {"provider": "first"}}
        with serving(config) as running:
            reply = await embed(running)
    assert (reply.headers["x-gateway-upstream"], reply.headers["x-gateway-attempts"]) == ("first", "1")
