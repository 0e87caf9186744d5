"""What is stored of a reply names the upstream that answered and its losses, and no others."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from gateway.replies import log_replay
from gateway.replies.log_replay import LogReplay
from gateway.service.idempotency import requests
from tests.faults.client_view import CHAT, RESPONSES, client, question
from tests.faults.upstreams.test_attempts import rejected, shared
from tests.polling import read_until, wait_until
from tests.serving import serving
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.script import Pause, Reply, Reset
from tests.upstream.server import ScriptedUpstream

Json = dict[str, Any]
ANSWER = ANSWERS["chat"]
LOST_BY_FIRST: Json = {"top_logprobs": 2}
"""What the first upstream cannot take."""


class Fleet(NamedTuple):
    """A name with two upstreams, of which the first is asked first."""

    first: ScriptedUpstream
    second: ScriptedUpstream
    asking: httpx.AsyncClient

    async def post(self, path: str, headers: Mapping[str, str] | None = None, **body: Any) -> httpx.Response:
        asked = question(path, stream=bool(body.pop("stream", False)), **body)
        return await self.asking.post(path, json=asked, headers=headers)

    async def wait_for_end(self, response_id: str) -> httpx.Response:
        """Returns a response that is stored once it has ended."""
        return await read_until(
            lambda: self.asking.get(f"{RESPONSES}/{response_id}"),
            lambda reply: reply.json()["status"] not in ("queued", "in_progress"),
        )

    async def wait_for_status(self, status: str, *, has_upstream: bool) -> Json:
        """Returns the only response that is stored once it has a status, and with `has_upstream` its upstream too."""
        found: list[Json] = []

        async def has_status() -> bool:
            for each in (await self.asking.get(RESPONSES)).json()["data"]:
                got = await self.asking.get(f"{RESPONSES}/{each['id']}")
                if each["status"] == status and (not has_upstream or "x-gateway-upstream" in got.headers):
                    found.append(got.json())
            return bool(found)

        await wait_until(has_status)
        return found[-1]


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503))
        second.script(sound(ANSWERS["responses"]))
        config = shared(first.url, second.url)
        config["store"] = {"url": f"sqlite+aiosqlite:///{tmp_path}/state.db"}
        config["providers"]["first"]["capabilities"] = {"logprobs": False}
        with serving(config) as running:
            async with client() as asking:
                asking.base_url = httpx.URL(running.v1)
                yield Fleet(first, second, asking)


def read_id(reply: httpx.Response) -> str:
    if not reply.headers["content-type"].startswith("text/event-stream"):
        return str(reply.json()["id"])
    return reply.text.split('"id":"')[1].split('"')[0]


WAYS: dict[str, tuple[str, Json]] = {
    "a response": (RESPONSES, {}),
    "a stream": (RESPONSES, {"stream": True}),
    "a resumable stream": (RESPONSES, {"stream": True, "resumable": True}),
    "a completion": (CHAT, {"store": True}),
    "a stream of a completion": (CHAT, {"store": True, "stream": True}),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_stored_reply_names_the_upstream_that_answered(way: str, fleet: Fleet) -> None:
    path, params = WAYS[way]
    reply = await fleet.post(path, **params)
    assert (reply.headers["x-gateway-upstream"], reply.headers["x-gateway-attempts"]) == ("second", "2")
    stored = await fleet.asking.get(f"{path}/{read_id(reply)}")
    assert (stored.status_code, stored.headers["x-gateway-upstream"]) == (200, "second")
    assert "x-gateway-attempts" not in stored.headers


async def test_a_background_response_names_nobody_until_one_has_answered(fleet: Fleet) -> None:
    created = await fleet.post(RESPONSES, background=True)
    assert created.headers["x-gateway-attempts"] == "0"
    assert "x-gateway-upstream" not in created.headers
    ended = await fleet.wait_for_end(created.json()["id"])
    assert ended.headers["x-gateway-upstream"] == "second"


async def test_a_response_of_a_conversation_names_its_upstream(fleet: Fleet) -> None:
    conversation = (await fleet.asking.post("/conversations", json={})).json()["id"]
    created = await fleet.post(RESPONSES, conversation=conversation)
    stored = await fleet.asking.get(f"{RESPONSES}/{created.json()['id']}")
    assert stored.headers["x-gateway-upstream"] == "second"


@pytest.mark.parametrize("params", [{}, {"stream": True}, {"background": True}], ids=["JSON", "stream", "background"])
async def test_losses_of_an_upstream_that_did_not_answer_are_not_stored(params: Json, fleet: Fleet) -> None:
    created = await fleet.post(RESPONSES, **LOST_BY_FIRST, **params)
    assert "x-gateway-loss" not in created.headers
    stored = await fleet.wait_for_end(read_id(created))
    assert stored.headers["x-gateway-upstream"] == "second"
    assert "x-gateway-loss" not in stored.headers


async def test_losses_of_the_upstream_that_answered_are_stored(fleet: Fleet) -> None:
    fleet.first.script(sound(ANSWER))
    created = await fleet.post(RESPONSES, **LOST_BY_FIRST)
    stored = await fleet.wait_for_end(created.json()["id"])
    for reply in (created, stored):
        assert (reply.headers["x-gateway-upstream"], reply.headers["x-gateway-loss"]) == (
            "first",
            "top_logprobs=not included",
        )


async def test_a_name_with_one_provider_is_stored_with_it(tmp_path: Path) -> None:
    async with ScriptedUpstream() as first:
        first.script(sound(ANSWER))
        config = shared(first.url, first.url) | {"models": {"*": {"provider": "first"}}}
        config["store"] = {"url": f"sqlite+aiosqlite:///{tmp_path}/state.db"}
        for is_named in (True, False):
            config["routing"] = {"reply_headers": is_named}
            with serving(config) as running:
                async with client() as asking:
                    created = await asking.post(f"{running.v1}{RESPONSES}", json=question(RESPONSES, stream=False))
                    stored = await asking.get(f"{running.v1}{RESPONSES}/{created.json()['id']}")
            assert stored.headers.get("x-gateway-upstream") == ("first" if is_named else None)


KEY = {"idempotency-key": "k"}


@pytest.mark.parametrize("stream", [False, True], ids=["JSON", "stream"])
async def test_a_repeated_key_has_no_attempt_and_the_upstream_of_the_run(stream: bool, fleet: Fleet) -> None:
    own = await fleet.post(RESPONSES, KEY, stream=stream)
    assert (own.headers["x-gateway-upstream"], own.headers["x-gateway-attempts"]) == ("second", "2")
    for again_streams in (False, True):
        again = await fleet.post(RESPONSES, KEY, stream=again_streams)
        assert again.headers["x-gateway-replayed"] == "true"
        assert (again.headers["x-gateway-upstream"], again.headers["x-gateway-attempts"]) == ("second", "0")
    assert (len(fleet.first.requests), len(fleet.second.requests)) == (1, 1)


@pytest.mark.parametrize("fails", [False, True], ids=["completed", "failed"])
async def test_a_request_that_joins_a_run_has_its_upstream(
    fails: bool, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[str] = []

    class CountedReplay(LogReplay):
        def frames(self) -> AsyncGenerator[bytes, None]:
            waiting.append("")
            return super().frames()

    monkeypatch.setattr(requests, "LogReplay", CountedReplay)
    go_on, answer = asyncio.Event(), ANSWERS["responses"]
    fleet.second.script(Reply(headers=answer.headers, body=[Pause(go_on), answer.error if fails else answer.stream]))
    own = asyncio.ensure_future(fleet.post(RESPONSES, KEY))
    await fleet.second.received(1)
    joined = asyncio.ensure_future(fleet.post(RESPONSES, KEY))
    await wait_until(lambda: len(waiting) == 2)
    go_on.set()
    replies = await asyncio.gather(own, joined)
    assert {reply.is_success for reply in replies} == {not fails}
    assert [reply.headers["x-gateway-attempts"] for reply in replies] == ["2", "0"]
    assert {reply.headers["x-gateway-upstream"] for reply in replies} == {"second"}


async def test_a_run_that_failed_is_stored_with_the_upstream_that_failed_last(fleet: Fleet) -> None:
    fleet.first.script(rejected(400))
    own = await fleet.post(RESPONSES, KEY)
    assert own.status_code == 400
    assert (own.headers["x-gateway-upstream"], own.headers["x-gateway-attempts"]) == ("first", "1")
    failed = (await fleet.asking.get(RESPONSES)).json()["data"][0]
    stored = await fleet.asking.get(f"{RESPONSES}/{failed['id']}")
    assert (failed["status"], stored.headers["x-gateway-upstream"]) == ("failed", "first")


async def test_a_stream_that_broke_names_the_upstream_that_broke_it(fleet: Fleet) -> None:
    fleet.first.script(Reply(headers=ANSWER.headers, body=[ANSWER.opening, Reset()]))
    broken = await fleet.post(RESPONSES, stream=True)
    assert broken.text.count("event: response.failed") == 1
    stored = await fleet.asking.get(f"{RESPONSES}/{read_id(broken)}")
    assert stored.headers["x-gateway-upstream"] == "first"


STREAMED_WAYS: dict[str, tuple[Json, Mapping[str, str]]] = {
    "resumable": ({"stream": True, "resumable": True}, {}),
    "background": ({"stream": True, "background": True}, {}),
    "with a key": ({"stream": True}, KEY),
}


@pytest.mark.parametrize("way", STREAMED_WAYS)
async def test_a_stream_of_an_ended_response_names_the_upstream_that_answered(way: str, fleet: Fleet) -> None:
    params, headers = STREAMED_WAYS[way]
    created = await fleet.post(RESPONSES, headers, **params)
    for after in ({}, {"starting_after": "1"}):
        replayed = await fleet.asking.get(f"{RESPONSES}/{read_id(created)}", params={"stream": "true", **after})
        assert replayed.headers["x-gateway-upstream"] == "second"
        assert "x-gateway-attempts" not in replayed.headers


def paused(*, before: bool, go_on: asyncio.Event) -> Reply:
    """A reply that pauses before its content, or in the middle of it."""
    answer = ANSWERS["responses"]
    head = b"".join(answer.frames[: 1 if before else answer.cut])
    tail = b"".join(answer.frames[1 if before else answer.cut :])
    return Reply(headers=answer.headers, body=[head, Pause(go_on), tail, answer.done])


@pytest.mark.parametrize("before", [True, False], ids=["before its content", "within its content"])
@pytest.mark.parametrize("way", STREAMED_WAYS)
async def test_a_stream_that_joins_a_running_response_names_its_upstream(
    way: str, before: bool, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[str] = []

    class CountedReplay(LogReplay):
        def frames(self) -> AsyncGenerator[bytes, None]:
            waiting.append("")
            return super().frames()

    monkeypatch.setattr(log_replay, "LogReplay", CountedReplay)
    go_on = asyncio.Event()
    fleet.second.script(paused(before=before, go_on=go_on))
    params, headers = STREAMED_WAYS[way]
    own = asyncio.ensure_future(fleet.post(RESPONSES, headers, **LOST_BY_FIRST, **params))
    await fleet.second.received(1)
    response_id = (await fleet.wait_for_status("in_progress", has_upstream=not before))["id"]
    joining = [asyncio.ensure_future(fleet.asking.get(f"{RESPONSES}/{response_id}", params={"stream": "true"}))]
    if headers:
        joining.append(asyncio.ensure_future(fleet.post(RESPONSES, headers, **LOST_BY_FIRST, **params)))
    await wait_until(lambda: len(waiting) == len(joining))
    go_on.set()
    replies = await asyncio.gather(own, *joining)
    assert {reply.headers["x-gateway-upstream"] for reply in replies} == {"second"}
    assert all("x-gateway-loss" not in reply.headers for reply in replies)
    assert {reply.text.count("event: response.created") for reply in replies} == {1}
    assert {reply.text.count("event: response.completed") for reply in replies} == {1}


async def test_a_client_learns_the_id_of_a_response_that_has_no_content_for_long(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503))
        second.script(paused(before=True, go_on=go_on))
        config = shared(first.url, second.url)
        config["store"] = {"url": f"sqlite+aiosqlite:///{tmp_path}/state.db"}
        config["server"]["keepalive_s"] = 0.1
        config["providers"]["second"]["silence_s"] = 30
        with serving(config) as running:
            async with client() as asking:
                body = question(RESPONSES, stream=True, background=True)
                async with asking.stream("POST", f"{running.v1}{RESPONSES}", json=body) as reply:
                    lines = reply.aiter_lines()
                    seen = [await anext(lines)]
                    while "event: response.created" not in seen:
                        seen.append(await anext(lines))
                    go_on.set()
                    seen += [line async for line in lines]
    assert seen.count("event: response.created") == seen.count("event: response.completed") == 1
