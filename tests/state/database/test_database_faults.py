"""Database faults: each is bounded in time, is reported, leaves no partial write, and is recovered from."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, func, insert, select
from sqlalchemy.engine import make_url
from sqlalchemy.pool import ConnectionPoolEntry

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.errors import StoreUnavailable
from gateway.state.database.database import Database
from gateway.state.database.migrate import migrate_database
from gateway.state.database.tables import workers
from gateway.state.sql.store import SqlStore
from gateway.state.values import PageRequest
from tests import databases
from tests.databases import Postgres
from tests.polling import wait_until
from tests.state.responses import turn

DEADLINE_S = 30.0
"""For what must succeed, or fails without a wait."""
HANG_S = 2.0
"""The deadline that a test waits for."""
SLACK_S = 20.0
"""The time over the deadline: the driver waits two seconds to close a connection to a silent server, and a busy machine
takes its own."""


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[Postgres]:
    """A server that this file may stop."""
    with databases.postgres() as server:
        yield server


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def connect(url: str) -> SqlStore:
    return SqlStore(StoreSettings(url=url, deadline_s=DEADLINE_S, poll_s=0.05), BackgroundSettings(lease_s=5.0))


async def write(database: Database, name: str, count: int = 1) -> None:
    async with database.write_transaction() as connection:
        names = (f"{name}-{number}-{'x' * 200}" for number in range(count))
        await connection.execute(insert(workers), [{"id": one, "alive_until_us": 0} for one in names])


async def rows(database: Database) -> int:
    async with database.read_transaction() as connection:
        return int(await connection.scalar(select(func.count()).select_from(workers)) or 0)


async def test_a_full_disk_has_a_code_and_leaves_no_partial_write(file: Path) -> None:
    url = databases.sqlite(file)
    await migrate_database(url)
    database = Database(url, deadline_s=DEADLINE_S)
    pages = {"limit": 60}

    # A full disk, as SQLite sees it.
    @event.listens_for(database._engines["write"].sync_engine, "checkout")
    def limit(connection: Any, _entry: ConnectionPoolEntry, _proxy: object) -> None:
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA max_page_count={pages['limit']}")
        cursor.fetchall()
        cursor.close()

    await write(database, "small")
    with pytest.raises(StoreUnavailable):
        await write(database, "large", 2000)
    assert database.degraded_reason == "its disk is full"
    assert await rows(database) == 1
    pages["limit"] = 100_000
    await wait_until(lambda: database.degraded_reason is None)
    await write(database, "again", 2000)
    await database.aclose()


async def test_a_read_only_file_is_read(file: Path) -> None:
    await migrate_database(databases.sqlite(file))
    database = Database(f"sqlite+aiosqlite:///file:{file}?mode=ro&uri=true", deadline_s=DEADLINE_S)
    assert await rows(database) == 0
    with pytest.raises(StoreUnavailable):
        await write(database, "one")
    assert database.degraded_reason == "it is read-only"
    assert await rows(database) == 0
    assert database.degraded_reason == "it is read-only"
    await database.aclose()


@pytest.mark.parametrize(
    ("spoil", "claim"),
    [
        (lambda file: file.mkdir(), "its file cannot be opened"),
        (lambda file: file.write_bytes(b"not a database at all" * 500), "its file is no database"),
    ],
    ids=["a folder", "something else"],
)
async def test_a_file_that_cannot_be_used_is_reported_at_start(
    file: Path, spoil: Callable[[Path], object], claim: str
) -> None:
    spoil(file)
    store = connect(databases.sqlite(file))
    await store.open()
    assert store.degraded_reason == claim
    with pytest.raises(StoreUnavailable):
        await store.responses.load_response("ann", "resp_1")
    await store.aclose()


async def test_a_server_restarted_between_requests_is_not_noticed(own_postgres: Postgres) -> None:
    store = connect(own_postgres.database())
    await store.open()
    kept = await asyncio.gather(*(turn(store, str(number)) for number in range(8)))
    own_postgres.stop()
    own_postgres.start()
    clock = asyncio.get_running_loop().time
    idle_until = clock() + 1.1
    await wait_until(lambda: clock() > idle_until)
    found = await asyncio.gather(*(store.responses.load_response("ann", response["id"]) for response in kept))
    assert [one and one.response for one in found] == kept
    assert store.degraded_reason is None
    await store.aclose()


async def test_a_server_that_is_down_is_unavailable_until_it_is_back(own_postgres: Postgres) -> None:
    store = connect(own_postgres.database())
    await store.open()
    own_postgres.stop()
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await turn(store, "a")
    assert store.degraded_reason in ("it cannot be reached", "it was shut down")
    own_postgres.start()
    await wait_until(lambda: store.degraded_reason is None)
    await turn(store, "b")
    assert len((await store.responses.list_responses("ann", PageRequest())).rows) == 1
    await store.aclose()


async def test_a_server_that_is_down_at_start_is_used_once_it_is_up(own_postgres: Postgres) -> None:
    url = own_postgres.database()
    own_postgres.stop()
    store = connect(url)
    await store.open()
    assert store.degraded_reason == "it cannot be reached"
    own_postgres.start()
    await wait_until(lambda: store.degraded_reason is None)
    await turn(store, "a")
    await store.aclose()


async def test_missing_tables_are_reported(own_postgres: Postgres) -> None:
    url = own_postgres.database(empty=True)
    own_postgres.stop()
    store = connect(url)
    await store.open()
    own_postgres.start()
    with pytest.raises(StoreUnavailable):
        await turn(store, "a")
    assert store.degraded_reason is not None
    assert "responses-gateway migrate" in store.degraded_reason
    await migrate_database(url)
    await wait_until(lambda: store.degraded_reason is None)
    await turn(store, "a")
    await store.aclose()


async def test_a_server_lost_within_a_transaction_leaves_no_partial_write(own_postgres: Postgres) -> None:
    database = Database(own_postgres.database(), deadline_s=DEADLINE_S)

    async def lose() -> None:
        async with database.write_transaction() as connection:
            await connection.execute(insert(workers).values(id="a", alive_until_us=0))
            own_postgres.stop()
            await connection.execute(insert(workers).values(id="b", alive_until_us=0))

    with pytest.raises(StoreUnavailable):
        await lose()
    own_postgres.start()
    await wait_until(lambda: database.degraded_reason is None)
    async with database.read_transaction() as connection:
        assert {"a", "b"}.isdisjoint(await connection.scalars(select(workers.c.id)))
    await database.aclose()


async def test_uses_that_wait_for_each_other_close_the_database_to_nobody(own_postgres: Postgres) -> None:
    database = Database(own_postgres.database(), deadline_s=DEADLINE_S)
    async with database.write_transaction() as connection:
        await connection.execute(insert(workers), [{"id": worker_id, "alive_until_us": 0} for worker_id in "ab"])
    both_hold_one = asyncio.Barrier(2)

    async def lock(owner: str, *ids: str) -> None:
        async with database.write_transaction(owner) as connection:
            for worker_id in ids:
                await connection.execute(select(workers).where(workers.c.id == worker_id).with_for_update())
                if worker_id == ids[0]:
                    await both_hold_one.wait()

    for owners in (("ann", "bob"), ("", ""), ("ann", "")):
        locking = (lock(owners[0], "a", "b"), lock(owners[1], "b", "a"))
        outcomes = await asyncio.gather(*locking, return_exceptions=True)
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "StoreUnavailable"]
        assert database.degraded_reason is None
    await database.aclose()


async def test_a_server_that_hangs_is_given_up_in_time(own_postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(own_postgres.database(), deadline_s=DEADLINE_S)
    await write(database, "before")
    workers_of_server = own_postgres.processes()
    for process in workers_of_server:
        os.kill(process, signal.SIGSTOP)
    try:
        began = asyncio.get_running_loop().time()
        with monkeypatch.context() as hurried:
            hurried.setattr(database, "_deadline_s", HANG_S)
            outcomes = await asyncio.gather(*(write(database, f"{n}") for n in range(5)), return_exceptions=True)
        assert asyncio.get_running_loop().time() - began < HANG_S + SLACK_S
    finally:
        for process in workers_of_server:
            os.kill(process, signal.SIGCONT)
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 5
    await wait_until(lambda: database.degraded_reason is None)
    await write(database, "after")
    await database.aclose()


async def test_more_users_than_connections_wait_for_one(own_postgres: Postgres) -> None:
    database = Database(own_postgres.database(), deadline_s=DEADLINE_S)
    let_go = asyncio.Event()
    holding: list[int] = []

    async def hold(number: int) -> None:
        async with database.read_transaction() as connection:
            await connection.scalar(select(func.count()).select_from(workers))
            holding.append(number)
            await let_go.wait()

    holders = [asyncio.create_task(hold(number)) for number in range(20)]
    await wait_until(lambda: len(holding) == 20)
    waiting = asyncio.create_task(write(database, "waits"))
    let_go.set()
    await asyncio.gather(*holders, waiting)
    await database.aclose()


async def test_an_unknown_database_is_reported(own_postgres: Postgres) -> None:
    store = connect(own_postgres.url("nowhere"))
    await store.open()
    assert store.degraded_reason == "there is no such database"
    await store.aclose()


async def test_a_server_that_only_reads_is_read(own_postgres: Postgres) -> None:
    """For example a standby, or a server that was made read-only because its disk was full."""
    url = own_postgres.database()
    own_postgres.sql(f"ALTER DATABASE {make_url(url).database} SET default_transaction_read_only = on;")
    database = Database(url, deadline_s=DEADLINE_S)
    assert await rows(database) == 0
    with pytest.raises(StoreUnavailable):
        await write(database, "one")
    assert database.degraded_reason == "it is read-only"
    assert await rows(database) == 0
    await database.aclose()
