"""Reads and inserts many rows without holding up the event loop.

SQLAlchemy prepares parameters and results on the event loop, and takes a few microseconds for each row.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import CursorResult, Insert, Row
from sqlalchemy.ext.asyncio import AsyncConnection

from dataplane.sharing.work_pool import run_in_pool

_ROWS_AT_ONCE: Final = 1000
"""So many rows take a few milliseconds."""


async def fetch_rows(result: CursorResult[Any]) -> Sequence[Row[Any]]:
    """Returns all rows of a result. Many are built in a thread."""
    rows = result.fetchmany(_ROWS_AT_ONCE)
    return rows if len(rows) < _ROWS_AT_ONCE else [*rows, *await run_in_pool(result.all)]


async def insert_rows(connection: AsyncConnection, statement: Insert, rows: Sequence[Mapping[str, Any]]) -> None:
    """Inserts rows, a part of them at a time."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        await connection.execute(statement, rows[start : start + _ROWS_AT_ONCE])
