"""aiosqlite connections that make one trip to their thread per statement, or per transaction.

With plain aiosqlite, SQLAlchemy creates a cursor, executes, fetches and closes: four trips, each with two switches
between threads. Most of a transaction's time was spent on that.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import closing, suppress
from threading import Thread
from typing import Any, Final, Protocol, TypeVar

import aiosqlite
from aiosqlite.core import _STOP_RUNNING_SENTINEL, _connection_worker_thread, _TxQueue

BEGIN_IMMEDIATE: Final = "BEGIN IMMEDIATE"
"""Takes the write lock at the start of the transaction.

A transaction that reads first and then writes fails if another one has written meanwhile. This one waits instead.
"""

THREAD_NAME: Final = "sqlite-connection"
"""Of the thread of each connection, as debuggers show it."""

_PRIMARY_CODE_MASK: Final = 0xFF
"""The bits of an extended SQLite error code that are the primary code: https://www.sqlite.org/rescode.html"""

_ITERATION_ROWS: Final = 64
"""Rows that aiosqlite fetches at once when a cursor is iterated over. SQLAlchemy does not do that."""

_Result = TypeVar("_Result")


class OneTripConnection(aiosqlite.Connection):
    """A connection that is opened by awaiting it. `connector` runs in the connection's thread."""

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, _ITERATION_ROWS)
        # A process that ends without closing the connection must not wait for the thread.
        self._thread = Thread(target=_run_calls, args=(self._tx,), name=THREAD_NAME, daemon=True)
        self.may_be_in_transaction = False
        """Whether a transaction was begun and is not known to have ended. Only its thread knows its actual state."""

    def run_blocking(self, work: Callable[..., _Result], *arguments: Any) -> Awaitable[_Result]:
        """Returns an awaitable that runs `work` in the connection's thread, in one trip."""
        execute: Callable[..., Awaitable[_Result]] = self._execute
        return execute(work, *arguments)

    async def begin(self, statement: str) -> None:
        self.may_be_in_transaction = True
        await self.run_blocking(self._begin, statement)

    async def commit(self) -> None:
        await super().commit()
        self.may_be_in_transaction = False

    async def rollback(self) -> None:
        await super().rollback()
        self.may_be_in_transaction = False

    @property
    def raw_connection(self) -> sqlite3.Connection:
        """The connection of Python's driver. It may be used in any thread, but in one at a time."""
        return self._conn

    def try_begin(self) -> bool:
        """Begins a transaction that can write, in the calling thread. Returns False if another process has the lock.

        The connection's own thread must have nothing to do.
        """
        connection = self._conn
        (timeout_ms,) = connection.execute("PRAGMA busy_timeout").fetchone()
        connection.execute("PRAGMA busy_timeout=0").close()
        try:
            self._begin(BEGIN_IMMEDIATE)
        except sqlite3.OperationalError as error:
            if is_busy(error):
                return False
            raise
        finally:
            connection.execute(f"PRAGMA busy_timeout={timeout_ms}").close()
        return True

    def interrupt_statement(self) -> None:
        """Ends the statement that the connection's thread executes, if there is one, with an error in the thread."""
        if self._connection is not None:
            self._connection.interrupt()

    def _begin(self, statement: str) -> None:
        self._conn.execute(statement).close()

    def stop(self) -> None:
        """Ends the thread without waiting for it.

        After a failed connect there is no waiter, and the event loop may be closed.
        """
        self._running = False
        self._tx.put_nowait((None, self._close_and_stop))

    def _close_and_stop(self) -> object:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        return _STOP_RUNNING_SENTINEL

    def cursor(self) -> "OneTripCursor":  # type: ignore[override]  # the part of a cursor that SQLAlchemy uses
        """Returns a cursor at once; nothing needs to be awaited for it."""
        return OneTripCursor(self)


def _run_calls(calls: _TxQueue) -> None:
    """Runs the calls of a connection, in its thread, until it is stopped."""
    is_stopped = False
    while not is_stopped:
        with suppress(RuntimeError):  # the event loop of a caller ended before the call did, so nobody waits for it
            _connection_worker_thread(calls)
            is_stopped = True


def is_busy(error: sqlite3.Error) -> bool:
    """Returns whether the error says that another connection has the lock."""
    return error.sqlite_errorcode & _PRIMARY_CODE_MASK == sqlite3.SQLITE_BUSY


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
        """Does nothing. The SQLite cursor was closed in the trip that executed the statement."""

    async def _run_statement(self, execute: _CursorExecute, statement: str, parameters: Any) -> "OneTripCursor":
        await self._connection.run_blocking(self._execute_blocking, execute, statement, parameters)
        return self

    def _execute_blocking(self, execute: _CursorExecute, statement: str, parameters: Any) -> None:
        with closing(self._connection._conn.cursor()) as cursor:
            execute(cursor, statement, parameters)
            self.description, self.rowcount, self.lastrowid = cursor.description, cursor.rowcount, cursor.lastrowid
            self._rows = cursor.fetchall() if cursor.description else ()
