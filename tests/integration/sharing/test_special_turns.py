"""Jobs, resumable streams, idempotency keys and WebSockets make their attempts like any turn; reloads cut nothing."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.faults.client_view import CHAT, client, question, read
from tests.faults.upstreams.test_attempts import TEXT, rejected, shared
from tests.polling import read_until, wait_until
from tests.serving import Gateway, command, serving
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.script import Close, Pause, Reply, Reset
from tests.upstream.server import ScriptedUpstream
from tests.websocket_client import talking

Json = dict[str, Any]
ANSWER = ANSWERS["chat"]


def configure(first: str, second: str, tmp_path: Path) -> Json:
    config = shared(first, second)
    config["store"] = {"url": f"sqlite+aiosqlite:///{tmp_path}/state.db"}
    return config


async def post(running: Gateway, headers: dict[str, str] | None = None, **params: Any) -> httpx.Response:
    async with client() as asking:
        body = {"model": "scripted-model", "input": "Hi", **params}
        return await asking.post(f"{running.v1}/responses", json=body, headers=headers)


async def fetch(running: Gateway, response_id: str) -> Json:
    async with client() as asking:
        response: Json = (await asking.get(f"{running.v1}/responses/{response_id}")).json()
    return response


async def fetch_ended(running: Gateway, response_id: str) -> Json:
    return await read_until(
        lambda: fetch(running, response_id), lambda found: found["status"] not in ("queued", "in_progress")
    )


def text_of(response: Json) -> str:
    return "".join(part["text"] for item in response["output"] for part in item.get("content", ()))


@pytest.mark.parametrize("fault", [rejected(503), Reply(headers=ANSWER.headers, body=[ANSWER.frames[0], Close()])])
async def test_a_background_response_comes_from_the_next_upstream(fault: Any, tmp_path: Path) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(fault)
        second.script(sound(ANSWERS["responses"]))
        with serving(configure(first.url, second.url, tmp_path)) as running:
            created = (await post(running, background=True)).json()

            response = await fetch_ended(running, created["id"])
    assert (response["status"], text_of(response)) == ("completed", TEXT)


async def test_a_background_response_without_a_log_is_repeated_until_its_end(tmp_path: Path) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(Reply(headers=ANSWER.headers, body=[ANSWER.opening, Reset()]))
        second.script(sound(ANSWERS["responses"]))
        with serving(configure(first.url, second.url, tmp_path)) as running:
            created = (await post(running, background=True)).json()

            response = await fetch_ended(running, created["id"])
    assert (response["status"], text_of(response)) == ("completed", TEXT)


async def test_a_resumable_stream_comes_from_the_next_upstream_and_not_after_its_log_has_content(
    tmp_path: Path,
) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503), Reply(headers=ANSWER.headers, body=[ANSWER.opening, Reset()]))
        second.script(sound(ANSWERS["responses"]))
        with serving(configure(first.url, second.url, tmp_path)) as running:
            served = await post(running, stream=True, resumable=True)
            cut = await post(running, stream=True, resumable=True)
    assert served.text.count("event: response.completed") == 1
    assert served.text.count("event: response.created") == 1
    assert cut.text.count("event: response.failed") == 1
    assert len(second.requests) == 1


async def test_an_idempotency_key_makes_attempts_once(tmp_path: Path) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503))
        second.script(sound(ANSWERS["responses"]))
        with serving(configure(first.url, second.url, tmp_path)) as running:
            replies = [await post(running, {"idempotency-key": "k"}) for _ in range(2)]
    assert [text_of(reply.json()) for reply in replies] == [TEXT, TEXT]
    assert replies[1].headers["x-gateway-attempts"] == "0"
    assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_a_websocket_turn_comes_from_the_next_upstream(tmp_path: Path) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503))
        second.script(sound(ANSWERS["responses"]))
        with serving(configure(first.url, second.url, tmp_path)) as running:
            async with talking(running.v1) as talk:
                response = await talk.response(model="scripted-model")
    assert text_of(response) == TEXT


async def test_a_websocket_turn_that_generates_nothing_asks_no_upstream(tmp_path: Path) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        second.script(sound(ANSWERS["responses"]))
        with serving(configure(first.url, second.url, tmp_path)) as running:
            async with talking(running.v1) as talk:
                warm = await talk.response(model="scripted-model", input="Hi", generate=False)
                response = await talk.response(model="scripted-model", previous_response_id=warm["id"])
            async with client() as asking:
                stored = [await asking.get(f"{running.v1}/responses/{each['id']}") for each in (warm, response)]
            rows = await list_upstreams(running.v1)
    assert [reply.headers.get("x-gateway-upstream") for reply in stored] == [None, "second"]
    assert (len(first.requests), len(second.requests)) == (1, 1)
    assert [row["in_flight"] for row in rows] == [0, 0]


async def test_a_reload_of_weights_cuts_no_stream_and_keeps_what_is_known(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    rest = [*ANSWER.frames[ANSWER.cut :], ANSWER.done]
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(429, retry_after="60"))
        second.script(Reply(headers=ANSWER.headers, body=[ANSWER.opening, Pause(go_on), *rest]))
        config = {**shared(first.url, second.url), "store": {"url": None}}
        config["providers"]["second"] |= {"dialects": ["chat"], "silence_s": 30}
        with command(config, tmp_path, forked=True) as server:
            body = question(CHAT, stream=True)
            async with client() as asking, asking.stream("POST", f"{server.v1}{CHAT}", json=body) as reply:
                pieces = reply.aiter_bytes()
                whole = await anext(pieces)
                config["models"]["*"]["upstreams"] = [
                    {"provider": "first"},
                    {"provider": "second", "tier": 1, "weight": 0},
                ]
                (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
                server.process.send_signal(signal.SIGHUP)
                await wait_until(lambda: "configuration_" in server.read_log())
                refused = "configuration_rejected" in server.read_log()
                go_on.set()
                whole += b"".join([piece async for piece in pieces])
            rows = await list_upstreams(server.v1)
    assert refused  # every row of tier 1 has weight 0
    assert read(CHAT, httpx.Response(200, headers=reply.headers, content=whole), stream=True).text == TEXT
    assert [row["state"] for row in rows] == ["parked", "available"]


async def test_new_weights_count_for_new_turns_and_the_state_of_upstreams_is_kept(tmp_path: Path) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(429, retry_after="60"))
        second.script(sound(ANSWERS["chat"]))
        config = {**shared(first.url, second.url), "store": {"url": None}}
        config["providers"]["second"]["dialects"] = ["chat"]
        config["models"]["*"]["upstreams"] = [
            {"provider": "first", "weight": 100},
            {"provider": "second", "weight": 0.01},
        ]
        with command(config, tmp_path, forked=True) as server:
            async with client() as asking:
                await asking.post(f"{server.v1}{CHAT}", json=question(CHAT, stream=False))
            config["models"]["*"]["upstreams"][0]["weight"] = 3
            (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
            server.process.send_signal(signal.SIGHUP)
            await wait_until(lambda: "configuration_reloaded" in server.read_log())
            report = await list_upstreams(server.v1)
    assert [(row["weight"], row["state"]) for row in report] == [(3.0, "parked"), (0.01, "available")]


async def list_upstreams(v1: str) -> list[Json]:
    async with client() as asking:
        rows: list[Json] = (await asking.get(f"{v1}/gateway/routes/scripted-model")).json()["upstreams"]
    return rows
