"""The end of a plain response in one trip to SQLite's thread.

SQLAlchemy builds these statements and does not execute them: after the rest that a stream is, its way there took longer
than SQLite.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import UpdateBase
from sqlalchemy.dialects import sqlite

from gateway.state.sql.statements import ADD_ITEMS, FINISH_PLAIN


class Prepared:
    """A statement as text, once. `names`: its parameters, whose values go to SQLite as they are."""

    def __init__(self, statement: UpdateBase, *names: str) -> None:
        compiled = statement.compile(dialect=sqlite.dialect(), column_keys=names)
        self.text = str(compiled)
        self._fixed = compiled.params
        self._order = compiled.positiontup or ()

    def bound(self, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """The values, in the order of the text."""
        values = {**self._fixed, **parameters}
        return [values[name] for name in self._order]


_FINISH_PLAIN: Final = Prepared(
    FINISH_PLAIN, "its_owner", "its_id", "its_worker", "ended_status", "ended_body", "ended_losses"
)
_ADD_ITEMS: Final = Prepared(ADD_ITEMS, "owner", "response_id", "place", "position", "id", "body")


def finish_plain(
    connection: sqlite3.Connection, ended: Mapping[str, Any], produced: Sequence[Mapping[str, Any]]
) -> bool:
    """Whether it was there, and plain. `ended`: the parameters of FINISH_PLAIN; `produced`: rows of items."""
    if connection.execute(_FINISH_PLAIN.text, _FINISH_PLAIN.bound(ended)).rowcount == 0:
        return False
    connection.executemany(_ADD_ITEMS.text, map(_ADD_ITEMS.bound, produced))
    return True
