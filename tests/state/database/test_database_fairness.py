"""One owner's slow use of the database is neither an outage for others nor their wait."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest
from sqlalchemy import func, insert, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection
from structlog.testing import capture_logs

from gateway.errors import StoreUnavailable
from gateway.state.database import health
from gateway.state.database.database import Database
from gateway.state.database.engines import get_driver
from gateway.state.database.tables import workers

DEADLINE_S = 6.0
LONGEST_WAIT_S = 5.0
"""What another owner may wait for a short use: half of what it would wait for a slow one. It is some milliseconds
on a machine that has nothing else to do."""


@pytest.fixture
async def database(store_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    monkeypatch.setattr(health, "_EXAMINATION_S", 60.0)  # a busy machine's disk is no outage
    opened = Database(store_url, deadline_s=DEADLINE_S)
    await opened.prepare()
    yield opened
    await opened.aclose()


async def run_slow_query(connection: AsyncConnection, *, is_sqlite: bool) -> None:
    """Runs a query that takes longer than the deadline: half a minute, if nothing interrupts it.

    It waits, and takes no time of a processor: what a short use of the database waits for a processor is no matter of
    owners.
    """
    if not is_sqlite:
        await connection.execute(select(func.count()).select_from(func.pg_sleep(30)))
        return
    driver = get_driver(connection)
    await driver.create_function("pause", 1, pause)
    numbers = select(literal(1).label("number")).cte("numbers", recursive=True)
    numbers = numbers.union_all(select(numbers.c.number + func.pause(1)).where(numbers.c.number < 1_000))
    await connection.execute(select(func.count()).select_from(numbers))


def pause(number: int) -> int:
    time.sleep(0.03)
    return number


async def read_slowly(database: Database, owner: str) -> None:
    with pytest.raises(StoreUnavailable):
        async with database.read_transaction(owner) as connection:
            await run_slow_query(connection, is_sqlite=database.is_sqlite)


async def write_slowly(database: Database, owner: str) -> None:
    with pytest.raises(StoreUnavailable):
        async with database.write_transaction(owner) as connection:
            await run_slow_query(connection, is_sqlite=database.is_sqlite)


async def measure_waits(database: Database, running: list[asyncio.Task[None]]) -> list[float]:
    """Returns the times that another owner's reads and writes take, until the tasks have ended."""
    waits: list[float] = []
    while not all(task.done() for task in running):
        started = time.monotonic()
        async with database.read_transaction("bob") as connection:
            await connection.scalar(select(func.count()).select_from(workers))
        waits.append(time.monotonic() - started)
        assert database.degraded_reason is None
        await asyncio.sleep(0.01)
    return waits


async def test_slow_reads_of_one_owner_delay_no_other_and_are_no_outage(
    database: Database, record_property: Callable[[str, object], None]
) -> None:
    running = [asyncio.create_task(read_slowly(database, "ann")) for _ in range(40)]
    waits = await measure_waits(database, running)
    record_property("longest_wait_ms", round(max(waits) * 1000))
    assert max(waits) < LONGEST_WAIT_S
    assert len(waits) > 10
    await asyncio.gather(*running)


async def test_a_slow_write_of_one_owner_is_no_outage(database: Database) -> None:
    running = asyncio.create_task(write_slowly(database, "ann"))
    with capture_logs() as lines:
        await measure_waits(database, [running])
        # On SQLite it waits for the slow one, which ends at its deadline.
        async with database.write_transaction("bob") as connection:
            await connection.execute(insert(workers).values(id="bob", alive_until_us=0))
    await running
    assert "store_unavailable" not in [line["event"] for line in lines]
    assert database.degraded_reason is None


async def test_a_read_that_took_too_long_stops(database: Database) -> None:
    """Otherwise it would occupy its connection, and a core of the machine."""
    await read_slowly(database, "ann")
    started = time.monotonic()
    async with asyncio.timeout(LONGEST_WAIT_S):
        await database.aclose()  # waits for connections that close
    assert time.monotonic() - started < LONGEST_WAIT_S
