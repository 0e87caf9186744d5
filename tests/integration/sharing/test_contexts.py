"""Token counts and compaction of a name with several upstreams: any of them may serve them, and failures move on."""

from typing import Any

import httpx
import pytest

from tests.faults.client_view import client
from tests.faults.upstreams.test_attempts import rejected, shared
from tests.serving import serving
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.server import ScriptedUpstream

Json = dict[str, Any]
MESSAGES = [{"role": "user", "content": "Hi"}]
REQUESTS: dict[str, tuple[str, Json]] = {
    "input tokens": ("/responses/input_tokens", {"input": "Hi"}),
    "count tokens": ("/messages/count_tokens", {"messages": MESSAGES}),
    "compaction": ("/responses/compact", {"input": [{"role": "user", "content": f"Message {n}"} for n in range(40)]}),
}


async def post(url: str, path: str, body: Json) -> httpx.Response:
    async with client() as asking:
        return await asking.post(f"{url}{path}", json={"model": "scripted-model", **body})


def configure(first: str, second: str) -> Json:
    config = shared(first, second)
    for provider in config["providers"].values():
        provider |= {"dialects": ["chat"], "capabilities": {"counting": "turn"}}
    return config


@pytest.mark.parametrize(("path", "body"), REQUESTS.values(), ids=REQUESTS)
async def test_the_next_upstream_is_asked_after_a_failure(path: str, body: Json) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503))
        second.script(sound(ANSWERS["chat"]))
        with serving(configure(first.url, second.url)) as running:
            reply = await post(running.v1, path, body)
    assert second.requests, reply.text
    assert len(first.requests) == 1


@pytest.mark.parametrize("status", [401, 404, 429, 503])
async def test_failures_to_count_tokens_say_nothing_of_health(status: int) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(status))
        second.script(sound(ANSWERS["chat"]))
        with serving(configure(first.url, second.url)) as running:
            for _ in range(6):
                await post(running.v1, *REQUESTS["count tokens"])
            async with client() as asking:
                report = (await asking.get(f"{running.v1}/gateway/routes/scripted-model")).json()
    assert [row["state"] for row in report["upstreams"]] == ["available", "available"]
    assert len(first.requests) == 6


async def test_an_upstream_that_cannot_count_is_passed_over() -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        second.script(sound(ANSWERS["chat"]))
        config = configure(first.url, second.url)
        config["providers"]["first"]["capabilities"] = {"counting": "none"}
        with serving(config) as running:
            await post(running.v1, *REQUESTS["count tokens"])
            config["providers"]["second"]["capabilities"] = {"counting": "none"}
        assert second.requests
        with serving(config) as running:
            reply = await post(running.v1, *REQUESTS["count tokens"])
    assert reply.status_code == 404
    assert not first.requests
