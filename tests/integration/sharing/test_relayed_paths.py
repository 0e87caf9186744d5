"""Paths that are only relayed share their turns too: the next upstream is asked, and those without the path are not."""

from typing import Any

import httpx

from tests.faults.upstreams.test_attempts import rejected, shared
from tests.serving import Gateway, serving
from tests.upstream.builders import json_reply
from tests.upstream.script import Close, Reply
from tests.upstream.server import ScriptedUpstream

Json = dict[str, Any]
VECTORS = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "m"}


def configure(first: str, second: str) -> Json:
    config = shared(first, second)
    for provider in config["providers"].values():
        provider["capabilities"] = {"endpoints": ["embeddings", "transcriptions"]}
    return config


async def embed(running: Gateway) -> httpx.Response:
    async with httpx.AsyncClient(verify=False, trust_env=False) as client:
        return await client.post(f"{running.v1}/embeddings", json={"model": "scripted-model", "input": "Hi"})


async def list_upstreams(running: Gateway) -> list[Json]:
    async with httpx.AsyncClient(verify=False, trust_env=False) as client:
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


async def test_a_form_is_sent_to_one_upstream() -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503))
        with serving(configure(first.url, second.url)) as running:
            async with httpx.AsyncClient(verify=False, trust_env=False) as client:
                reply = await client.post(
                    f"{running.v1}/audio/transcriptions",
                    data={"model": "scripted-model"},
                    files={"file": ("a.wav", b"RIFF")},
                )
    assert (reply.status_code, reply.headers["x-gateway-attempts"]) == (503, "1")
    assert not second.requests


async def test_a_name_with_one_provider_has_the_headers() -> None:
    async with ScriptedUpstream() as first:
        first.script(json_reply(VECTORS))
        config = configure(first.url, first.url)
        config["models"] = {"*": {"provider": "first"}}
        with serving(config) as running:
            reply = await embed(running)
    assert (reply.headers["x-gateway-upstream"], reply.headers["x-gateway-attempts"]) == ("first", "1")
