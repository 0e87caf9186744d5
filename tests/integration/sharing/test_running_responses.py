"""A response that is fetched while it runs shows the upstream that answers, once its content shows which one does."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.faults.client_view import MESSAGES, RESPONSES, client, question
from tests.faults.upstreams.test_attempts import rejected, shared
from tests.polling import read_until
from tests.serving import serving
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.script import Pause, Reply
from tests.upstream.server import ScriptedUpstream

Json = dict[str, Any]


class Fleet(NamedTuple):
    """A name with two upstreams, of which the first is asked first.

    Their default `temperature` differs: 0.1 and 0.9. Only the first loses `service_tier`.
    """

    first: ScriptedUpstream
    second: ScriptedUpstream
    asking: httpx.AsyncClient


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        config = shared(first.url, second.url)
        rows = [
            {"provider": "first", "request_defaults": {"temperature": 0.1}},
            {"provider": "second", "tier": 1, "request_defaults": {"temperature": 0.9}},
        ]
        config["models"] = {"*": {"upstreams": rows}}
        config["store"] = {"url": f"sqlite+aiosqlite:///{tmp_path}/state.db"}
        for name in ("first", "second"):
            config["providers"][name]["capabilities"] = {"service_tiers": name == "second"}
        for provider in config["providers"].values():
            provider["dialects"] = ["chat"]
        with serving(config) as running:
            async with client() as asking:
                asking.base_url = httpx.URL(running.v1)
                yield Fleet(first, second, asking)


def paused(go_on: asyncio.Event) -> Reply:
    """A reply that pauses after its first content."""
    answer = ANSWERS["chat"]
    head, tail = b"".join(answer.frames[: answer.cut]), b"".join(answer.frames[answer.cut :])
    return Reply(headers=answer.headers, body=[head, Pause(go_on), tail, answer.done])


WHO = {"the first": ("first", 0.1, "service_tier=dropped"), "the next": ("second", 0.9, None)}


@pytest.mark.parametrize("who", WHO)
async def test_a_running_stream_shows_the_upstream_that_answers(who: str, fleet: Fleet) -> None:
    upstream, temperature, loss = WHO[who]
    go_on = asyncio.Event()
    if upstream == "second":
        fleet.first.script(rejected(503))
        fleet.second.script(paused(go_on))
    else:
        fleet.first.script(paused(go_on))
    body = question(RESPONSES, stream=True, service_tier="flex")
    async with fleet.asking.stream("POST", RESPONSES, json=body) as reply:
        pieces = reply.aiter_text()
        text = await anext(pieces)
        response_id = text.split('"id":"')[1].split('"')[0]
        running = await read_until(
            lambda: fleet.asking.get(f"{RESPONSES}/{response_id}"),
            lambda got: "x-gateway-upstream" in got.headers,
        )
        go_on.set()
        text += "".join([piece async for piece in pieces])
    assert running.json()["status"] == "in_progress"
    assert running.json()["temperature"] == temperature
    assert (running.headers["x-gateway-upstream"], running.headers.get("x-gateway-loss")) == (upstream, loss)
    ended = await fleet.asking.get(f"{RESPONSES}/{response_id}")
    assert (ended.json()["status"], ended.json()["temperature"]) == ("completed", temperature)
    assert (ended.headers["x-gateway-upstream"], ended.headers.get("x-gateway-loss")) == (upstream, loss)


@pytest.mark.parametrize("stream", [False, True], ids=["JSON", "stream"])
async def test_a_message_of_a_thread_is_stored_as_the_upstream_answered_that_was_asked_next(
    stream: bool, fleet: Fleet
) -> None:
    fleet.first.script(rejected(503), rejected(503))
    fleet.second.script(sound(ANSWERS["chat"]), sound(ANSWERS["chat"]))
    create = question(MESSAGES, stream=stream, thread={"type": "create"})
    created = await fleet.asking.post(MESSAGES, json=create)
    assert created.status_code == 200, created.text
    message_id = created.text.split('"id":"')[1].split('"')[0]
    follow = question(MESSAGES, stream=False, thread={"type": "continue", "previous_message_id": message_id})
    continued = await fleet.asking.post(MESSAGES, json=follow)
    assert continued.status_code == 200, continued.text
    assert [each["role"] for each in fleet.second.requests[-1].json["messages"]] == ["user", "assistant", "user"]
