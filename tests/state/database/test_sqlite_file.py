"""A response on SQLite is orphaned only if no other process can be running it."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.sql.store import SqlStore
from gateway.state.values import ACTIVE_STATUSES
from tests import databases
from tests.state.conftest import DEADLINE_S
from tests.state.responses import message_item, new, response

OTHER = """
import asyncio, sys
from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.sql.store import SqlStore
from tests.state.responses import new, response, message_item

async def main():
    store = SqlStore(StoreSettings(url=sys.argv[1], deadline_s=30.0), BackgroundSettings(lease_s=600.0))
    await store.open()
    begun = response()
    await store.responses.create_response(new(begun, message_item("hello"), worker="other"))
    job = response(background=True, status="queued")
    await store.responses.create_response(new(job, message_item("hello"), worker="other", job_request={"body": 1}))
    print(begun["id"], job["id"], flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return databases.sqlite(tmp_path / "state.db")


@pytest.fixture
def other(url: str) -> Iterator[Callable[[], "tuple[subprocess.Popen[str], str, str]"]]:
    """Another process that runs a response and a job on the file, with leases that never run out."""
    started: list[subprocess.Popen[str]] = []

    def start() -> "tuple[subprocess.Popen[str], str, str]":
        process = subprocess.Popen(
            [sys.executable, "-c", OTHER, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        started.append(process)
        assert process.stdout is not None
        running, job = process.stdout.readline().split()
        return process, running, job

    yield start
    for process in started:
        process.kill()
        process.communicate()


def connect(url: str) -> SqlStore:
    return SqlStore(StoreSettings(url=url, deadline_s=DEADLINE_S), BackgroundSettings())


async def status(store: SqlStore, response_id: str) -> str:
    found = await store.responses.load_response("ann", response_id)
    assert found is not None
    return str(found.response["status"])


async def test_responses_of_a_running_process_are_left_alone(
    url: str, other: Callable[[], "tuple[subprocess.Popen[str], str, str]"]
) -> None:
    _, running, job = other()
    store = connect(url)
    await store.open()
    assert await store.jobs.fail_orphaned_responses() == 0
    assert await status(store, running) in ACTIVE_STATUSES
    assert not await store.jobs.claim_jobs("me", 10)
    assert await status(store, job) in ACTIVE_STATUSES
    await store.aclose()


async def test_responses_of_a_killed_process_are_orphaned_at_once(
    url: str, other: Callable[[], "tuple[subprocess.Popen[str], str, str]"]
) -> None:
    process, running, job = other()
    process.kill()
    process.wait()
    store = connect(url)
    await store.open()
    found = await store.responses.load_response("ann", running)
    assert found is not None
    assert found.response["status"] == "failed"
    assert found.response["error"]["code"] == "interrupted"
    assert [claimed.response_id for claimed in await store.jobs.claim_jobs("me", 10)] == [job]
    await store.aclose()


async def test_processes_that_start_together_do_not_orphan_each_others_responses(url: str) -> None:
    stores = [connect(url) for _ in range(4)]
    begun = [response() for _ in stores]

    async def start(number: int) -> None:
        await stores[number].open()
        await stores[number].responses.create_response(new(begun[number], message_item("a"), worker=f"worker-{number}"))

    await asyncio.gather(*map(start, range(4)))
    assert [await status(stores[0], one["id"]) for one in begun] == ["in_progress"] * 4
    for store in stores:
        await store.aclose()
