"""Without a store, upstreams keep the responses that they make, and only the one that has one can continue it."""

from typing import Any

import httpx
import pytest

from tests.faults.client_view import RESPONSES, client, question
from tests.faults.config import LONG_S
from tests.faults.upstreams.test_attempts import rejected, shared
from tests.serving import Gateway, serving
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.server import ScriptedUpstream

Json = dict[str, Any]
ANSWER = ANSWERS["responses"]


def configure(first: str, second: str) -> Json:
    config = shared(first, second)
    config["store"] = {"url": None}
    for provider in config["providers"].values():
        provider |= {"dialects": ["responses"], "silence_s": LONG_S, "answer_s": LONG_S}
    return config


async def post(running: Gateway, **body: Any) -> httpx.Response:
    stream = bool(body.pop("stream", False))
    async with client() as asking:
        return await asking.post(f"{running.v1}{RESPONSES}", json=question(RESPONSES, stream=stream, **body))


async def list_states(running: Gateway) -> list[str]:
    async with client() as asking:
        report = (await asking.get(f"{running.v1}/gateway/routes/scripted-model")).json()
    return [row["state"] for row in report["upstreams"]]


def read_id(reply: httpx.Response) -> str:
    if not reply.headers["content-type"].startswith("text/event-stream"):
        return str(reply.json()["id"])
    return reply.text.split('"id":"')[1].split('"')[0]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "JSON"])
async def test_a_response_is_continued_by_the_upstream_that_has_it(stream: bool) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503), sound(ANSWER))
        second.script(sound(ANSWER))
        with serving(configure(first.url, second.url)) as running:
            made = await post(running, stream=stream)
            continued = await post(running, stream=stream, previous_response_id=read_id(made))
            other = await post(running, stream=stream)
    upstreams = [reply.headers["x-gateway-upstream"] for reply in (made, continued, other)]
    assert upstreams == ["second", "second", "first"]
    assert second.requests[-1].json["previous_response_id"] == read_id(made)


async def test_a_response_that_nobody_has_says_nothing_of_upstreams() -> None:
    gone = rejected(404, param="previous_response_id")
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(gone)
        second.script(gone)
        with serving(configure(first.url, second.url)) as running:
            refused = await post(running, previous_response_id="resp_unknown")
            states = await list_states(running)
    assert (refused.status_code, refused.headers["x-gateway-attempts"]) == (404, "2")
    assert states == ["available", "available"]


async def test_a_missing_model_still_ejects() -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(404, param="model"))
        second.script(sound(ANSWER))
        with serving(configure(first.url, second.url)) as running:
            await post(running)
            states = await list_states(running)
    assert states == ["ejected", "available"]
