"""Stores the journal of tool calls in SQL. Each write checks in its own transaction that its worker holds the response.

On SQLite the writes are works of a group (`sqlite_writer`). On PostgreSQL the row of the response is locked, so that no
other replica claims it between the check and the commit: the next worker then reads the written calls.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import bindparam, case, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.call_records import CallRecord
from gateway.state.database.database import Database
from gateway.state.database.sqlite_statements import CompiledStatement, RowValues
from gateway.state.database.tables import jobs, tool_calls
from gateway.state.database.write_queue import ROW_BYTES
from gateway.state.row_values import dump_json, parse_json, read_clock_us
from gateway.state.sql.single_trip import SELECT_WORKER_SQL
from gateway.state.sql.statements import SELECT_WORKER
from gateway.state.values import LeaseLost
from translation.representation.json_types import Item, Json

_INSERT_SQLITE: Final = sqlite.insert(tool_calls).on_conflict_do_nothing()
_INSERT_POSTGRESQL: Final = postgresql.insert(tool_calls).on_conflict_do_nothing()
_SET_PROGRESS: Final = (
    update(jobs)
    .where(jobs.c.owner == bindparam("its_owner"), jobs.c.response_id == bindparam("its_id"))
    .values(progress=bindparam("new_progress"))
)
_IS_CALL = (
    tool_calls.c.owner == bindparam("its_owner"),
    tool_calls.c.response_id == bindparam("its_id"),
    tool_calls.c.id == bindparam("its_call"),
)
_START: Final = (
    update(tool_calls)
    .where(*_IS_CALL, or_(tool_calls.c.state == "intended", tool_calls.c.state == "started"))
    .values(state="started", changed_us=bindparam("now_us"))
    .returning(tool_calls.c.id)
)
_FINISH: Final = (
    update(tool_calls)
    .where(*_IS_CALL, or_(tool_calls.c.state == "started", tool_calls.c.state == "finished"))
    .values(
        state="finished",
        item=bindparam("new_item"),
        media=bindparam("new_media"),
        changed_us=bindparam("now_us"),
    )
    .returning(tool_calls.c.id)
)

_KEY_NAMES: Final = ("its_owner", "its_id")
_INSERT_SQL: Final = CompiledStatement(_INSERT_SQLITE, *tool_calls.columns.keys())
_SET_PROGRESS_SQL: Final = CompiledStatement(_SET_PROGRESS, *_KEY_NAMES, "new_progress")


class SqlCallJournal:
    """Implements `CallJournalStore` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record_calls(
        self, owner: str, response_id: str, calls: Sequence[CallRecord], *, worker: str, progress: Json | None
    ) -> None:
        rows = [_build_row(owner, response_id, call) for call in calls]
        values = {"its_owner": owner, "its_id": response_id}
        new_progress = None if progress is None else dump_json(progress)
        if not self._database.is_sqlite:
            async with self._database.write_transaction(owner) as connection:
                await _require_worker(connection, values, worker)
                if rows:
                    await connection.execute(_INSERT_POSTGRESQL, rows)
                if new_progress is not None:
                    await connection.execute(_SET_PROGRESS, {**values, "new_progress": new_progress})
            return

        def write(connection: sqlite3.Connection) -> bool:
            connection.executemany(_INSERT_SQL.text, map(_INSERT_SQL.bind_parameters, rows))
            if new_progress is not None:
                parameters = _SET_PROGRESS_SQL.bind_parameters({**values, "new_progress": new_progress})
                connection.execute(_SET_PROGRESS_SQL.text, parameters)
            return True

        size = ROW_BYTES + len(new_progress or "") + sum(ROW_BYTES + len(row["item"]) for row in rows)
        await self._write_on_sqlite(write, values, worker, size)

    async def start_call(self, owner: str, response_id: str, item_id: str, *, worker: str) -> None:
        await self._update_call(_START, owner, response_id, item_id, worker, {})

    async def finish_call(
        self, owner: str, response_id: str, item: Item, *, worker: str, media: Sequence[Json] = ()
    ) -> None:
        result = {"new_item": dump_json(item), "new_media": orjson.dumps([*media]).decode() if media else None}
        await self._update_call(_FINISH, owner, response_id, item["id"], worker, result)

    async def load_calls(self, owner: str, response_id: str) -> Sequence[CallRecord]:
        async with self._database.read_transaction(owner) as connection:
            return await load_call_records(connection, owner, response_id)

    async def _update_call(
        self, statement: Any, owner: str, response_id: str, item_id: str, worker: str, result: RowValues
    ) -> None:
        values = {"its_owner": owner, "its_id": response_id}
        parameters = {**values, "its_call": item_id, "now_us": read_clock_us(), **result}
        if not self._database.is_sqlite:
            async with self._database.write_transaction(owner) as connection:
                await _require_worker(connection, values, worker)
                if (await connection.execute(statement, parameters)).one_or_none() is None:
                    raise LeaseLost(response_id)
            return
        compiled = _UPDATES_SQL[statement is _FINISH]

        def write(connection: sqlite3.Connection) -> bool:
            return bool(connection.execute(compiled.text, compiled.bind_parameters(parameters)).fetchall())

        size = ROW_BYTES + len(result.get("new_item") or "") + len(result.get("new_media") or "")
        await self._write_on_sqlite(write, values, worker, size)

    async def _write_on_sqlite(
        self, write: Callable[[sqlite3.Connection], bool], key: RowValues, worker: str, size: int
    ) -> None:
        def write_if_held(connection: sqlite3.Connection) -> bool:
            parameters = SELECT_WORKER_SQL.bind_parameters(key)
            row = connection.execute(SELECT_WORKER_SQL.text, parameters).fetchone()
            return row == (worker,) and write(connection)

        if not await self._database.run_transaction(write_if_held, owner=key["its_owner"], size=size):
            raise LeaseLost(key["its_id"])


