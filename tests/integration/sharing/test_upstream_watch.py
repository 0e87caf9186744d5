"""Upstreams are asked how they are: an ejected one at its health path, a busy one for its queue."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from gateway.upstreams.waiting_turns import WaitingTurns
from tests.faults.client_view import CHAT, ask
from tests.faults.config import LONG_S
from tests.faults.upstreams.test_attempts import rejected, shared
from tests.polling import wait_until
from tests.serving import serving
from tests.upstream.builders import json_reply
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.script import Exchange, Reply, Script
from tests.upstream.server import ScriptedUpstream

Json = dict[str, Any]


def load_of(url: str) -> list[Json]:
    rows: list[Json] = httpx.get(f"{url}/v1/gateway/routes/m", trust_env=False, timeout=60).json()["upstreams"]
    return rows


async def wait_for_rows(url: str, **wanted: Any) -> list[Json]:
    """Returns the rows once the first one has these values."""

    def find() -> list[Json]:
        rows = load_of(url)
        return rows if wanted.items() <= rows[0].items() else []

    return await wait_until(find)


def configure(first: str, second: str, **provider: Any) -> Json:
    config = shared(first, second, eject_failures=1, eject_s=60, eject_max_s=60)
    for each in config["providers"].values():
        each |= {"silence_s": LONG_S, "answer_s": LONG_S}
    config["providers"]["first"] |= provider
    config["models"] = {"m": {**config["models"]["*"], "model": "scripted-model"}}
    return config


@pytest.mark.parametrize(("health", "state"), [(200, "available"), (503, "ejected")])
async def test_an_ejected_upstream_gets_a_trial_once_it_says_that_it_is_well(health: int, state: str) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(502))
        first.on("/health", json_reply({}, health))
        second.script(sound(ANSWERS["responses"]))
        config = configure(first.url.removesuffix("/v1"), second.url, health_path="/health")
        config["providers"]["first"]["base_url"] = first.url
        with serving(config) as running:
            await ask(running.v1, CHAT, stream=False, model="m")
            assert load_of(running.url)[0]["ejections"] == 1
            asked = [request for request in first.requests if request.path == "/health"]
            await wait_until(lambda: len([each for each in first.requests if each.path == "/health"]) > len(asked))
            await wait_for_rows(running.url, state=state)


async def test_turns_that_wait_are_served_once_an_ejected_upstream_says_that_it_is_well(
    queued: list[WaitingTurns],
) -> None:
    is_well, answers = asyncio.Event(), asyncio.Event()

    async def tell_health(exchange: Exchange) -> None:
        await json_reply({}, 200 if is_well.is_set() else 503)(exchange)

    async def answer_late(exchange: Exchange) -> None:
        await answers.wait()
        await sound(ANSWERS["responses"])(exchange)

    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(502))
        first.on("/health", tell_health)
        second.script(answer_late)
        config = configure(first.url, second.url, health_path="/health", max_in_flight=1)
        config["providers"]["second"]["max_in_flight"] = 1
        config["routing"] |= {"eject_s": 600, "eject_max_s": 600, "queue_s": 600}
        with serving(config) as running:
            held = asyncio.create_task(ask(running.v1, CHAT, stream=False, model="m"))
            await second.received(1)
            first.script(sound(ANSWERS["chat"]))
            waiting = [asyncio.create_task(ask(running.v1, CHAT, stream=False, model="m")) for _ in range(2)]
            await wait_until(lambda: len(queued) == 2)
            is_well.set()
            assert [seen.status for seen in await asyncio.gather(*waiting)] == [200, 200]
            assert not held.done()
            answers.set()
            await held


async def test_upstreams_of_a_pattern_are_asked_too() -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(502))
        first.on("/health", json_reply({}))
        second.script(sound(ANSWERS["responses"]))
        config = configure(first.url, second.url, health_path="/health")
        config["models"] = {"*": {"upstreams": config["models"]["m"]["upstreams"]}}
        for provider in config["providers"].values():
            provider["unlisted_models"] = "forward"
        with serving(config) as running:
            await ask(running.v1, CHAT, stream=False, model="m")
            first_row, _ = await wait_for_rows(running.url, state="available")
            assert first_row["ejections"] == 1


METRICS = b"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 4.0\n"
REPORTS: dict[str, tuple[str, Script | None]] = {
    "metrics": ("metrics", Reply(headers={"content-type": "text/plain"}, body=METRICS)),
    "orca": ("orca", None),
}


@pytest.mark.parametrize(("form", "metrics"), REPORTS.values(), ids=REPORTS)
async def test_the_queue_of_an_upstream_is_known(form: str, metrics: Script | None) -> None:
    answer = ANSWERS["chat"]
    report = {"named_metrics": {"num_requests_waiting": 4}}
    headers = {"content-type": "application/json", "endpoint-load-metrics": f"JSON {json.dumps(report)}"}
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(Reply(headers=headers, body=answer.whole, framing="length"))
        if metrics is not None:
            first.on("/metrics", metrics)
        with serving(configure(first.url, second.url, load_report=form)) as running:
            async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
                body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
                reply = await client.post(f"{running.v1}/chat/completions", json=body)
            assert "endpoint-load-metrics" not in reply.headers
            rows = await wait_for_rows(running.url, waiting=4)
            assert [row["load"] for row in rows] == [form, "none"]
    wanted = "json" if form == "orca" else None
    assert first.requests[0].headers.get("endpoint-load-metrics-format") == wanted


async def test_an_upstream_without_a_known_figure_reports_no_load() -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(sound(ANSWERS["chat"]))
        first.on("/metrics", Reply(headers={"content-type": "text/plain"}, body=b"other_waiting 4\n"))
        with serving(configure(first.url, second.url, load_report="metrics")) as running:
            await ask(running.v1, CHAT, stream=False, model="m")
            await wait_for_rows(running.url, load="none")
