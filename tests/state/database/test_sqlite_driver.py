"""gateway/state/database/sqlite_driver.py: transactions begin with their first statement, and some are one trip."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiosqlite
import pytest
from sqlalchemy import delete, insert, select

from gateway.errors import StoreUnavailable
from gateway.state.database.database import Database
from gateway.state.database.engines import get_driver
from gateway.state.database.migrate import migrate_database
from gateway.state.database.sqlite_driver import THREAD_NAME, OneTripConnection
from gateway.state.database.sqlite_statements import CompiledStatement
from gateway.state.database.tables import items, workers
from gateway.state.database.write_queue import MAX_GROUP_BYTES, ROW_BYTES
from gateway.state.sql.statements import INSERT_ITEMS
from tests import databases
from tests.own_process import find_threads
from tests.polling import TIMEOUT_S, wait_until
from tests.state.conftest import DEADLINE_S

ADD = CompiledStatement(insert(workers), "id", "alive_until_us")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
async def database(file: Path) -> AsyncIterator[Database]:
    url = databases.sqlite(file)
    await migrate_database(url)
    opened = Database(url, deadline_s=DEADLINE_S)
    yield opened
    await opened.aclose()


def adding(name: str) -> Callable[[sqlite3.Connection], str]:
    def add(connection: sqlite3.Connection) -> str:
        connection.execute(ADD.text, ADD.bind_parameters({"id": name, "alive_until_us": 0}))
        return name

    return add


async def names(database: Database) -> set[str]:
    async with database.read_transaction() as connection:
        return set(await connection.scalars(select(workers.c.id)))


async def test_a_transaction_in_one_trip_is_committed_and_reported(database: Database) -> None:
    assert await database.run_transaction(adding("one")) == "one"
    assert await names(database) == {"one"}


async def test_a_failed_transaction_in_one_trip_has_no_effect_and_holds_no_lock(database: Database) -> None:
    def half(connection: sqlite3.Connection) -> None:
        adding("half")(connection)
        raise LookupError

    async with database.write_transaction() as connection:
        driver = get_driver(connection)
    for size in (ROW_BYTES, MAX_GROUP_BYTES + 1):
        with pytest.raises(LookupError):
            await database.run_transaction(half, size=size)
        assert not driver.in_transaction
    assert database.degraded_reason is None
    assert await database.run_transaction(adding("whole")) == "whole"
    assert await names(database) == {"whole"}


async def test_invalid_values_in_one_trip_are_not_reported_as_database_failures(database: Database) -> None:
    def twice(connection: sqlite3.Connection) -> None:
        adding("twice")(connection)
        adding("twice")(connection)

    with pytest.raises(sqlite3.IntegrityError) as refused:
        await database.run_transaction(twice)
    assert "twice" not in str(refused.value), "what users said is nothing for logs"
    assert database.degraded_reason is None
    assert await names(database) == set()


async def test_a_caller_cancelled_within_one_trip_has_no_effect(database: Database) -> None:
    begun, left = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> None:
        adding("slow")(connection)
        begun.set()
        left.wait()

    work = asyncio.create_task(database.run_transaction(slow, size=MAX_GROUP_BYTES + 1))
    await asyncio.to_thread(begun.wait)
    work.cancel()
    await asyncio.wait({work})
    left.set()
    assert await database.run_transaction(adding("after")) == "after"
    assert await names(database) == {"after"}


async def test_a_slow_transaction_in_one_trip_is_unavailable(file: Path, database: Database) -> None:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        await database.run_transaction(adding("one"))
    assert database.degraded_reason in ("it does not answer in time", "another process holds its lock")
    other.rollback()
    other.close()
    await wait_until(lambda: database.degraded_reason is None)
    assert "one" not in await names(database)


@pytest.mark.parametrize("how", ["at once", "by statements"])
async def test_a_caller_cancelled_while_another_process_writes_blocks_nobody(file: Path, how: str) -> None:
    async def add(database: Database) -> None:
        if how == "at once":
            await database.run_transaction(adding("one"))
        else:
            async with database.write_transaction() as connection:
                await connection.execute(insert(workers).values(id="one", alive_until_us=0))

    url = databases.sqlite(file)
    await migrate_database(url)
    database = Database(url, deadline_s=60.0)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writer = database._sqlite_writer
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(3):
        work = asyncio.create_task(add(database))
        await wait_until(lambda: writer.connection is not None and get_driver(writer.connection).may_be_in_transaction)
        work.cancel()
        await asyncio.wait({work})
        assert await names(database) == set()
    assert loop.time() - began < 30, "leaving or reading waited for the lock"
    other.rollback()
    other.close()
    await database.run_transaction(adding("after"))
    assert await names(database) == {"after"}
    await database.aclose()


def test_the_result_of_a_call_whose_event_loop_has_ended_is_dropped() -> None:
    connection = OneTripConnection(lambda: sqlite3.connect(":memory:", check_same_thread=False))
    begun, released = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        released.wait()

    async def leave_a_call() -> None:
        await connection
        call = asyncio.ensure_future(connection.run_blocking(work))
        assert await asyncio.to_thread(begun.wait, TIMEOUT_S)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(leave_a_call())
    released.set()
    connection.stop()
    connection._thread.join(10)
    assert not connection._thread.is_alive()
    with pytest.raises(ValueError, match="no active connection"):
        connection.raw_connection.close()  # it was closed by its thread


async def test_an_empty_transaction_holds_no_lock(database: Database) -> None:
    async with database.write_transaction() as connection:
        driver = get_driver(connection)
    assert not driver.in_transaction
    await database.run_transaction(adding("one"))


async def test_a_closed_database_is_not_reopened(file: Path) -> None:
    url = databases.sqlite(file)
    await migrate_database(url)
    database = Database(url, deadline_s=60)
    before = find_threads(THREAD_NAME)
    writing = [asyncio.create_task(database.run_transaction(adding(str(number)))) for number in range(3)]
    await asyncio.sleep(0)
    closing = asyncio.create_task(database.aclose())
    await asyncio.sleep(0)
    late = asyncio.create_task(database.run_transaction(adding("late")))
    assert await asyncio.gather(*writing) == ["0", "1", "2"]
    await closing
    with pytest.raises(StoreUnavailable):
        await late
    await wait_until(lambda: find_threads(THREAD_NAME) <= before)


async def test_a_failed_commit_is_rolled_back_before_its_connection_is_reused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    drivers = []

    async def lose() -> None:
        async with database.write_transaction() as connection:
            drivers.append(get_driver(connection))
            await connection.execute(insert(workers).values(id="lost", alive_until_us=0))

    async def fails(_connection: aiosqlite.Connection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as broken:
        broken.setattr(aiosqlite.Connection, "commit", fails)
        with pytest.raises(StoreUnavailable):
            await lose()
    assert database._health._recovery is not None
    database._health._recovery.cancel()  # it would heal it
    for _ in range(10):
        assert await database.run_transaction(adding("kept")) == "kept"
        assert "lost" not in await names(database)
        async with database.write_transaction() as connection:
            await connection.execute(delete(workers))


async def test_a_statement_is_executed_as_sqlalchemy_does(database: Database) -> None:
    row = {"owner": "ann", "response_id": "r", "place": 1, "position": 0, "id": "msg_1", "body": '{"a":"ü"}'}
    prepared = CompiledStatement(INSERT_ITEMS, *row)
    async with database.write_transaction() as connection:
        await connection.execute(INSERT_ITEMS, [row | {"owner": "bob"}])
    await database.run_transaction(
        lambda connection: connection.execute(prepared.text, prepared.bind_parameters(row)).rowcount
    )
    async with database.read_transaction() as connection:
        found = (await connection.execute(select(items).order_by(items.c.owner))).mappings().all()
    assert [dict(one) for one in found] == [row, row | {"owner": "bob"}]
