"""`GET /pages/activity.json` of a real server: who may read it, what it says, and that all workers are added up."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.servers.processes import find_free_port
from tests.polling import read_until
from tests.serving import command, serving
from tests.upstream.server import closed_port

Json = dict[str, Any]

CONFIG: Json = {
    "providers": {
        "a": {"type": "scripted"},
        "gone": {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{closed_port()}", "retries": 0},
    },
    "models": {"m": {"upstreams": [{"provider": "gone"}, {"provider": "a", "tier": 1}]}, "away": {"provider": "gone"}},
}
KEYS: Json = {
    "keys": [
        {"name": "root", "key": "root-key-0123456789", "admin": True},
        {"name": "team", "key": "team-key-01234567"},
    ]
}
SECRET = "an unusual sentence about walruses"


async def fetch(url: str, path: str = "/pages/activity.json", **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        return await client.get(url + path, headers=headers)


async def send(url: str, model: str = "m", **headers: str) -> int:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        body = {"model": model, "input": SECRET, "stream": True}
        return (await client.post(f"{url}/v1/responses", json=body, headers=headers)).status_code


async def test_it_says_which_upstream_fails_and_where_the_time_of_a_request_went() -> None:
    with serving(CONFIG) as running:
        assert await send(running.url) == 200
        assert await send(running.url, "away") == 502
        reply = await fetch(running.url)
    assert SECRET not in reply.text
    assert reply.headers["cache-control"] == "no-store"
    page = reply.json()
    assert (page["requests"], page["failed"], page["workers"]) == (2, 1, 1)
    upstreams = {each["name"]: each for each in page["upstreams"]}
    assert (upstreams["a"]["attempts"], upstreams["a"]["failed"], upstreams["a"]["in_flight"]) == (1, 0, 0)
    assert upstreams["gone"]["failures"] == [{"result": "unreachable", "count": 2}]
    models = {each["name"]: each for each in page["models"]}
    assert (models["m"]["failed"], models["m"]["first_content"]["count"]) == (0, 1)
    assert models["away"]["failed"] == 1
    away, shared = page["entries"]
    assert (away["outcome"], away["status"], away["error"]) == ("upstream_error", 502, "upstream_unreachable")
    assert (shared["upstream"], shared["attempts"], shared["tried"]) == ("a", 2, "gone: unreachable")
    assert 0 < shared["first_content_ms"] <= shared["total_ms"]
    assert shared["upstream_ms"] + shared["own_ms"] == pytest.approx(shared["total_ms"], rel=0.1)


async def test_with_keys_only_administrators_see_it() -> None:
    with serving({**CONFIG, "auth": KEYS}) as running:
        assert (await fetch(running.url)).status_code == 401
        team, root = ({"authorization": f"Bearer {key['key']}"} for key in reversed(KEYS["keys"]))
        assert (await fetch(running.url, **team)).status_code == 403
        assert (await fetch(running.url, **root)).status_code == 200
        for key, access in ((team, "hidden"), (root, "shown")):
            assert (await fetch(running.url, "/pages/home.json", **key)).json()["activity"] == access
        assert (await fetch(running.url, "/pages/home.json")).json()["activity"] == "hidden"


async def test_only_reading_is_allowed() -> None:
    with serving(CONFIG) as running:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            assert (await client.post(f"{running.url}/pages/activity.json")).status_code == 405
            head = await client.head(f"{running.url}/pages/activity.json")
            assert (head.status_code, head.content) == (200, b"")


async def test_it_is_on_the_main_port_also_if_metrics_are_not(tmp_path: Path) -> None:
    config = {**CONFIG, "metrics": {"listen": f"127.0.0.1:{find_free_port()}"}}
    with command(config, tmp_path, forked=True) as running:
        assert (await fetch(running.url)).status_code == 200
        assert (await fetch(running.url, "/metrics")).status_code == 404


async def test_without_metrics_the_page_says_so() -> None:
    with serving({**CONFIG, "metrics": {"enabled": False}}) as running:
        assert (await fetch(running.url)).status_code == 404
        assert (await fetch(running.url, "/pages/home.json")).json()["activity"] == "off"


async def test_all_workers_are_added_up_and_nobody_logs_it(tmp_path: Path) -> None:
    with command(CONFIG, tmp_path, "--workers", "2", forked=True) as server:
        assert await asyncio.gather(*(send(server.url) for _ in range(12))) == [200] * 12

        async def read() -> Json:
            page: Json = (await fetch(server.url)).json()
            return page

        page = await read_until(read, lambda page: (page["requests"], page["workers"]) == (12, 2))
        assert len(page["entries"]) == 12
        assert {each["name"]: each["attempts"] for each in page["upstreams"]}["a"] == 12
        lines = server.read_log_lines()
    assert not any(line.get("path") == "/pages/activity.json" for line in lines)
