"""A database that is down, lost, locked or frozen: waits are bounded, and requests without state are served."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import databases
from tests.databases import Postgres
from tests.polling import wait_until
from tests.state.processes import database_observer
from tests.state.processes.killed_servers import Paused, has_ended, is_stored
from tests.state.replicas import Client, Json, client, replica, text
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_text

pytestmark = pytest.mark.timeout(180)  # servers take long to start where every core is busy

Fault = Callable[[Postgres], AbstractContextManager[None]]

PATIENCE_S = 60.0
"""The deadline of a store that fails without a wait."""
MARGIN_S = 20.0
"""For two cores that are busy with something else."""

HELLO = {"model": "some-model", "input": "Hello"}
CHAT = {"model": "some-model", "messages": [{"role": "user", "content": "Hello"}], "store": True}
NEEDY: list[tuple[str, str, Json | None]] = [
    ("POST", "/responses", HELLO),
    ("POST", "/responses", HELLO | {"stream": True}),
    ("POST", "/responses", HELLO | {"background": True}),
    ("POST", "/responses", HELLO | {"stream": True, "resumable": True}),
    ("POST", "/responses", HELLO | {"store": False, "previous_response_id": "resp_1"}),
    ("POST", "/responses", HELLO | {"conversation": "conv_1"}),
    ("POST", "/chat/completions", CHAT),
    ("POST", "/chat/completions", CHAT | {"stream": True}),
    ("POST", "/conversations", {}),
    ("GET", "/responses/resp_1", None),
    ("GET", "/responses", None),
]
"""Requests that cannot be answered without a database."""


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[Postgres]:
    """A PostgreSQL server for one test, which may stop and freeze it."""
    with databases.postgres() as server:
        yield server


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as up:
        up.on("/chat/completions", chat_text("Hi", " there"))
        yield up


@contextmanager
def stopped(server: Postgres) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextmanager
def frozen(server: Postgres) -> Iterator[None]:
    """Stops the processes of the database server, so that it accepts connections and never replies."""
    processes = server.processes()
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def settings(deadline_s: float = PATIENCE_S) -> dict[str, Any]:
    """No lease runs out: a server that lives ends what it could not keep by itself."""
    return {"store": {"deadline_s": deadline_s}, "background": {"lease_s": 60.0}}


async def is_well(asking: Client) -> bool:
    return await asking.wrong() is None


def check_not_stored(final: Json) -> None:
    """The last event of a stream whose end could not be written. Its code is one of the API's own."""
    error = final["response"]["error"]
    assert (final["type"], error["code"], error["type"]) == ("response.failed", "server_error", "store_unavailable")


async def check_stateless(asking: Client) -> None:
    """Checks that unstored requests are answered at once."""
    began = time.monotonic()
    assert text(await asking.create(input="Hello", store=False)) == "Hi there"
    async with asking.stream(input="Hello", store=False) as stream:
        assert (await stream.read_all())["type"] == "response.completed"
    assert time.monotonic() - began < MARGIN_S


async def check_refused(asking: Client, waits_s: float = 0.0) -> None:
    """Checks that every request that needs the store is refused by name, after a wait of `waits_s` at most."""
    for method, path, body in NEEDY:
        began = time.monotonic()
        answer = await asking.http.request(method, path, json=body)
        assert time.monotonic() - began < waits_s + MARGIN_S, path
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable"), path


async def check_all_is_well(asking: Client) -> None:
    await wait_until(is_well, asking)
    created = await asking.create(input="Hello")
    assert await asking.read(created["id"]) == created
    job = await asking.create(input="Hello", background=True)
    await wait_until(has_ended, asking, job["id"])
    assert text(await asking.read(job["id"])) == "Hi there"


async def test_a_server_starts_without_its_database_and_uses_it_once_it_is_there(
    upstream: ScriptedUpstream, own_postgres: Postgres, tmp_path: Path
) -> None:
    url = own_postgres.database()
    with ExitStack() as running:
        with stopped(own_postgres):
            server = running.enter_context(replica(tmp_path / "a", url, upstream.url, **settings()))
            async with client(server) as asking:
                assert await asking.wrong() == "it cannot be reached"
                await check_refused(asking)
                assert upstream.requests == []
                await check_stateless(asking)
                assert await asking.wrong() == "it cannot be reached"
        async with client(server) as asking:
            await check_all_is_well(asking)
        await database_observer.check_whole(url)


@pytest.mark.parametrize(("fault", "deadline_s"), [(stopped, PATIENCE_S), (frozen, 2.0)], ids=["stopped", "frozen"])
async def test_a_database_lost_in_the_midst_of_streams_ends_each_once(
    upstream: ScriptedUpstream, own_postgres: Postgres, tmp_path: Path, fault: Fault, deadline_s: float
) -> None:
    url = own_postgres.database()
    answer = Paused("Hello", after=" world")
    waits_s = deadline_s if fault is frozen else 0.0
    with replica(tmp_path / "a", url, upstream.url, **settings(deadline_s)) as server:
        async with client(server) as asking, AsyncExitStack() as streams:
            before = await asking.create(input="Before")
            upstream.on("/chat/completions", answer)
            stored, stateless = [
                await streams.enter_async_context(asking.stream(input="Hello", store=store)) for store in (True, False)
            ]
            whole = asyncio.create_task(asking.post(input="Whole"))
            for stream in (stored, stateless):
                await stream.read_to("response.output_text.delta")
            await upstream.received(4)
            await wait_until(is_stored, asking, stored.response_id)
            with fault(own_postgres):
                answer.go_on.set()
                began = time.monotonic()
                final, refused = await stored.read_all(), await whole
                assert time.monotonic() - began < waits_s + MARGIN_S
                check_not_stored(final)
                assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_unavailable")
                assert (await stateless.read_all())["type"] == "response.completed"
                upstream.on("/chat/completions", chat_text("Hi", " there"))
                await check_refused(asking, waits_s)
                await check_stateless(asking)
            await check_all_is_well(asking)
            await wait_until(has_ended, asking, stored.response_id)
            assert (await asking.read(stored.response_id))["status"] == "failed"
            assert await asking.read(before["id"]) == before
        await database_observer.check_whole(url)


async def test_a_locked_database_delays_only_requests_that_need_it(
    upstream: ScriptedUpstream, store_url: str, tmp_path: Path
) -> None:
    deadline_s = 5.0
    with replica(tmp_path / "a", store_url, upstream.url, **settings(deadline_s)) as server:
        async with client(server) as asking:
            before = await asking.create(input="Before")
            async with database_observer.held(store_url, "ACCESS EXCLUSIVE"):
                began = time.monotonic()
                answer = Paused("Hello")
                upstream.on("/chat/completions", answer)
                async with asking.stream(input="Hello") as stream:
                    # The first token waits for no database.
                    await stream.read_to("response.output_text.delta")
                    answer.go_on.set()
                    check_not_stored(await stream.read_all())
                assert time.monotonic() - began < deadline_s + MARGIN_S
                assert await asking.wrong() is not None
                upstream.on("/chat/completions", chat_text("Hi", " there"))
                await check_stateless(asking)
            await check_all_is_well(asking)
            assert not await is_stored(asking, stream.response_id)
            assert await asking.read(before["id"]) == before
        await database_observer.check_whole(store_url)
