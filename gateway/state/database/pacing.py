"""Paces long work, such as the deletion of everything of an owner, so that it does not delay other writers.

Within a process the writers of a SQLite database take turns. Other processes poll the lock of its file: they get it
only if it is free at times.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.database.database import RETENTION, Database

_FIRST_ROWS: Final = 4
_SHORT_S: Final = 0.01
_LONG_S: Final = 0.03
_LONGEST_PAUSE_S: Final = 1.0


class PacedTransactions:
    """Transactions of one long piece of work, each with at most `rows` rows.

    `rows` grows up to `most_rows` while transactions are short, and shrinks if one is long: a row stands for a response
    with all its items and events, and so for one statement or for thousands of rows.
    """

    def __init__(self, database: Database, *, most_rows: int) -> None:
        self._database = database
        self._most_rows = most_rows
        self.rows = min(_FIRST_ROWS, most_rows)

    @asynccontextmanager
    async def open(self, owner: str = RETENTION) -> AsyncGenerator[AsyncConnection, None]:
        """Runs the block in one write transaction, then pauses for as long as it took. Raises StoreUnavailable."""
        async with self._database.write_transaction(owner) as connection:
            started = time.monotonic()
            yield connection
        took_s = time.monotonic() - started
        if took_s < _SHORT_S:
            self.rows = min(self.rows * 2, self._most_rows)
        elif took_s > _LONG_S:
            self.rows = max(self.rows // 4, 1)
        await asyncio.sleep(min(took_s, _LONGEST_PAUSE_S))
