"""Statements that are executed on the SQLite connection directly. SQLAlchemy compiles each of them once."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import ClauseElement
from sqlalchemy.dialects import sqlite

RowValues: TypeAlias = Mapping[str, Any]
"""The values of a row, or of the parameters of a statement, by name."""


class CompiledStatement:
    """A statement that is compiled to SQLite's text once. The values of its parameters, `names`, reach SQLite as they
    are."""

    def __init__(self, statement: ClauseElement, *names: str) -> None:
        compiled: Any = statement.compile(dialect=sqlite.dialect(), column_keys=names)
        self.text = str(compiled)
        self._constants = compiled.params
        self._parameter_names = compiled.positiontup or ()

    def bind_parameters(self, parameters: RowValues) -> Sequence[Any]:
        """Returns the values in the order in which the text uses them."""
        values = {**self._constants, **parameters}
        return [values[name] for name in self._parameter_names]

    def fetch_all(self, connection: sqlite3.Connection, parameters: RowValues) -> Sequence[tuple[Any, ...]]:
        """Executes the statement and returns all rows. SQLAlchemy would make an object of each."""
        return connection.execute(self.text, self.bind_parameters(parameters)).fetchall()
