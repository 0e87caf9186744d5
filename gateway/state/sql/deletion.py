"""Deletes rows in SQL: responses for their owner at once, from the tables once no other response needs them as history,
and objects that consist of parts."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import Column, ColumnElement, Table, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.database.database import Database
from gateway.state.database.pacing import PacedTransactions
from gateway.state.database.tables import events, items, jobs, responses, tool_calls
from gateway.state.records.approvals import delete_approvals_of
from gateway.state.sql.lineage import select_unreferenced
from gateway.state.values import ACTIVE_STATUSES

RowKeys: TypeAlias = Sequence[tuple[str, str]]
"""(owner, id) of rows."""

BATCH_ROWS: Final = 50
"""The most rows that one transaction deletes."""

_IDS_PER_STATEMENT: Final = 1000

_UNDIVIDED_EVENTS: Final = 2000
"""How many events of a log are deleted together with its response. It takes a few milliseconds."""


async def delete_in_batches(
    database: Database,
    table: Table,
    *conditions: ColumnElement[bool],
    delete_rows: Callable[[AsyncConnection, RowKeys], Awaitable[int]],
    order: ColumnElement[Any] | None = None,
) -> int:
    """Deletes rows in small transactions until none match the conditions. Returns how many were deleted.

    `delete_rows` deletes the rows with these keys, and returns how many of them count. Rows are selected in the order
    of their creation, unless `order` is another column.
    """
    deleted_count = 0
    transactions = PacedTransactions(database, most_rows=BATCH_ROWS)
    while True:
        limit = transactions.rows
        async with transactions.open() as connection:
            # Concurrent replicas take turns, so that they never wait for each other's rows.
            await database.acquire_advisory_lock(connection, "retention")
            result = await connection.execute(
                select(table.c.owner, table.c.id)
                .where(*conditions)
                .order_by(table.c.created_us if order is None else order, table.c.id)
                .limit(limit)
            )
            keys = [(row.owner, row.id) for row in result]
            deleted_count += await delete_rows(connection, keys)
        if len(keys) < limit:
            return deleted_count


async def shorten_logs(database: Database, *conditions: ColumnElement[bool], turn: str) -> None:
    """Deletes most of the long event logs of ended responses, before one transaction deletes a response as a whole.

    `conditions` select the responses, and writers take turns as `turn`. A log is deleted from its end, in small
    transactions: so its replay does not miss events, but fails because the response was deleted.
    """
    is_late = (
        events.c.owner == responses.c.owner,
        events.c.response_id == responses.c.id,
        events.c.first >= _UNDIVIDED_EVENTS,
    )
    long_logs = select(responses.c.owner, responses.c.id).where(
        *conditions,
        responses.c.logged,
        responses.c.status.not_in(ACTIVE_STATUSES),
        select(events.c.first).where(*is_late).exists(),
    )
    while True:
        async with database.read_transaction(turn) as connection:
            keys = (await connection.execute(long_logs.limit(BATCH_ROWS))).all()
        for owner, response_id in keys:
            await _shorten_log(database, owner, response_id, turn)
        if len(keys) < BATCH_ROWS:
            return


async def _shorten_log(database: Database, owner: str, response_id: str, turn: str) -> None:
    transactions = PacedTransactions(database, most_rows=_UNDIVIDED_EVENTS)
    is_late = (events.c.owner == owner, events.c.response_id == response_id, events.c.first >= _UNDIVIDED_EVENTS)
    remaining = select(events.c.first).where(*is_late).order_by(events.c.first.desc()).limit(1)
    start: int | None = 0
    while start is not None:
        query = remaining.offset(transactions.rows - 1)
        async with transactions.open(turn) as connection:
            start = await connection.scalar(query)
            await connection.execute(delete(events).where(*is_late, events.c.first >= (start or 0)))


async def delete_response_rows(connection: AsyncConnection, database: Database, owner: str, response_id: str) -> bool:
    """Deletes a response within a transaction. Returns whether it existed.

    If later responses build on it, its row and its items remain, unreadable, until the last of those is deleted.
    """
    await database.acquire_advisory_lock(connection, owner)
    marked = await connection.execute(
        update(responses)
        .where(responses.c.owner == owner, responses.c.id == response_id, ~responses.c.deleted)
        .values(deleted=True, worker=None, body="{}")
        .returning(responses.c.status)
    )
    status = marked.scalar_one_or_none()
    if status is None:
        return False
    if status in ACTIVE_STATUSES:
        await connection.execute(
            update(responses)
            .where(responses.c.owner == owner, responses.c.id == response_id)
            .values(status="cancelled")
        )
    for table in (events, jobs, tool_calls):
        await connection.execute(delete(table).where(table.c.owner == owner, table.c.response_id == response_id))
    await delete_approvals_of(connection, owner, [response_id])
    child = select(responses.c.id).where(responses.c.owner == owner, responses.c.parent_id == response_id).limit(1)
    if (await connection.execute(child)).one_or_none() is None:
        unreferenced_ids = (
            (await connection.execute(select(select_unreferenced(owner, response_id).c.id))).scalars().all()
        )
        for start in range(0, len(unreferenced_ids), _IDS_PER_STATEMENT):
            id_batch = unreferenced_ids[start : start + _IDS_PER_STATEMENT]
            await connection.execute(delete(items).where(items.c.owner == owner, items.c.response_id.in_(id_batch)))
            await connection.execute(delete(responses).where(responses.c.owner == owner, responses.c.id.in_(id_batch)))
    return True


async def delete_with_parts(connection: AsyncConnection, objects: Table, part_of: Column[Any], keys: RowKeys) -> int:
    """Deletes the objects with these keys (owner, id) and their parts, within a transaction.

    `part_of` is the column of the parts' table that names the object. Returns how many objects existed.
    """
    parts = part_of.table
    deleted_count = 0
    for owner, object_id in keys:
        # The object first: a transaction that adds a part waits for this row and then finds none.
        result = await connection.execute(delete(objects).where(objects.c.owner == owner, objects.c.id == object_id))
        await connection.execute(delete(parts).where(parts.c.owner == owner, part_of == object_id))
        deleted_count += result.rowcount
    return deleted_count
