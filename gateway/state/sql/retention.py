"""Deletes expired objects, and deletes or exports all objects of an owner, in SQL. Each transaction is small."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import orjson
from sqlalchemy import ColumnElement, Row, Select, Table, and_, bindparam, delete, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.database.database import Database
from gateway.state.database.pacing import PacedTransactions
from gateway.state.database.tables import (
    INPUT_PLACE,
    OUTPUT_PLACE,
    approvals,
    completions,
    conversation_items,
    conversations,
    events,
    idempotency_keys,
    items,
    jobs,
    responses,
    tool_calls,
    workers,
)
from gateway.state.records.approvals import compute_expiry_cutoff_us, delete_approvals_of
from gateway.state.records.idempotency_keys import delete_keys
from gateway.state.records.open_calls import delete_open_calls, settle_abandoned_calls
from gateway.state.row_values import read_clock_us
from gateway.state.sql.completions import delete_completions
from gateway.state.sql.conversations import delete_conversations
from gateway.state.sql.deletion import delete_response_rows
from gateway.state.sql.json_columns import parse_json, parse_with_output
from gateway.state.values import ACTIVE_STATUSES
from translation.representation.json_types import Json

RowKeys: TypeAlias = Sequence[tuple[str, str]]
"""(owner, id) of rows."""

SelectedRows: TypeAlias = Sequence[Row[Any]]
RowExporter: TypeAlias = Callable[[AsyncConnection, str, SelectedRows], Awaitable[list[Json]]]

_BATCH_ROWS: Final = 50
"""The most rows per transaction, and the rows of one page of an export."""

_SELECTED_KEYS: Final = 1000
"""Keys that are selected at once, without a lock, to be deleted in several transactions."""

_DEAD_WORKER_TTL_US: Final = 3600 * 1_000_000
"""The time that the row of a replica remains after its lease has expired. It only helps operators who read the
tables."""

_HOUR_US: Final = 3600 * 1_000_000


class SqlRetention:
    """Implements `Retention` over one database.

    The event log of a finished response remains for `events_hours`, and the key of a request for `idempotency_hours`,
    both counted from the response's creation.
    """

    def __init__(self, database: Database, *, events_hours: float, idempotency_hours: float) -> None:
        self._database = database
        self._log_ttl_us = int(events_hours * _HOUR_US)
        self._key_ttl_us = int(idempotency_hours * _HOUR_US)

    async def delete_expired(self, *, before: int) -> int:
        """Deletes expired objects, event logs of finished responses that have expired, and rows of dead replicas."""
        cutoff_us = before * 1_000_000
        deleted_count = await self._delete_in_batches(
            responses,
            responses.c.created_us < cutoff_us,
            ~responses.c.deleted,
            responses.c.status.not_in(ACTIVE_STATUSES),
            delete_rows=self._delete_expired_responses,
        )
        deleted_count += await self._delete_in_batches(
            conversations,
            conversations.c.used_us < cutoff_us,
            delete_rows=delete_conversations,
            order=conversations.c.used_us,
        )
        deleted_count += await self._delete_in_batches(
            completions, completions.c.created_us < cutoff_us, delete_rows=delete_completions
        )
        await self._delete_in_batches(
            approvals,
            approvals.c.expires_us < compute_expiry_cutoff_us(),
            delete_rows=_delete_approvals,
            order=approvals.c.expires_us,
        )
        await settle_abandoned_calls(self._database)
        await delete_open_calls(self._database, tool_calls.c.changed_us < cutoff_us)
        await self._delete_in_batches(
            idempotency_keys,
            idempotency_keys.c.created_us < read_clock_us() - self._key_ttl_us,
            delete_rows=delete_keys,
        )
        await self._delete_expired_logs()
        await self._delete_orphaned_rows()
        return deleted_count

    async def erase_owner(self, owner: str) -> int:
        # Children are deleted before their parents: if this is interrupted, every remaining history is complete.
        deleted_count = await self._delete_in_batches(
            responses,
            responses.c.owner == owner,
            delete_rows=self._erase_responses,
            order=responses.c.created_us.desc(),
        )
        deleted_count += await self._delete_in_batches(
            conversations, conversations.c.owner == owner, delete_rows=delete_conversations
        )
        await self._delete_in_batches(approvals, approvals.c.owner == owner, delete_rows=_delete_approvals)
        await delete_open_calls(self._database, tool_calls.c.owner == owner)
        await self._delete_in_batches(idempotency_keys, idempotency_keys.c.owner == owner, delete_rows=delete_keys)
        return deleted_count + await self._delete_in_batches(
            completions, completions.c.owner == owner, delete_rows=delete_completions
        )

    async def export_owner(self, owner: str) -> AsyncGenerator[Json, None]:
        """Yields a response with `input` beside `output`, a conversation with `items`, a completion with `messages`.

        Deleted responses that remain only as history of later ones are included:
        `{"object": "response", "id", "deleted": true, ...}`. Approvals and idempotency keys have digests only.
        """
        for table, export_rows in (
            (responses, _export_responses),
            (conversations, _export_conversations),
            (completions, _export_completions),
            (approvals, _export_approvals),
            (idempotency_keys, _export_keys),
        ):
            async for exported in self._export_table(table, owner, export_rows):
                yield exported

    async def _delete_in_batches(
        self,
        table: Table,
        *conditions: ColumnElement[bool],
        delete_rows: Callable[[AsyncConnection, RowKeys], Awaitable[int]],
        order: ColumnElement[Any] | None = None,
    ) -> int:
        """Deletes rows in batches until none match the conditions. Returns how many were deleted."""
        deleted_count = 0
        transactions = PacedTransactions(self._database, most_rows=_BATCH_ROWS)
        while True:
            limit = transactions.rows
            async with transactions.open() as connection:
                # Concurrent replicas take turns, so that they never wait for each other's rows.
                await self._database.acquire_advisory_lock(connection, "retention")
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

    async def _delete_expired_responses(self, connection: AsyncConnection, keys: RowKeys) -> int:
        # Sorted by owner: each owner has an advisory lock, which a client's DELETE takes too.
        return sum(
            [
                await delete_response_rows(connection, self._database, owner, response_id)
                for owner, response_id in sorted(keys)
            ]
        )

    async def _erase_responses(self, connection: AsyncConnection, keys: RowKeys) -> int:
        if not keys:
            return 0
        owner = keys[0][0]
        await self._database.acquire_advisory_lock(connection, owner)
        # Not a list of pairs: SQLite would scan the whole table for it.
        response_ids = [response_id for _, response_id in keys]
        has_key = and_(responses.c.owner == owner, responses.c.id.in_(response_ids))
        # In the order in which replicas that claim jobs lock the rows.
        await connection.execute(
            select(responses.c.id).where(has_key).order_by(responses.c.owner, responses.c.id).with_for_update()
        )
        result = await connection.execute(delete(responses).where(has_key).returning(responses.c.deleted))
        await delete_approvals_of(connection, owner, response_ids)
        for table in (jobs, events, items, tool_calls):
            await connection.execute(delete(table).where(table.c.owner == owner, table.c.response_id.in_(response_ids)))
        return sum(not deleted for deleted in result.scalars())

    async def _delete_expired_logs(self) -> None:
        finished = (
            select(events.c.owner, events.c.response_id)
            .join(responses, and_(responses.c.owner == events.c.owner, responses.c.id == events.c.response_id))
            .where(
                events.c.first == 0,
                responses.c.status.not_in(ACTIVE_STATUSES),
                responses.c.created_us < read_clock_us() - self._log_ttl_us,
            )
            .limit(_SELECTED_KEYS)
        )
        await self._delete_response_data(events, finished)

    async def _delete_orphaned_rows(self) -> None:
        active = select(responses.c.id).where(
            responses.c.owner == jobs.c.owner,
            responses.c.id == jobs.c.response_id,
            responses.c.status.in_(ACTIVE_STATUSES),
        )
        orphaned = select(jobs.c.owner, jobs.c.response_id).where(~active.exists()).limit(_SELECTED_KEYS)
        await self._delete_response_data(jobs, orphaned)
        async with self._database.write_transaction() as connection:
            long_ago = self._database.now_us_expression() - _DEAD_WORKER_TTL_US
            await connection.execute(delete(workers).where(workers.c.alive_until_us < long_ago))

    async def _delete_response_data(self, table: Table, query: Select[str, str]) -> None:
        """Deletes the rows of ended responses in a table, until `query` returns fewer than _SELECTED_KEYS keys.

        `query` selects the (owner, response_id) of the next ones. It may scan much, so no transaction that writes
        executes it.
        """
        transactions = PacedTransactions(self._database, most_rows=_BATCH_ROWS)
        is_key = table.c.owner == bindparam("its_owner"), table.c.response_id == bindparam("its_id")
        while True:
            async with self._database.read_transaction() as connection:
                keys = [{"its_owner": row[0], "its_id": row[1]} for row in await connection.execute(query)]
            start = 0
            while start < len(keys):
                batch = keys[start : start + transactions.rows]
                async with transactions.open() as connection:
                    await self._database.acquire_advisory_lock(connection, "retention")
                    await connection.execute(delete(table).where(*is_key), batch)
                start += len(batch)
            if len(keys) < _SELECTED_KEYS:
                return

    async def _export_table(self, table: Table, owner: str, export_rows: RowExporter) -> AsyncGenerator[Json, None]:
        """Yields an owner's rows, oldest first, as `export_rows` renders them.

        Each page is read in one transaction and yielded after it.
        """
        sort_key = tuple_(table.c.created_us, table.c.id)
        query = select(table).where(table.c.owner == owner).order_by(table.c.created_us, table.c.id).limit(_BATCH_ROWS)
        page_query = query
        while True:
            async with self._database.read_transaction() as connection:
                rows = (await connection.execute(page_query)).all()
                page = await export_rows(connection, owner, rows)
            for exported in page:
                yield exported
            if len(rows) < _BATCH_ROWS:
                return
            page_query = query.where(sort_key > tuple_(rows[-1].created_us, rows[-1].id))


async def _export_responses(connection: AsyncConnection, owner: str, rows: SelectedRows) -> list[Json]:
    result = await connection.execute(
        select(items.c.response_id, items.c.place, items.c.body)
        .where(items.c.owner == owner, items.c.response_id.in_([row.id for row in rows]))
        .order_by(items.c.response_id, items.c.place, items.c.position)
    )
    bodies: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for item in result:
        bodies[item.response_id, item.place].append(item.body)
    return [
        ({"object": "response", "id": row.id, "deleted": True} if row.deleted else {})
        | parse_with_output(row.body, bodies[row.id, OUTPUT_PLACE])
        | {"input": [parse_json(body) for body in bodies[row.id, INPUT_PLACE]]}
        for row in rows
    ]


async def _export_conversations(connection: AsyncConnection, owner: str, rows: SelectedRows) -> list[Json]:
    result = await connection.execute(
        select(conversation_items.c.conversation_id, conversation_items.c.body)
        .where(conversation_items.c.owner == owner, conversation_items.c.conversation_id.in_([row.id for row in rows]))
        .order_by(conversation_items.c.conversation_id, conversation_items.c.position)
    )
    conversation_bodies: defaultdict[str, list[Json]] = defaultdict(list)
    for item in result:
        conversation_bodies[item.conversation_id].append(parse_json(item.body))
    return [parse_json(row.body) | {"items": conversation_bodies[row.id]} for row in rows]


async def _export_completions(_: AsyncConnection, __: str, rows: SelectedRows) -> list[Json]:
    return [parse_json(row.body) | {"messages": orjson.loads(row.messages)} for row in rows]


async def _export_approvals(_: AsyncConnection, __: str, rows: SelectedRows) -> list[Json]:
    return _columns_of(rows, "approval")


async def _export_keys(_: AsyncConnection, __: str, rows: SelectedRows) -> list[Json]:
    return _columns_of(rows, "idempotency_key")


def _columns_of(rows: SelectedRows, object_name: str) -> list[Json]:
    return [
        {"object": object_name} | {name: value for name, value in row._mapping.items() if name != "owner"}
        for row in rows
    ]


async def _delete_approvals(connection: AsyncConnection, keys: RowKeys) -> int:
    for owner, request_id in keys:
        await connection.execute(delete(approvals).where(approvals.c.owner == owner, approvals.c.id == request_id))
    return len(keys)
