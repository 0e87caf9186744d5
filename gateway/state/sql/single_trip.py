"""Stores the end of a plain response in one trip to SQLite's thread.

SQLAlchemy compiles these statements but does not execute them: its own overhead took longer than SQLite itself.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import UpdateBase
from sqlalchemy.dialects import sqlite

from gateway.state.sql.statements import FINISH_PLAIN_RESPONSE, INSERT_ITEMS


class CompiledStatement:
    """A statement that is compiled to SQLite's text once. The values of its parameters, `names`, reach SQLite as they
    are."""

    def __init__(self, statement: UpdateBase, *names: str) -> None:
        compiled = statement.compile(dialect=sqlite.dialect(), column_keys=names)
        self.text = str(compiled)
        self._constants = compiled.params
        self._parameter_names = compiled.positiontup or ()

    def bind_parameters(self, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Return the values in the order in which the text uses them."""
        values = {**self._constants, **parameters}
        return [values[name] for name in self._parameter_names]


_FINISH_PLAIN_SQL: Final = CompiledStatement(
    FINISH_PLAIN_RESPONSE, "its_owner", "its_id", "its_worker", "ended_status", "ended_body", "ended_losses"
)
_INSERT_ITEMS_SQL: Final = CompiledStatement(INSERT_ITEMS, "owner", "response_id", "place", "position", "id", "body")


def finish_plain_response(
    connection: sqlite3.Connection, parameters: Mapping[str, Any], output_rows: Sequence[Mapping[str, Any]]
) -> bool:
    """Store the end of a response and its output items, within a transaction on SQLite's thread.

    `parameters` are those of FINISH_PLAIN_RESPONSE, `output_rows` rows of `items`. Returns False and writes nothing
    unless the response is active, held by the worker, and plain: without a conversation, a job and an event log.
    """
    if connection.execute(_FINISH_PLAIN_SQL.text, _FINISH_PLAIN_SQL.bind_parameters(parameters)).rowcount == 0:
        return False
    connection.executemany(_INSERT_ITEMS_SQL.text, map(_INSERT_ITEMS_SQL.bind_parameters, output_rows))
    return True
