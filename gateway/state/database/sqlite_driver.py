"""aiosqlite connections that make one trip to their thread per statement, or per transaction.

With plain aiosqlite, SQLAlchemy creates a cursor, executes, fetches and closes: four trips, each with two switches
between threads. Most of a transaction's time was spent on that.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import closing
from typing import Any, Final, Protocol, TypeVar

import aiosqlite
from aiosqlite.core import _STOP_RUNNING_SENTINEL

BEGIN_IMMEDIATE: Final = "BEGIN IMMEDIATE"
"""Takes the write lock at the start of the transaction.

A transaction that reads first and then writes fails if another one has written meanwhile. This one waits instead.
"""

_ITERATION_ROWS: Final = 64
"""Rows that aiosqlite fetches at once when a cursor is iterated over. SQLAlchemy does not do that."""

_Result = TypeVar("_Result")


class OneTripConnection(aiosqlite.Connection):
    """A connection that is opened by awaiting it. `connector` runs in the connection's thread."""

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, _ITERATION_ROWS)
        self._thread.daemon = True  # a process that ends without closing it must not wait for it
        self.may_be_in_transaction = False
        """Whether a transaction was begun and is not known to have ended. Only its thread knows its actual state."""

    def run_in_thread(self, work: Callable[..., _Result], *arguments: Any) -> Awaitable[_Result]:
        """Return an awaitable that runs `work` in the connection's thread, in one trip."""
        execute: Callable[..., Awaitable[_Result]] = self._execute
        return execute(work, *arguments)

    async def begin(self, statement: str) -> None:
        self.may_be_in_transaction = True
        await self.run_in_thread(self._begin, statement)

    async def commit(self) -> None:
        await super().commit()
        self.may_be_in_transaction = False

    async def rollback(self) -> None:
        await super().rollback()
        self.may_be_in_transaction = False

    async def run_transaction(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Run `work` as one transaction in one trip to the thread.

        An exception from `work`, or cancellation before the commit, rolls back.
        """
        cancelled = threading.Event()
        self.may_be_in_transaction = True
        try:
            result: _Result = await self.run_in_thread(self._run_in_transaction, work, cancelled)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        self.may_be_in_transaction = False
        return result

    def _run_in_transaction(self, work: Callable[[sqlite3.Connection], _Result], cancelled: threading.Event) -> _Result:
        connection = self._conn
        try:
            _raise_if_cancelled(cancelled)
            self._begin(BEGIN_IMMEDIATE)
            result = work(connection)
            _raise_if_cancelled(cancelled)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        return result

    def _begin(self, statement: str) -> None:
        self._conn.execute(statement).close()

    def stop(self) -> None:
        """End the thread without waiting for it.

        After a failed connect nobody waits for it, and the event loop may be closed.
        """
        self._running = False
        self._tx.put_nowait((None, self._close_and_stop))

    def _close_and_stop(self) -> object:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        return _STOP_RUNNING_SENTINEL

    def cursor(self) -> "OneTripCursor":  # type: ignore[override]  # the part of a cursor that SQLAlchemy uses
        """Return a cursor at once; nothing needs to be awaited for it."""
        return OneTripCursor(self)


def _raise_if_cancelled(cancelled: threading.Event) -> None:
    if cancelled.is_set():
        raise asyncio.CancelledError


class _CursorExecute(Protocol):
    def __call__(self, cursor: sqlite3.Cursor, statement: str, parameters: Any, /) -> object: ...


class OneTripCursor:
    """The complete result of one statement: all rows are fetched in the trip that executes it."""

    def __init__(self, connection: OneTripConnection) -> None:
        self._connection = connection
        self._rows: Sequence[Any] = ()
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self.arraysize = 1

    async def __aenter__(self) -> "OneTripCursor":
        return self

    async def execute(self, statement: str, parameters: Iterable[Any] = ()) -> "OneTripCursor":
        return await self._run_statement(sqlite3.Cursor.execute, statement, parameters)

    async def executemany(self, statement: str, parameters: Iterable[Iterable[Any]]) -> "OneTripCursor":
        return await self._run_statement(sqlite3.Cursor.executemany, statement, parameters)

    async def fetchall(self) -> Sequence[Any]:
        return self._rows

    async def close(self) -> None:
        """Do nothing. The SQLite cursor was closed in the trip that executed the statement."""

    async def _run_statement(self, execute: _CursorExecute, statement: str, parameters: Any) -> "OneTripCursor":
        await self._connection.run_in_thread(self._execute_in_thread, execute, statement, parameters)
        return self

    def _execute_in_thread(self, execute: _CursorExecute, statement: str, parameters: Any) -> None:
        with closing(self._connection._conn.cursor()) as cursor:
            execute(cursor, statement, parameters)
            self.description, self.rowcount, self.lastrowid = cursor.description, cursor.rowcount, cursor.lastrowid
            self._rows = cursor.fetchall() if cursor.description else ()
