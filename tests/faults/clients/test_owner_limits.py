"""Limits of open, queued and stored objects per key. A key at its limit does not affect other keys."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests import databases
from tests.faults.config import StartGateway, config
from tests.upstream import Hang, Reply, ScriptedUpstream, chat_text
from tests.upstream.builders import SSE
from tests.upstream.faults import CHAT as ANSWER

Json = dict[str, Any]
AUTH = {
    "keys": [
        {"name": "ada", "key": "key-of-ada-0123456"},
        {"name": "ada-2", "owner": "ada", "key": "next-key-of-ada-0123456"},
        {"name": "bob", "key": "key-of-bob-0123456"},
    ]
}
ADA, ADA_2, BOB = ({"authorization": f"Bearer {key['key']}"} for key in AUTH["keys"])
HANGING = Reply(headers=SSE, body=[ANSWER.opening, Hang()])


def limited(upstream: ScriptedUpstream, folder: Path | None = None, **limits: Any) -> Json:
    store = {"url": None if folder is None else databases.ready_sqlite(folder / "state.db"), "poll_s": 0.05}
    return {**config(upstream.url, "chat"), "auth": AUTH, "limits": limits, "store": store}


def code_of(reply: httpx.Response, limit: str) -> str:
    """Returns the code of a refusal, after checking that it names its limit and a retry delay."""
    assert reply.status_code == 429
    assert reply.headers["retry-after"] == "1"
    error = reply.json()["error"]
    assert error["type"] == "rate_limit_error"
    assert limit in error["message"]
    return str(error["code"])


@pytest.mark.parametrize("path", ["/responses", "/chat/completions", "/models"])
async def test_a_key_has_a_limit_of_open_requests(path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream, httpx.AsyncClient(trust_env=False, timeout=60) as client:
        upstream.script(HANGING)
        v1 = gateway(limited(upstream, open_requests=2)).v1
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}

        async def ask(headers: Json) -> httpx.Response:
            if path == "/models":
                return await client.get(v1 + path, headers=headers)
            fields = body if path == "/chat/completions" else {"model": "m", "input": "hi"}
            return await client.post(v1 + path, headers=headers, json={**fields, "stream": False}, timeout=20)

        async with AsyncExitStack() as streams:
            for headers in (ADA, ADA_2):  # two keys of one owner have one limit
                request = client.stream("POST", f"{v1}/chat/completions", headers=headers, json=body)
                reply = await streams.enter_async_context(request)
                assert reply.status_code == 200
            assert code_of(await ask(ADA), "limits.open_requests") == "too_many_open_requests"
            upstream.script(chat_text("hi"))
            assert (await ask(BOB)).status_code == 200
        async with asyncio.timeout(60):
            while (await ask(ADA)).status_code != 200:
                await asyncio.gather(*(request.closed for request in upstream.requests[:2]))


async def test_without_keys_open_requests_are_not_limited(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream, httpx.AsyncClient(trust_env=False, timeout=60) as client:
        upstream.script(chat_text("hi"))
        served = gateway({**config(upstream.url, "chat"), "limits": {"open_requests": 1}})
        asking = (client.post(f"{served.v1}/responses", json={"model": "m", "input": "hi"}) for _ in range(10))
        assert {reply.status_code for reply in await asyncio.gather(*asking)} == {200}


async def test_a_key_has_a_limit_of_websockets(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        url = gateway(limited(upstream, websockets=1)).v1.replace("http", "ws") + "/responses"
        async with connect(url, additional_headers=ADA_2):
            with pytest.raises(InvalidStatus) as refused:
                await connect(url, additional_headers=ADA)
            reply = refused.value.response
            body = httpx.Response(reply.status_code, headers=list(reply.headers.raw_items()), content=bytes(reply.body))
            assert code_of(body, "limits.websockets") == "too_many_websockets"
            async with connect(url, additional_headers=BOB):
                pass
        async with asyncio.timeout(60):
            while True:
                try:
                    async with connect(url, additional_headers=ADA):
                        break
                except InvalidStatus:
                    continue


async def test_an_owner_has_a_limit_of_background_jobs(gateway: StartGateway, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream, httpx.AsyncClient(trust_env=False, timeout=60) as client:
        upstream.script(HANGING)
        url = f"{gateway(limited(upstream, tmp_path, background_jobs=2)).v1}/responses"
        body = {"model": "m", "input": "hi", "background": True}
        begun = [await client.post(url, headers=ADA, json=body) for _ in range(2)]
        assert [reply.status_code for reply in begun] == [200, 200]
        refused = await client.post(url, headers=ADA, json=body)
        assert code_of(refused, "limits.background_jobs") == "too_many_background_jobs"
        assert (await client.post(url, headers=BOB, json=body)).status_code == 200
        assert (await client.post(f"{url}/{begun[0].json()['id']}/cancel", headers=ADA)).status_code == 200
        assert (await client.post(url, headers=ADA, json=body)).status_code == 200


async def test_an_owner_has_a_limit_of_event_logs(gateway: StartGateway, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream, httpx.AsyncClient(trust_env=False, timeout=60) as client:
        upstream.script(chat_text("hi"))
        url = f"{gateway(limited(upstream, tmp_path, event_log_mb=0.001)).v1}/responses"
        body = {"model": "m", "input": "hi", "stream": True, "resumable": True}
        assert (await client.post(url, headers=ADA, json=body)).status_code == 200
        assert code_of(await client.post(url, headers=ADA, json=body), "limits.event_log_mb") == "event_log_full"
        assert (await client.post(url, headers=BOB, json=body)).status_code == 200
        assert (await client.post(url, headers=ADA, json={**body, "resumable": False})).status_code == 200
