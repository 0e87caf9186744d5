"""Rules of choice, repetition and queue as a client and the log see them, over real sockets."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.client_view import CHAT, MESSAGES, RESPONSES, client, question
from tests.faults.config import LONG_S, StartGateway
from tests.faults.upstreams.test_attempts import APIS, TEXT, ask, rejected, shared
from tests.polling import read_until, wait_until
from tests.serving import Gateway, command
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.script import Hang, Pause, Reply, reset
from tests.upstream.server import ScriptedUpstream

Json = dict[str, Any]
ANSWER = ANSWERS["chat"]


def configure(first: str, second: str, **routing: Any) -> Json:
    """Returns a configuration whose upstreams may take their time, also on a busy machine."""
    config = shared(first, second, **routing)
    for provider in config["providers"].values():
        provider |= {"silence_s": LONG_S, "answer_s": LONG_S}
    return config | {"models": {"scripted-model": config["models"]["*"]}}


PATHS = pytest.mark.parametrize("path", APIS.values(), ids=APIS)


async def post(running: Gateway, path: str, headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
    asked = question(path, stream=False, **body)
    async with client() as asking:
        return await asking.post(f"{running.v1}{path}", json=asked, headers=headers)


async def list_upstreams(running: Gateway) -> list[Json]:
    async with client() as asking:
        rows: list[Json] = (await asking.get(f"{running.v1}/gateway/routes/scripted-model")).json()["upstreams"]
    return rows


@PATHS
async def test_a_row_without_weight_gets_no_turns(path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        second.script(sound(ANSWERS["responses"]))
        config = configure(first.url, second.url)
        config["models"]["scripted-model"]["upstreams"] = [
            {"provider": "first", "weight": 0, "tier": 1},
            {"provider": "second"},
        ]
        config["models"]["scripted-model"]["upstreams"].append({"provider": "second", "model": "another", "tier": 1})
        seen, headers = await ask(gateway(config).v1, path, stream=False)
    assert (seen.text, headers["x-gateway-upstream"]) == (TEXT, "second:scripted-model")
    assert not first.requests


async def test_a_row_without_weight_does_not_decide_how_others_generate(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        second.script(sound(ANSWER))
        config = configure(first.url, second.url)
        config["providers"]["first"] |= {"type": "vllm"}
        config["providers"]["second"]["dialects"] = ["chat"]
        config["models"]["scripted-model"]["upstreams"] = [
            {"provider": "first", "weight": 0, "two_pass": True},
            {"provider": "second"},
            {"provider": "second", "model": "another", "tier": 1},
        ]
        async with client() as asking:
            body = {"model": "scripted-model", "messages": [{"role": "user", "content": "Hi"}]}
            reply = await asking.post(f"{gateway(config).url}/generate", json=body)
    assert (reply.status_code, reply.headers["x-gateway-upstream"]) == (200, "second:scripted-model"), reply.text


IMAGE = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,eA=="}]}]


async def test_a_row_that_must_refuse_a_request_is_out(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        second.script(sound(ANSWERS["responses"]))
        config = configure(first.url, second.url)
        config["providers"]["first"]["capabilities"] = {"images": False}
        running = gateway(config)
        served = await post(running, RESPONSES, input=IMAGE)
        config["providers"]["second"]["capabilities"] = {"images": False}
        refused = await post(gateway(config), RESPONSES, input=IMAGE)
    assert (served.status_code, served.headers["x-gateway-attempts"]) == (200, "1")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input[0]")
    assert refused.headers["x-gateway-attempts"] == "0"
    assert not first.requests


@pytest.mark.parametrize("way", ["header", "configuration"])
async def test_in_strict_mode_a_row_with_a_loss_is_out(way: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(sound(ANSWER))
        second.script(sound(ANSWERS["responses"]))
        config = configure(first.url, second.url)
        config["providers"]["first"]["capabilities"] = {"logprobs": False}
        lenient = await post(gateway(config), RESPONSES, top_logprobs=2)
        config["models"]["scripted-model"]["strict"] = way == "configuration"
        headers = {"x-gateway-strict": "true"} if way == "header" else None
        strict = await post(gateway(config), RESPONSES, headers, top_logprobs=2)
    assert (lenient.headers["x-gateway-upstream"], lenient.headers["x-gateway-loss"]) == (
        "first",
        "top_logprobs=not included",
    )
    assert strict.headers["x-gateway-upstream"] == "second"
    assert "x-gateway-loss" not in strict.headers


TOO_LONG = rejected(400, code="context_length_exceeded")
WINDOWS: dict[str, tuple[Json, Json, bool]] = {
    "a larger window": ({"max_context_window": 1000}, {"max_context_window": 2000}, True),
    "an unknown window": ({"max_context_window": 1000}, {}, True),
    "a smaller window": ({"max_context_window": 2000}, {"max_context_window": 1000}, False),
    "the same window": ({"max_context_window": 1000}, {"max_context_window": 1000}, False),
}


@PATHS
@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
async def test_too_long_a_prompt_goes_to_a_larger_window(
    windows: tuple[Json, Json, bool], path: str, gateway: StartGateway
) -> None:
    own, other, moves_on = windows
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(TOO_LONG)
        second.script(sound(ANSWERS["responses"]))
        config = configure(first.url, second.url, fallback_on=["context_length_exceeded"])
        config["providers"]["first"]["capabilities"], config["providers"]["second"]["capabilities"] = own, other
        seen, headers = await ask(gateway(config).v1, path, stream=True)
    assert (seen.status, headers["x-gateway-attempts"]) == ((200, "2") if moves_on else (400, "1"))


@PATHS
async def test_an_upstream_can_forbid_any_repetition(path: str, gateway: StartGateway) -> None:
    body = b'{"error": {"message": "no"}}'
    forbidding = Reply(503, {"content-type": "application/json", "x-should-retry": "false"}, body, framing="length")
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(forbidding)
        seen, headers = await ask(gateway(configure(first.url, second.url)).v1, path, stream=False)
    assert (seen.status, headers["x-gateway-attempts"]) == (529 if path == MESSAGES else 503, "1")
    assert not second.requests


@PATHS
@pytest.mark.parametrize("queued", [True, False], ids=["queue_s", "queue_length"])
async def test_full_upstreams_are_an_overload_without_an_attempt(
    queued: bool, path: str, gateway: StartGateway
) -> None:
    async with ScriptedUpstream() as first:
        first.script(Reply(headers=ANSWER.headers, body=[ANSWER.opening, Hang()]))
        config = configure(first.url, first.url, queue_s=0.05 if queued else 60, queue_length=1 if queued else 0)
        config["providers"]["first"] |= {"max_in_flight": 1}
        config["models"]["scripted-model"]["upstreams"] = [{"provider": "first"}]
        running = gateway(config)
        async with client() as asking:
            held = asking.stream("POST", f"{running.v1}{CHAT}", json=question(CHAT, stream=True))
            async with held as reply:
                pieces = reply.aiter_bytes()  # the reply would be closed together with it
                await anext(pieces)
                seen, headers = await ask(running.v1, path, stream=False)
    assert (seen.status, headers["retry-after"]) == (529 if path == MESSAGES else 503, "1")
    assert headers["x-gateway-attempts"] == "0"
    assert "x-gateway-upstream" not in headers
    assert len(first.requests) == 1


async def test_a_client_that_leaves_the_queue_is_never_sent(gateway: StartGateway) -> None:
    go_on = asyncio.Event()
    async with ScriptedUpstream() as first:
        rest = [*ANSWER.frames[ANSWER.cut :], ANSWER.done]
        first.script(Reply(headers=ANSWER.headers, body=[ANSWER.opening, Pause(go_on), *rest]), sound(ANSWER))
        config = configure(first.url, first.url, queue_s=60)
        config["providers"]["first"] |= {"max_in_flight": 1}
        config["models"]["scripted-model"]["upstreams"] = [{"provider": "first"}]
        running = gateway(config)
        held = asyncio.ensure_future(ask(running.v1, CHAT, stream=True))
        await first.received(1)

        async def count_queued() -> float:
            async with client() as asking:
                text = (await asking.get(f"{running.url}/metrics")).text
            return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("gateway_queued{"))

        async with client() as asking:
            leaving = asyncio.ensure_future(
                asking.post(f"{running.v1}{CHAT}", json=question(CHAT, stream=False, user="leaving"))
            )
            await read_until(count_queued, lambda count: count == 1)
            leaving.cancel()
            await asyncio.wait([leaving])
        await read_until(count_queued, lambda count: count == 0)
        go_on.set()
        await held
        await ask(running.v1, CHAT, stream=False)
        assert len(first.requests) == 2

        async def has_ended() -> bool:
            return [row["in_flight"] for row in await list_upstreams(running)] == [0]

        await wait_until(has_ended)


async def test_the_log_says_why_a_turn_was_not_repeated_and_that_a_client_left(tmp_path: Path) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(reset, Reply(headers=ANSWER.headers, body=[Hang()]))
        second.script(rejected(502))
        config = configure(first.url, second.url, retries_per_s=0, retry_share=0, attempts=5)
        config |= {"store": {"url": None}, "log": {"format": "json"}}
        config["providers"]["second"]["dialects"] = ["chat"]
        config["models"]["scripted-model"]["upstreams"] = [
            {"provider": "first"},
            {"provider": "second", "tier": 1},
            {"provider": "second", "model": "x", "tier": 2},
        ]
        with command(config, tmp_path, forked=True) as server:
            async with client() as asking:
                await asking.post(f"{server.v1}{CHAT}", json=question(CHAT, stream=False))
                leaving = asyncio.ensure_future(asking.post(f"{server.v1}{CHAT}", json=question(CHAT, stream=True)))
                await first.received(2)
                leaving.cancel()
                await asyncio.wait([leaving])

            async def read_lines() -> list[Json]:
                lines = server.read_log_lines()
                return [line for line in lines if line["message"] == "request"]

            failed, left = await read_until(read_lines, lambda lines: len(lines) == 2)
    assert (failed["status"], failed["retry_budget"], failed["attempts"]) == (502, "empty", 2)
    assert [(each["upstream"], each["result"]) for each in failed["tried"]] == [
        ("first", "reset"),
        ("second:scripted-model", "server_error"),
    ]
    assert (left["status"], left.get("attempts", 1)) == (499, 1)
