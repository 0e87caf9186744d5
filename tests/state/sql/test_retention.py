"""Expired objects are deleted, and needed ones stay."""

import asyncio
import time

import pytest
from sqlalchemy import func, insert, select, update

from gateway.state.database.database import Database
from gateway.state.database.tables import conversations, events, items, jobs, metadata, responses, workers
from gateway.state.records.files import FileDeleter
from gateway.state.sql.retention import SqlRetention
from gateway.state.sql.store import SqlStore
from gateway.state.values import LogEntry, NewResponse
from translation.representation.json_types import Item, Json

OWNER, OTHER, WORKER = "ann", "bob", "w1"
LATER = int(time.time()) + 24 * 60 * 60
"""Everything the tests make is older than this."""


@pytest.fixture
def retention(store: SqlStore) -> SqlRetention:
    return SqlRetention(store._database, FileDeleter(), events_hours=1, idempotency_hours=1)


@pytest.fixture
def tables(store: SqlStore) -> Database:
    return store._database


def message(item_id: str) -> Item:
    return {"type": "message", "id": item_id, "role": "user", "content": []}


def begun(response_id: str, status: str = "in_progress") -> Json:
    return {"id": response_id, "object": "response", "status": status, "output": [], "model": "m", "usage": None}


async def begin(store: SqlStore, response_id: str, owner: str = OWNER, **more) -> None:
    new = NewResponse(
        owner=owner, response=begun(response_id), input_items=[message(f"in_{response_id}")], worker=WORKER, **more
    )
    await store.responses.create_response(new)


async def finish(store: SqlStore, response_id: str, owner: str = OWNER) -> None:
    ended = begun(response_id, "completed") | {"output": [message(f"out_{response_id}")]}
    await store.responses.finish_response(owner, ended, worker=WORKER)


async def store_response(
    store: SqlStore, response_id: str, parent_id: str | None = None, owner: str = OWNER, **more
) -> None:
    await begin(store, response_id, owner, parent_id=parent_id, **more)
    await finish(store, response_id, owner)


async def converse(store: SqlStore, conversation_id: str, owner: str = OWNER) -> None:
    conversation = {"id": conversation_id, "object": "conversation", "created_at": 1, "metadata": {}}
    await store.conversations.create_conversation(owner, conversation, [message(f"in_{conversation_id}")])


async def complete(store: SqlStore, completion_id: str, owner: str = OWNER) -> None:
    completion = {"id": completion_id, "object": "chat.completion", "model": "m", "metadata": {"a": "b"}}
    await store.completions.store_completion(owner, completion, [{"id": "0", "role": "user", "content": "hi"}])


async def age(tables: Database, response_id: str, *, hours: float) -> None:
    async with tables.write_transaction() as connection:
        await connection.execute(
            update(responses)
            .where(responses.c.id == response_id)
            .values(created_us=int((time.time() - hours * 3600) * 1_000_000))
        )


async def count(tables: Database, table, owner: str = OWNER) -> int:
    async with tables.read_transaction() as connection:
        return (await connection.scalar(select(func.count()).select_from(table).where(table.c.owner == owner))) or 0


async def test_expired_objects_are_deleted_and_new_ones_stay(store, retention, tables):
    for number in range(3):
        await store_response(store, f"old_{number}")
        await age(tables, f"old_{number}", hours=2)
    await store_response(store, "new")
    assert await retention.delete_expired(before=int(time.time()) - 3600) == 3
    assert await store.responses.load_response(OWNER, "old_1") is None
    assert (await store.responses.load_response(OWNER, "new")).response["status"] == "completed"
    assert await count(tables, items) == 2


async def test_expired_objects_are_deleted_in_many_small_steps(store, retention, tables):
    for number in range(120):
        await store_response(store, f"r{number}", f"r{number - 1}" if number % 10 else None)
    await converse(store, "conv_1")
    await complete(store, "c1")
    assert await retention.delete_expired(before=LATER) == 122
    for table in metadata.sorted_tables:
        if "owner" in table.c:
            assert await count(tables, table) == 0, table.name


async def test_history_of_new_responses_stays_as_long_as_they_need_it(store, retention, tables):
    for place, name in enumerate(("a", "b", "c")):
        await store_response(store, name, ("a", "b")[place - 1] if place else None)
    for name in ("a", "b"):
        await age(tables, name, hours=2)
    assert await retention.delete_expired(before=int(time.time()) - 3600) == 2
    assert await store.responses.load_response(OWNER, "b") is None
    history = await store.history.load_history(OWNER, "c")
    assert [item["id"] for item in history.items] == ["in_a", "out_a", "in_b", "out_b", "in_c", "out_c"]
    assert await retention.delete_expired(before=int(time.time()) - 3600) == 0
    assert await retention.delete_expired(before=LATER) == 1
    assert await count(tables, responses) == 0


async def test_running_responses_do_not_expire(store, retention):
    await begin(store, "r", job_request={"body": 1})
    assert await retention.delete_expired(before=LATER) == 0
    await finish(store, "r")
    assert await retention.delete_expired(before=LATER) == 1


async def test_a_conversation_is_as_old_as_its_last_item(store, retention, tables):
    for name in ("used", "unused"):
        await converse(store, name)
    async with tables.write_transaction() as connection:
        await connection.execute(update(conversations).values(created_us=1, used_us=1))
    await store.conversations.add_conversation_items(OWNER, "used", [message("later")])
    assert await retention.delete_expired(before=int(time.time()) - 3600) == 1
    assert len(await store.history.load_conversation_history(OWNER, "used")) == 2


async def test_replicas_that_delete_expired_rows_at_once_count_each_row_once(store, retention):
    for number in range(130):
        await store_response(
            store, f"r{number}", f"r{number - 1}" if number % 7 else None, OWNER if number % 14 < 7 else OTHER
        )
    counts = await asyncio.gather(*[retention.delete_expired(before=LATER) for _ in range(3)])
    assert sum(counts) == 130


async def test_logs_of_finished_responses_expire(store, retention, tables):
    for name in ("old", "running", "new"):
        await begin(store, name, logged=True)
        await store.event_log.append_log_entry(OWNER, name, LogEntry(1, 2, b"frames"), worker=WORKER)
    await finish(store, "old")
    await finish(store, "new")
    for name in ("old", "running"):
        await age(tables, name, hours=2)
    assert await retention.delete_expired(before=0) == 0
    async with tables.read_transaction() as connection:
        left = set(await connection.scalars(select(events.c.response_id)))
    assert left == {"running", "new"}
    assert (await store.responses.load_response(OWNER, "old")).response["status"] == "completed"


async def test_leftovers_of_dead_replicas_are_deleted(store, retention, tables):
    async with tables.write_transaction() as connection:
        row = {"owner": OWNER, "response_id": "gone", "created_us": 1, "request": "{}", "attempt": 0}
        await connection.execute(insert(jobs).values(row))
        await connection.execute(insert(workers).values([{"id": "dead", "alive_until_us": 1}]))
    await begin(store, "r", job_request={})
    await store.jobs.renew_lease(WORKER)
    await retention.delete_expired(before=0)
    async with tables.read_transaction() as connection:
        assert list(await connection.scalars(select(jobs.c.response_id))) == ["r"]
        assert "dead" not in set(await connection.scalars(select(workers.c.id)))
