"""Stores the calls of replies without a response while they run, in SQL.

They are rows of the journal without a position in an output. They hold neither arguments nor results, because such
replies are stored only if their client asks for it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import orjson
import structlog
from sqlalchemy import ColumnElement, delete, literal, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.call_records import OpenCall
from gateway.state.database.database import RETENTION, Database
from gateway.state.database.pacing import PacedTransactions
from gateway.state.database.tables import NO_POSITION, tool_calls
from gateway.state.row_values import read_clock_us

_log = structlog.get_logger(__name__)

_IS_OPEN_CALL: Final = tool_calls.c.position == literal(NO_POSITION, literal_execute=True)
"""The position is literal in the statement, because databases use no partial index for a parameter."""

_BATCH_ROWS: Final = 50
_LEFT_US: Final = 3600 * 1_000_000
"""After this time a call counts as abandoned. It is far longer than the deadline of any call."""

_INSERT_SQLITE: Final = sqlite.insert(tool_calls)
_INSERT_POSTGRESQL: Final = postgresql.insert(tool_calls)
_PRIMARY_KEY: Final = ["owner", "response_id", "id"]


class SqlOpenCallStore:
    """Implements `OpenCallStore` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record_calls(self, owner: str, reply_id: str, calls: Sequence[OpenCall]) -> None:
        now_us = read_clock_us()
        rows = [
            {
                "owner": owner,
                "response_id": reply_id,
                "id": call.item_id,
                "position": NO_POSITION,
                "state": "started" if call.is_started else "intended",
                "repeatable": False,
                "item": orjson.dumps({"server_label": call.server_label, "name": call.name}).decode(),
                "media": None,
                "changed_us": now_us,
            }
            for call in calls
        ]
        insert: Any = _INSERT_SQLITE if self._database.is_sqlite else _INSERT_POSTGRESQL
        changed = {"state": insert.excluded.state, "changed_us": insert.excluded.changed_us}
        async with self._database.write_transaction(owner) as connection:
            await connection.execute(insert.on_conflict_do_update(index_elements=_PRIMARY_KEY, set_=changed), rows)

    async def close_call(self, owner: str, reply_id: str, item_id: str) -> None:
        async with self._database.write_transaction(owner) as connection:
            await connection.execute(
                delete(tool_calls).where(
                    tool_calls.c.owner == owner, tool_calls.c.response_id == reply_id, tool_calls.c.id == item_id
                )
            )

    async def abandon_calls(self, owner: str, reply_id: str) -> None:
        async with self._database.write_transaction(owner) as connection:
            await _settle(connection, tool_calls.c.owner == owner, tool_calls.c.response_id == reply_id)


async def settle_abandoned_calls(database: Database, *, is_only_process: bool = False) -> None:
    """Records and logs that the outcome of calls is unknown, if their process died.

    `is_only_process` says that no other process uses this database, so that none of the calls has a waiting process.
    """
    before_us = read_clock_us() - (0 if is_only_process else _LEFT_US)
    is_left = [tool_calls.c.state.in_(("intended", "started")), tool_calls.c.changed_us < before_us]
    await _change_in_batches(database, _settle, *is_left)


async def delete_open_calls(database: Database, *conditions: ColumnElement[bool]) -> None:
    """Deletes calls of replies without a response, in any state."""
    await _change_in_batches(database, _delete, *conditions)


async def _change_in_batches(
    database: Database, change: Callable[..., Awaitable[None]], *conditions: ColumnElement[bool]
) -> None:
    """Calls `change` in small transactions, each time with the condition of one row, until none match the conditions.

    `change` must make the row stop matching. Rows are selected outside of write transactions, because the scan may be
    long.
    """
    transactions = PacedTransactions(database, most_rows=_BATCH_ROWS)
    query = select(*tool_calls.primary_key.columns).where(_IS_OPEN_CALL, *conditions)
    while True:
        limit = transactions.rows
        async with database.read_transaction(RETENTION) as connection:
            keys = (await connection.execute(query.limit(limit))).all()
        if keys:
            async with transactions.open() as connection:
                await database.acquire_advisory_lock(connection, "retention")
                for owner, reply_id, item_id in keys:
                    is_row = tool_calls.c.response_id == reply_id, tool_calls.c.id == item_id
                    await change(connection, tool_calls.c.owner == owner, *is_row, *conditions)
        if len(keys) < limit:
            return


async def _delete(connection: AsyncConnection, *conditions: ColumnElement[bool]) -> None:
    await connection.execute(delete(tool_calls).where(_IS_OPEN_CALL, *conditions))


async def _settle(connection: AsyncConnection, *conditions: ColumnElement[bool]) -> None:
    """Ends calls whose process has stopped waiting: started calls become unknown, others are deleted."""
    await _delete(connection, tool_calls.c.state == "intended", *conditions)
    result = await connection.execute(
        update(tool_calls)
        .where(_IS_OPEN_CALL, tool_calls.c.state == "started", *conditions)
        .values(state="unknown", changed_us=read_clock_us())
        .returning(tool_calls.c.owner, tool_calls.c.response_id, tool_calls.c.id, tool_calls.c.item)
    )
    for row in result:
        tool = orjson.loads(row.item)
        _log.warning(
            "tool_call_outcome_unknown",
            owner=row.owner,
            reply=row.response_id,
            call=row.id,
            server=tool["server_label"],
            tool=tool["name"],
        )
