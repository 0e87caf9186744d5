"""A name with one provider keeps its path: beside names that share the provider, and with a limit of its own."""

import asyncio
from typing import Any

import pytest

from tests.faults.client_view import CHAT, MESSAGES, RESPONSES, client, question
from tests.faults.upstreams.test_attempts import ask, rejected, shared
from tests.polling import wait_until
from tests.serving import Gateway, serving
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.script import Pause, Reply, Step, reset
from tests.upstream.server import ScriptedUpstream

Json = dict[str, Any]
ANSWER = ANSWERS["chat"]

WAYS: dict[str, Json] = {"limited": {"max_in_flight": 5}, "beside a shared name": {}, "alone": {}}


def configure(url: str, way: str, **provider: Any) -> Json:
    config = shared(url, url)
    config["providers"]["first"] |= {**WAYS[way], **provider}
    config["providers"]["second"]["dialects"] = ["chat"]
    models: Json = {"scripted-model": {"provider": "first"}}
    if way == "beside a shared name":
        models["both"] = {"upstreams": [{"provider": "first"}, {"provider": "second"}]}
    return config | {"models": models}


async def list_upstreams(running: Gateway, model: str) -> list[Json]:
    async with client() as asking:
        rows: list[Json] = (await asking.get(f"{running.v1}/gateway/routes/{model}")).json()["upstreams"]
    return rows


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "JSON"])
@pytest.mark.parametrize("path", [RESPONSES, CHAT, MESSAGES])
async def test_the_retries_of_its_provider_are_used(path: str, stream: bool, way: str) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(reset, sound(ANSWER))
        with serving(configure(upstream.url, way, retries=1)) as running:
            seen, headers = await ask(running.v1, path, stream=stream)
        assert (seen.status, len(upstream.requests)) == (200, 2)
    assert (headers["x-gateway-upstream"], headers["x-gateway-attempts"]) == ("first", "1")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
async def test_no_failure_keeps_the_next_turn_from_its_provider(status: int, way: str) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(*[rejected(status)] * 8, sound(ANSWER))
        with serving(configure(upstream.url, way)) as running:
            for _ in range(8):
                _, headers = await ask(running.v1, CHAT, stream=True)
                assert headers["x-gateway-attempts"] == "1"
                assert "retry-after" not in headers  # the upstream named none
            seen, _ = await ask(running.v1, CHAT, stream=True)
            if way == "beside a shared name":
                states = [row["state"] for row in await list_upstreams(running, "both")]
                assert states == ["available", "available"]
        assert (seen.status, len(upstream.requests)) == (200, 9)


@pytest.mark.parametrize("way", WAYS)
async def test_deadlines_of_shared_turns_are_not_its_own(way: str) -> None:
    go_on = asyncio.Event()
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=ANSWER.headers, body=[Pause(go_on), ANSWER.stream]))
        config = configure(upstream.url, way, silence_s=30)
        config["routing"] = {"total_s": 0.2, "first_content_s": 0.1}
        with serving(config) as running:
            asked = asyncio.ensure_future(ask(running.v1, CHAT, stream=True))
            await upstream.received(1)
            await asyncio.wait([asked], timeout=0.4)
            go_on.set()
            seen, _ = await asked
    assert seen.status == 200


async def test_its_turns_count_for_names_that_share_its_provider() -> None:
    """With `least_busy` the idle provider gets every turn of the shared name."""
    go_on = asyncio.Event()
    async with ScriptedUpstream() as busy, ScriptedUpstream() as idle:
        busy.script(Reply(headers=ANSWER.headers, body=[ANSWER.opening, Pause(go_on), *ANSWER.frames[ANSWER.cut :]]))
        idle.script(sound(ANSWER))
        config = configure(busy.url, "beside a shared name", silence_s=30)
        config["providers"]["second"]["base_url"] = idle.url
        with serving(config) as running:
            held = [asyncio.ensure_future(ask(running.v1, CHAT, stream=True)) for _ in range(3)]
            await busy.received(3)
            assert [row["in_flight"] for row in await list_upstreams(running, "both")] == [3, 0]
            for _ in range(8):
                async with client() as asking:
                    body = question(CHAT, stream=False) | {"model": "both"}
                    reply = await asking.post(f"{running.v1}{CHAT}", json=body)
                assert reply.headers["x-gateway-upstream"] == "second"
            go_on.set()
            await asyncio.gather(*held)

            async def has_ended() -> bool:
                return [row["in_flight"] for row in await list_upstreams(running, "both")] == [0, 0]

            await wait_until(has_ended)
    assert (len(busy.requests), len(idle.requests)) == (3, 8)


async def test_a_limit_counts_the_turns_of_all_names_of_its_provider() -> None:
    go_on = asyncio.Event()
    async with ScriptedUpstream() as upstream:
        upstream.script(
            Reply(headers=ANSWER.headers, body=[ANSWER.opening, Pause(go_on), *ANSWER.frames[ANSWER.cut :]])
        )
        config = configure(upstream.url, "beside a shared name", silence_s=30, max_in_flight=1)
        config["models"]["both"]["upstreams"] = [{"provider": "first"}]
        config["routing"] = {"queue_s": 0.05}
        with serving(config) as running:
            held = asyncio.ensure_future(ask(running.v1, CHAT, stream=True))
            await upstream.received(1)
            async with client() as asking:
                body = question(CHAT, stream=False) | {"model": "both"}
                reply = await asking.post(f"{running.v1}{CHAT}", json=body)
            assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
            assert reply.headers["x-gateway-attempts"] == "0"
            go_on.set()
            await held
    assert len(upstream.requests) == 1


async def test_a_turn_waits_for_a_slot_no_longer_than_it_may_take() -> None:
    go_on = asyncio.Event()
    async with ScriptedUpstream() as upstream:
        held_answer: list[Step] = [ANSWER.opening, Pause(go_on), *ANSWER.frames[ANSWER.cut :]]
        upstream.script(Reply(headers=ANSWER.headers, body=held_answer))
        config = configure(upstream.url, "beside a shared name", silence_s=30, max_in_flight=1)
        config["models"]["both"]["upstreams"] = [{"provider": "first"}]
        config["routing"] = {"queue_s": 60, "total_s": 0.1}
        with serving(config) as running:
            held = asyncio.ensure_future(ask(running.v1, CHAT, stream=True))
            await upstream.received(1)
            async with asyncio.timeout(60), client() as asking:
                body = question(CHAT, stream=False) | {"model": "both"}
                reply = await asking.post(f"{running.v1}{CHAT}", json=body)
            assert (reply.status_code, reply.json()["error"]["code"]) == (504, "upstream_timeout")
            assert reply.headers["x-gateway-attempts"] == "0"
            go_on.set()
            await held
    assert len(upstream.requests) == 1
