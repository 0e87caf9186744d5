"""aiosqlite with one trip to its thread per statement, or per transaction.

SQLAlchemy asks aiosqlite for a cursor, has it execute, fetches and closes: four trips, each two switches between
threads. A transaction's time was mostly that.
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
"""A transaction that reads first and then writes fails when another one wrote meanwhile; this one waits instead."""

_ITERATION_ROWS: Final = 64
"""What aiosqlite fetches at once when it is iterated over, which nobody does."""

_Result = TypeVar("_Result")


class OneTripConnection(aiosqlite.Connection):
    """Not connected yet: awaiting it connects. `connector` runs in the connection's thread."""

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, _ITERATION_ROWS)
        self._thread.daemon = True  # a process that ends without closing it must not wait for it
        self.may_be_in_transaction = False
        """A transaction was begun, and has not been seen to end: only its thread knows how far it is."""

    def run_in_thread(self, work: Callable[..., _Result], *arguments: Any) -> Awaitable[_Result]:
        """One trip."""
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
        """A transaction in one trip: `work` runs in the thread, and what it raises rolls back. So does leaving before
        it is committed."""
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
        """Ends the thread and does not hear of it: when connecting failed nobody waits, and the loop may be gone."""
        self._running = False
        self._tx.put_nowait((None, self._close_and_stop))

    def _close_and_stop(self) -> object:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        return _STOP_RUNNING_SENTINEL

    def cursor(self) -> "OneTripCursor":  # type: ignore[override]  # the part of a cursor that SQLAlchemy uses
        """Has nothing to be awaited for."""
        return OneTripCursor(self)


def _raise_if_cancelled(cancelled: threading.Event) -> None:
    if cancelled.is_set():
        raise asyncio.CancelledError


class _CursorExecute(Protocol):
    def __call__(self, cursor: sqlite3.Cursor, statement: str, parameters: Any, /) -> object: ...


class OneTripCursor:
    """What a statement came to, all of it."""

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
        """It is closed: the thread did it."""

    async def _run_statement(self, execute: _CursorExecute, statement: str, parameters: Any) -> "OneTripCursor":
        await self._connection.run_in_thread(self._execute_in_thread, execute, statement, parameters)
        return self

    def _execute_in_thread(self, execute: _CursorExecute, statement: str, parameters: Any) -> None:
        with closing(self._connection._conn.cursor()) as cursor:
            execute(cursor, statement, parameters)
            self.description, self.rowcount, self.lastrowid = cursor.description, cursor.rowcount, cursor.lastrowid
            self._rows = cursor.fetchall() if cursor.description else ()
