"""gateway/state/database/database.py on both databases: transactions are atomic, bounded, and survive cancellations."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import StoreUnavailable
from gateway.state.database.database import Database
from gateway.state.database.sqlite_driver import THREAD_NAME
from gateway.state.database.tables import workers
from tests.own_process import find_threads
from tests.polling import PROMPT_S, wait_until

MOMENTS = 100
"""At how many of them one leaves. How many turns of the event loop a transaction takes depends on the machine."""


async def add(connection: AsyncConnection, name: str) -> None:
    await connection.execute(insert(workers).values(id=name, alive_until_us=0))


async def count(database: Database) -> int:
    async with database.read_transaction() as connection:
        return int(await connection.scalar(select(func.count()).select_from(workers)) or 0)


@asynccontextmanager
async def open_database(url: str, *, deadline_s: float) -> AsyncIterator[Database]:
    database = Database(url, deadline_s=deadline_s)
    yield database
    await database.aclose()


async def test_a_failed_transaction_has_no_effect(database: Database) -> None:
    async def half() -> None:
        async with database.write_transaction() as connection:
            await add(connection, "half")
            raise LookupError

    with pytest.raises(LookupError):
        await half()
    assert await count(database) == 0
    assert database.degraded_reason is None


@pytest.mark.parametrize("name", ["twice", "long" * 100, "a\0b"])
async def test_invalid_values_are_not_reported_as_database_failures(database: Database, name: str) -> None:
    async def twice() -> None:
        async with database.write_transaction() as connection:
            await add(connection, name)
            await add(connection, name)

    with pytest.raises(DBAPIError) as refused:
        await twice()
    assert repr(name) not in str(refused.value), "what users said is nothing for logs"
    assert database.degraded_reason is None
    assert await count(database) == 0


async def test_a_caller_cancelled_at_any_moment_leaves_no_partial_write_and_no_connection(database: Database) -> None:
    async def pair(number: int) -> None:
        async with database.write_transaction() as connection:
            await add(connection, f"{number}-a")
            await add(connection, f"{number}-b")

    threads = find_threads(THREAD_NAME)
    steps, number, cancelled = 1.0, 0, 0
    while cancelled < MOMENTS:
        # Each transaction is cancelled some turns of the loop later than the last one, until one ends before that.
        number += 1
        steps = max(steps + 1, steps * 1.05)
        work = asyncio.create_task(pair(number))
        for _ in range(int(steps)):
            await asyncio.sleep(0)
        if work.done():
            steps = 1.0
        else:
            cancelled += 1
        work.cancel()
        await asyncio.wait({work})
    async with database.read_transaction() as connection:
        names = set(await connection.scalars(select(workers.c.id)))
    assert {name[:-2] for name in names if f"{name[:-2]}-a" in names and f"{name[:-2]}-b" in names} == {
        name[:-2] for name in names
    }
    await wait_until(lambda: not database._background_tasks)
    await pair(0)
    assert len(find_threads(THREAD_NAME) - threads) <= 20, "one per connection of the pools"
    assert database.degraded_reason is None


async def test_many_callers_cancelled_at_once_do_not_use_up_the_connections(database: Database) -> None:
    begun: set[str] = set()

    async def endless(name: str) -> None:
        async with database.write_transaction() as connection:
            await add(connection, name)
            begun.add(name)
            await asyncio.Event().wait()

    for attempt in range(3):
        tasks = [asyncio.create_task(endless(f"{attempt}-{number}")) for number in range(50)]
        await wait_until(lambda: bool(begun))
        begun.clear()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    async with asyncio.timeout(PROMPT_S):
        assert await count(database) == 0
        async with database.write_transaction() as connection:
            await add(connection, "after")


async def test_a_commit_is_reported_before_its_connection_is_released(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = asyncio.Event()
    close = AsyncConnection.close

    async def close_late(connection: AsyncConnection) -> None:
        await let_go.wait()
        await close(connection)

    monkeypatch.setattr(AsyncConnection, "close", close_late)
    monkeypatch.setattr("gateway.state.database.database._CLOSE_TIMEOUT_S", 600.0)
    async with asyncio.timeout(60):
        for name in ("one", "two"):
            async with database.write_transaction() as connection:
                await add(connection, name)
    let_go.set()
    assert await count(database) == 2


async def test_a_slow_transaction_is_unavailable_within_the_deadline(store_url: str, database: Database) -> None:
    async with open_database(store_url, deadline_s=0.5) as hurried, database.write_transaction() as holding:
        # Another connection holds what this one wants: the lock of the file, or that of the row.
        await add(holding, "one")
        began = asyncio.get_running_loop().time()
        with pytest.raises(StoreUnavailable):
            async with hurried.write_transaction() as connection:
                await add(connection, "one")
        assert asyncio.get_running_loop().time() - began < 0.5 + PROMPT_S
        assert hurried.degraded_reason in ("it does not answer in time", "another process holds its lock")


async def test_an_unavailable_database_is_found_to_be_back_without_a_request(
    store_url: str, database: Database
) -> None:
    async with open_database(store_url, deadline_s=0.5) as hurried:
        async with database.write_transaction() as holding:
            await add(holding, "one")
            with pytest.raises(StoreUnavailable):
                async with hurried.write_transaction() as connection:
                    await add(connection, "one")
        await wait_until(lambda: hurried.degraded_reason is None)


async def test_a_read_sees_one_moment(database: Database) -> None:
    async with database.read_transaction() as reading:
        before = await reading.scalar(select(func.count()).select_from(workers))
        async with database.write_transaction() as connection:
            await add(connection, "later")
        assert await reading.scalar(select(func.count()).select_from(workers)) == before == 0


async def test_writing_transactions_that_read_first_wait_for_each_other(database: Database) -> None:
    async with database.write_transaction() as connection:
        await add(connection, "counter")

    async def raise_by_one(_: int) -> None:
        async with database.write_transaction() as connection:
            await database.acquire_advisory_lock(connection, "counter")
            value = await connection.scalar(select(workers.c.alive_until_us))
            assert value is not None
            await connection.execute(update(workers).values(alive_until_us=value + 1))

    await asyncio.gather(*map(raise_by_one, range(30)))
    async with database.read_transaction() as connection:
        assert await connection.scalar(select(workers.c.alive_until_us)) == 30


async def test_the_clock_of_the_database_runs_in_microseconds(database: Database) -> None:
    async with database.read_transaction() as connection:
        now = await connection.scalar(select(database.now_us_expression()))
    assert now is not None
    assert 1_577_836_800_000_000 < now < 4_102_444_800_000_000  # between 2020 and 2100


async def test_closing_waits_for_running_transactions(store_url: str, database: Database) -> None:
    closing = Database(store_url, deadline_s=5.0)
    async with closing.write_transaction() as connection:
        await add(connection, "written")
    await closing.aclose()
    assert await count(database) == 1
