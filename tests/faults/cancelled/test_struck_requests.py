"""Whole requests that are cancelled, whose client leaves, whose server stops or whose upstream breaks, at each moment.

Nothing of them remains, and the next request is served: each place that requests share is the only one, so that a lost
one is found by the next request.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import uvloop

from gateway.jobs import runner as job_runner
from tests.databases import postgres, ready_sqlite
from tests.faults.cancelled.loop_gateway import LoopGateway, parse_reply
from tests.faults.cancelled.request_table import (
    HTTP_TASK,
    KEY,
    PIECES,
    QUICK_ROWS,
    SLOW_ROWS,
    Row,
    Stored,
    get,
    is_good,
    script_upstream,
    store_first,
)
from tests.faults.cancelled.strikes import Strike
from tests.mcp_server import mcp_server
from tests.own_process import find_open_files, list_tasks
from tests.polling import wait_until
from tests.upstream import ScriptedUpstream

GAUGES: Final = ("gateway_in_flight", "gateway_queued", "gateway_streams_open")
UNFINISHED: Final = ("queued", "in_progress")
TASK_OF_UPSTREAM: Final = "_Connection._serve"


class Served(NamedTuple):
    gateway: LoopGateway
    upstream: ScriptedUpstream
    stored: Stored
    folder: Path


class Running(NamedTuple):
    runner: asyncio.Runner
    served: Served


Act = Callable[[Served], Callable[[], object] | None]


class Way(NamedTuple):
    """One way to strike: what happens, and whether it happens when a wait is over and the task has not resumed."""

    act: Act
    late: bool = False


WAYS: Final = {
    "cancelled": Way(lambda _: None),
    "cancelled late": Way(lambda _: None, late=True),
    "its client leaves": Way(lambda served: served.gateway.drop_client),
    "its client leaves late": Way(lambda served: served.gateway.drop_client, late=True),
    "the server stops": Way(lambda served: served.gateway.drain.expire),
    "the upstream breaks": Way(lambda served: served.upstream.drop_connections),
}
"""A task is cancelled outside of the guard of its client only by a server whose time to stop is over."""

FEW_WAYS: Final = ("cancelled", "its client leaves late")


def configure(upstream: str, mcp_url: str, store_url: str, folder: Path) -> dict[str, Any]:
    provider = {
        "type": "openai_compatible",
        "base_url": upstream,
        "retries": 0,
        "max_connections": 1,
        "capabilities": {"models": False, "endpoints": ["embeddings", "transcriptions"]},
    }
    limited = {**provider, "max_in_flight": 1}
    return {
        "auth": {"keys": [{"name": "client", "key": KEY, "admin": True}]},
        "limits": {"open_requests": 1, "websockets": 1},
        "background": {"max_running": 1},
        "store": {"url": store_url, "poll_s": 0.05},
        "files": {"path": str(folder / "files")},
        "egress": {"allow": ["127.0.0.1"]},
        "tools": {"mcp": {"servers": {"own": {"url": mcp_url, "approval": "never"}}}},
        "providers": {
            "plain": provider,
            "limited": limited,
            "one": limited,
            "two": limited,
            "httpx": {**provider, "transport": "httpx"},
        },
        "models": {
            "m": {"provider": "plain"},
            "limited": {"provider": "limited"},
            "shared": {"upstreams": [{"provider": "one"}, {"provider": "two"}]},
            "httpx": {"provider": "httpx"},
        },
    }


@asynccontextmanager
async def serve(folder: Path, store_url: str, mcp_url: str) -> AsyncIterator[Served]:
    async with ScriptedUpstream() as upstream:
        gateway = LoopGateway(configure(upstream.url, mcp_url, store_url, folder))
        script_upstream(upstream, gateway.reach_moment)
        async with gateway.running():
            yield Served(gateway, upstream, await store_first(gateway, mcp_url), folder)


@contextmanager
def run_gateway(folder: Path, store_url: str) -> Iterator[Running]:
    """Runs a gateway whose loop runs while a test does. So what a test leaves is found by the next one too."""
    with (
        pytest.MonkeyPatch.context() as patch,
        mcp_server() as server,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        patch.setattr(job_runner, "_POLL_S", 0.05)  # it finds at once what nobody works on
        context = serve(folder, store_url, server.url)
        served = runner.run(context.__aenter__())
        yield Running(runner, served)
        runner.run(context.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("sqlite")
    with run_gateway(folder, ready_sqlite(folder / "state.db")) as running:
        yield running


@pytest.fixture(scope="module")
def on_postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with postgres() as server, run_gateway(tmp_path_factory.mktemp("postgresql"), server.database()) as running:
        yield running


@pytest.mark.parametrize("name", QUICK_ROWS)
def test_a_struck_request_leaves_nothing(name: str, on_sqlite: Running) -> None:
    on_sqlite.runner.run(strike_in_ways(on_sqlite.served, QUICK_ROWS[name], tuple(WAYS)))


@pytest.mark.parametrize("name", SLOW_ROWS)
def test_a_struck_request_with_many_waits_leaves_nothing(name: str, on_sqlite: Running) -> None:
    on_sqlite.runner.run(strike_in_ways(on_sqlite.served, SLOW_ROWS[name], FEW_WAYS))


@pytest.mark.parametrize("name", ["a response in a conversation", "several upstreams, streamed"])
def test_a_struck_request_leaves_nothing_on_postgresql(name: str, on_postgresql: Running) -> None:
    on_postgresql.runner.run(strike_in_ways(on_postgresql.served, QUICK_ROWS[name], FEW_WAYS))


async def strike_in_ways(served: Served, row: Row, ways: tuple[str, ...]) -> None:
    for number in range(2):  # what is opened once is open then
        assert is_good(await served.gateway.send(row.build(served.stored, f"warm-up-{number}-{id(row)}")))
    for watched in row.watched:
        for way in ways:
            if does_happen(watched, way):
                await strike_at_each_moment(served, row, watched, way)
    await check_end(served)


def does_happen(watched: str, way: str) -> bool:
    """Whether something strikes at these moments in this way: only the task of a request is cancelled by itself."""
    if way.startswith("cancelled"):
        return watched == HTTP_TASK
    return watched != PIECES or not WAYS[way].late


async def strike_at_each_moment(served: Served, row: Row, watched: str, way: str) -> None:
    gateway, act = served.gateway, WAYS[way].act(served)
    before = list_tasks()
    for number in count(1):
        text = f"{id(row)}-{watched}-{way}-{number}".replace(" ", "-")
        strike = Strike(number, act, WAYS[way].late, watched)
        received = await gateway.send(row.build(served.stored, text), strike)
        assert not gateway.drain.guards
        await wait_until(lambda: not find_new_tasks(before))
        if not strike.has_struck:
            assert is_good(received), (number, received)
            return
        if row.repeats:
            assert is_good(await gateway.send(row.build(served.stored, text))), number


def find_new_tasks(before: set[asyncio.Task[Any]]) -> list[str]:
    names = [getattr(task.get_coro(), "__qualname__", "") for task in list_tasks() - before]
    return [name for name in names if name != TASK_OF_UPSTREAM]


async def check_end(served: Served) -> None:
    """Fails unless what is stored and counted is as after requests that have all ended."""
    gateway = served.gateway

    async def read(path: str) -> bytes:
        reply = parse_reply(await gateway.send(get(path)))
        assert reply.status == 200, reply
        return reply.body

    async def list_newest(path: str) -> list[Any]:
        found: list[Any] = json.loads(await read(f"{path}?limit=100"))["data"]
        return found

    async def has_final_responses() -> bool:
        return not any(response["status"] in UNFINISHED for response in await list_newest("/v1/responses"))

    async def has_the_blobs_of_its_files() -> bool:
        files = {file["id"] for file in await list_newest("/v1/files")}
        return {path.name for path in (served.folder / "files").rglob("file-*")} == files

    await wait_until(has_final_responses)
    await wait_until(has_the_blobs_of_its_files)
    assert not find_open_files(served.folder / "files")
    metrics = (await read("/metrics")).decode().splitlines()
    assert [line for line in metrics if line.startswith(GAUGES) and float(line.split(" ")[-1])] == []