async def load_call_records(connection: AsyncConnection, owner: str, response_id: str) -> Sequence[CallRecord]:
    """Returns the calls of a response in the order of its output. Once it has ended, their items are only ids."""
    rows = await connection.execute(
        select(tool_calls)
        .where(tool_calls.c.owner == owner, tool_calls.c.response_id == response_id)
        .order_by(tool_calls.c.position)
    )
    return [
        CallRecord(
            item={"id": row.id} if row.item is None else parse_json(row.item),
            position=row.position,
            state=row.state,
            is_repeatable=row.repeatable,
            media=orjson.loads(row.media) if row.media else (),
        )
        for row in rows
    ]


async def settle_calls(connection: AsyncConnection, owner: str, response_id: str) -> None:
    """Ends the journal of a response that ends in this transaction: started calls become unknown.

    The items are deleted, because the output of the response has them.
    """
    await connection.execute(
        update(tool_calls)
        .where(tool_calls.c.owner == owner, tool_calls.c.response_id == response_id)
        .values(
            state=case((tool_calls.c.state == "started", "unknown"), else_=tool_calls.c.state), item=None, media=None
        )
    )


async def _require_worker(connection: AsyncConnection, key: RowValues, worker: str) -> None:
    """Locks a response against claims until the transaction ends. Raises LeaseLost unless this worker holds it."""
    if await connection.scalar(_LOCK_WORKER, key) != worker:
        raise LeaseLost(key["its_id"])


def _build_row(owner: str, response_id: str, call: CallRecord) -> dict[str, Any]:
    return {
        "owner": owner,
        "response_id": response_id,
        "id": call.item["id"],
        "position": call.position,
        "state": call.state,
        "repeatable": call.is_repeatable,
        "item": dump_json(call.item),
        "media": None,
        "changed_us": read_clock_us(),
    }


_LOCK_WORKER: Final = SELECT_WORKER.with_for_update(read=True)
_UPDATES_SQL: Final = (
    CompiledStatement(_START, *_KEY_NAMES, "its_call", "now_us"),
    CompiledStatement(_FINISH, *_KEY_NAMES, "its_call", "now_us", "new_item", "new_media"),
)
