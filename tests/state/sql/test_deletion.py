"""gateway/state/sql/deletion.py: a response with a long event log is deleted in small transactions."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import func, insert, select

from gateway.state.database.database import Database
from gateway.state.database.tables import events, workers
from gateway.state.records.files import FileDeleter
from gateway.state.sql.retention import SqlRetention
from gateway.state.sql.store import SqlStore
from gateway.state.values import LeaseLost, LogEntry
from tests.state.sql.test_lineage import queries_that_contain
from tests.state.sql.test_retention import LATER, OTHER, OWNER, WORKER, begin, finish

EVENTS = 10_000
LONGEST_WAIT_S = 5.0


@pytest.fixture
def tables(store: SqlStore) -> Database:
    return store._database


async def store_long_log(store: SqlStore, response_id: str, owner: str = OWNER) -> None:
    await begin(store, response_id, owner, logged=True, job_request={})
    entries = (LogEntry(number, number, b"x") for number in range(1, EVENTS))
    await asyncio.gather(*(store.event_log.append_log_entry(owner, response_id, one, worker=WORKER) for one in entries))


async def measure_writes(database: Database, running: asyncio.Task[object]) -> list[float]:
    """Returns the times that another owner's writes take until the task has ended."""
    waits: list[float] = []
    while not running.done():
        started = time.monotonic()
        async with database.write_transaction("cid") as connection:
            await connection.execute(insert(workers).values(id=f"{len(waits)}", alive_until_us=0))
        waits.append(time.monotonic() - started)
    return waits


async def delete_response(store: SqlStore) -> object:
    return await store.responses.delete_response(OWNER, "r")


async def erase_owner(store: SqlStore) -> object:
    return await store.owner_data.erase_owner(OWNER)


async def delete_expired(store: SqlStore) -> object:
    retention = SqlRetention(store._database, FileDeleter(), events_hours=1, idempotency_hours=1)
    return await retention.delete_expired(before=LATER)


@pytest.mark.parametrize("remove", [delete_response, erase_owner, delete_expired])
async def test_a_long_log_is_deleted_while_others_write(
    store: SqlStore,
    tables: Database,
    remove: Callable[[SqlStore], Awaitable[object]],
    record_property: Callable[[str, object], None],
) -> None:
    await store_long_log(store, "r")
    await finish(store, "r")
    await begin(store, "r", OTHER, logged=True, job_request={})
    with queries_that_contain("DELETE FROM events") as deletions:
        removing = asyncio.ensure_future(remove(store))
        waits = await measure_writes(tables, removing)
    assert await removing == 1
    assert len(deletions) > 4
    record_property("longest_wait_ms", round(max(waits) * 1000))
    assert max(waits) < LONGEST_WAIT_S
    async with tables.read_transaction() as connection:
        left = await connection.execute(select(events.c.owner, func.count()).group_by(events.c.owner))
        assert [tuple(row) for row in left] == [(OTHER, 1)]
    assert (await store.owner_data.measure_owner(OWNER)).log_bytes == 0


async def test_a_running_response_is_ended_before_its_long_log_is_deleted(
    store: SqlStore, tables: Database, record_property: Callable[[str, object], None]
) -> None:
    await store_long_log(store, "r")
    with queries_that_contain("DELETE FROM events") as deletions:
        removing = asyncio.ensure_future(store.responses.delete_response(OWNER, "r"))
        waits = await measure_writes(tables, removing)
    assert await removing
    assert len(deletions) > 4
    record_property("longest_wait_ms", round(max(waits) * 1000))
    assert max(waits) < LONGEST_WAIT_S
    with pytest.raises(LeaseLost):
        await store.event_log.append_log_entry(OWNER, "r", LogEntry(EVENTS, EVENTS, b"x"), worker=WORKER)
