"""Writes that are executed on the SQLite connection directly, as works of a group: the rows of plain responses.

A response is plain without a job, an event log, and a conversation that it appends to. SQLAlchemy compiles the
statements but does not execute them: its own overhead took longer than SQLite itself.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

from sqlalchemy.dialects import sqlite

from gateway.state.database.sqlite_statements import CompiledStatement, RowValues
from gateway.state.database.tables import events
from gateway.state.sql.statements import (
    COMPLETION_COLUMNS,
    FINISH_PLAIN_RESPONSE,
    INSERT_COMPLETION,
    INSERT_COMPLETION_METADATA,
    INSERT_ITEMS,
    INSERT_RESPONSE,
    ITEM_COLUMNS,
    LOCK_RESPONSE,
    RESPONSE_COLUMNS,
    SELECT_WORKER,
)

_INSERT_RESPONSE_SQL: Final = CompiledStatement(INSERT_RESPONSE, *RESPONSE_COLUMNS)
_LOCK_RESPONSE_SQL: Final = CompiledStatement(LOCK_RESPONSE, "its_owner", "its_id")
_FINISH_PLAIN_SQL: Final = CompiledStatement(
    FINISH_PLAIN_RESPONSE,
    "its_owner",
    "its_id",
    "its_worker",
    "ended_status",
    "ended_body",
    "ended_losses",
    "ended_upstream",
)
_INSERT_ITEMS_SQL: Final = CompiledStatement(INSERT_ITEMS, *ITEM_COLUMNS)
_INSERT_COMPLETION_SQL: Final = CompiledStatement(INSERT_COMPLETION, *COMPLETION_COLUMNS)
_INSERT_METADATA_SQL: Final = CompiledStatement(INSERT_COMPLETION_METADATA, "owner", "completion_id", "entry")


SELECT_WORKER_SQL: Final = CompiledStatement(SELECT_WORKER, "its_owner", "its_id")
_INSERT_NEW_ENTRY_SQL: Final = CompiledStatement(sqlite.insert(events).on_conflict_do_nothing(), *events.columns.keys())


def insert_plain_response(connection: sqlite3.Connection, row: RowValues, item_rows: Sequence[RowValues]) -> bool:
    """Inserts a response, begun or ended, with its items. Returns False and writes nothing without its parent.

    `row` has the values of RESPONSE_COLUMNS, each of `item_rows` the values of ITEM_COLUMNS.
    """
    if row["parent_id"] is not None:
        key = {"its_owner": row["owner"], "its_id": row["parent_id"]}
        if not connection.execute(_LOCK_RESPONSE_SQL.text, _LOCK_RESPONSE_SQL.bind_parameters(key)).fetchall():
            return False
    connection.execute(_INSERT_RESPONSE_SQL.text, _INSERT_RESPONSE_SQL.bind_parameters(row))
    connection.executemany(_INSERT_ITEMS_SQL.text, map(_INSERT_ITEMS_SQL.bind_parameters, item_rows))
    return True


def finish_plain_response(
    connection: sqlite3.Connection, parameters: RowValues, output_rows: Sequence[RowValues]
) -> bool:
    """Stores the end of a response and its output items.

    `parameters` are the parameters of FINISH_PLAIN_RESPONSE, `output_rows` rows of `items`. Returns False and writes
    nothing unless the response is active, held by the worker, and plain.
    """
    if connection.execute(_FINISH_PLAIN_SQL.text, _FINISH_PLAIN_SQL.bind_parameters(parameters)).rowcount == 0:
        return False
    connection.executemany(_INSERT_ITEMS_SQL.text, map(_INSERT_ITEMS_SQL.bind_parameters, output_rows))
    return True


def append_log_entry(connection: sqlite3.Connection, row: RowValues, worker: str) -> bool:
    """Appends an entry to the event log of a response, unless it is there already. `row` is the row of `events`.

    Returns False and writes nothing unless the response is active and held by the worker.
    """
    key = {"its_owner": row["owner"], "its_id": row["response_id"]}
    worker_row = connection.execute(SELECT_WORKER_SQL.text, SELECT_WORKER_SQL.bind_parameters(key)).fetchone()
    if worker_row != (worker,):
        return False
    connection.execute(_INSERT_NEW_ENTRY_SQL.text, _INSERT_NEW_ENTRY_SQL.bind_parameters(row)).close()
    return True


def insert_completion(connection: sqlite3.Connection, row: RowValues, metadata_rows: Sequence[RowValues]) -> None:
    """Inserts a chat completion and the rows by which lists filter it. `row` has the values of COMPLETION_COLUMNS."""
    connection.execute(_INSERT_COMPLETION_SQL.text, _INSERT_COMPLETION_SQL.bind_parameters(row))
    connection.executemany(_INSERT_METADATA_SQL.text, map(_INSERT_METADATA_SQL.bind_parameters, metadata_rows))
