"""Stores the calls of replies without a response while they run, in SQL.

They are rows of the journal without a place in an output. Nothing of what they say is in them: such replies are not
stored unless their client asks for it.
"""

import time
from collections.abc import Sequence
from typing import Any, Final

import orjson
import structlog
from sqlalchemy import delete, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.call_records import OpenCall
from gateway.state.database.database import Database
from gateway.state.database.tables import tool_calls

_log = structlog.get_logger(__name__)

_NO_POSITION: Final = -1
"""The position of such a call in the table: no output has it."""

_IS_OPEN_CALL: Final = tool_calls.c.position == _NO_POSITION
_LEFT_US: Final = 3600 * 1_000_000
"""After this time nobody waits for a call any more. It is far longer than the deadline of any call."""

_INSERT_SQLITE: Final = sqlite.insert(tool_calls)
_INSERT_POSTGRESQL: Final = postgresql.insert(tool_calls)
_PRIMARY_KEY: Final = ["owner", "response_id", "id"]


class SqlOpenCallStore:
    """Implements `OpenCallStore` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open_calls(self, owner: str, reply_id: str, calls: Sequence[OpenCall]) -> None:
        now_us = _now_us()
        rows = [
            {
                "owner": owner,
                "response_id": reply_id,
                "id": call.item_id,
                "position": _NO_POSITION,
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

    async def leave_calls(self, owner: str, reply_id: str) -> None:
        async with self._database.write_transaction(owner) as connection:
            await _settle(connection, tool_calls.c.owner == owner, tool_calls.c.response_id == reply_id)


async def settle_left_calls(database: Database, *, is_only_process: bool = False) -> None:
    """Write down and log that the outcome of calls is unknown whose process died.

    `is_only_process` says that no other process uses this database, so that nobody waits for any of them.
    """
    is_left = tool_calls.c.changed_us < _now_us() - (0 if is_only_process else _LEFT_US)
    async with database.read_transaction() as connection:
        found = select(tool_calls.c.id).where(_IS_OPEN_CALL, tool_calls.c.state != "unknown", is_left).limit(1)
        if (await connection.execute(found)).first() is None:
            return
    async with database.write_transaction() as connection:
        await _settle(connection, is_left)


async def delete_open_calls(connection: AsyncConnection, *conditions: Any) -> None:
    """Delete such calls, whatever became of them."""
    await connection.execute(delete(tool_calls).where(_IS_OPEN_CALL, *conditions))


async def _settle(connection: AsyncConnection, *conditions: Any) -> None:
    """End calls that nobody waits for: what was started is unknown, and what was not is nothing."""
    await delete_open_calls(connection, tool_calls.c.state == "intended", *conditions)
    result = await connection.execute(
        update(tool_calls)
        .where(_IS_OPEN_CALL, tool_calls.c.state == "started", *conditions)
        .values(state="unknown", changed_us=_now_us())
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


def _now_us() -> int:
    return time.time_ns() // 1000
