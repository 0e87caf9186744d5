"""Creates SQLAlchemy engines with the settings that each database needs, and begins SQLite transactions."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias

import aiosqlite
from sqlalchemy import URL, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, PoolResetState, QueuePool
from sqlalchemy.util.concurrency import in_greenlet

from gateway.state.database.sqlite_driver import BEGIN_IMMEDIATE, OneTripConnection, is_busy

TransactionMode: TypeAlias = Literal["write", "read"]
"""The kind of a transaction. A "read" transaction sees one snapshot of the database and writes nothing."""

_BEGIN_STATEMENTS: Final[dict[TransactionMode, str]] = {"write": BEGIN_IMMEDIATE, "read": "BEGIN"}

_WAL_RETRY_S: Final = 0.02
_PING_AFTER_IDLE_S: Final = 1.0
"""A connection that was idle for longer is pinged before use: the server may have been restarted."""


def make_engines(url: URL, *, deadline_s: float) -> dict[TransactionMode, AsyncEngine]:
    """Creates an engine for each mode. They share one pool, which has no connection yet.

    Their errors never include the values of a statement, because those are users' content.
    """
    if url.get_backend_name() == "sqlite":
        engine = _make_sqlite_engine(url, deadline_s)
        return {"write": engine, "read": engine}
    engine = _make_postgresql_engine(url, deadline_s)
    return {
        "write": engine,
        "read": engine.execution_options(isolation_level="REPEATABLE READ"),
    }


async def start_connection(engine: AsyncEngine) -> AsyncConnection:
    return await engine.connect().start()


async def close_when_connected(connecting: asyncio.Task[AsyncConnection]) -> None:
    """Closes the connection that a task opens, after its caller has left."""
    connection = await connecting
    await connection.close()


async def close_for_good(connection: AsyncConnection) -> None:
    """Closes a connection instead of giving it back to the pool."""
    await connection.invalidate()
    await connection.close()


def is_exhausted(engine: AsyncEngine) -> bool:
    """Returns whether all connections of the engine's pool are in use."""
    pool = engine.sync_engine.pool
    return isinstance(pool, QueuePool) and pool.checkedout() >= pool.size()


async def begin_sqlite(connection: AsyncConnection, mode: TransactionMode) -> None:
    """Begins a transaction on a SQLite connection.

    It does not begin in SQLAlchemy's `begin` event, because an engine with a listener looks up all events on each of
    its connections. It does not begin with the first statement either, because a caller that leaves then would wait for
    the lock as the statement does.
    """
    await get_driver(connection).begin(_BEGIN_STATEMENTS[mode])


def may_be_in_transaction(connection: AsyncConnection) -> bool:
    """Returns whether SQLite may still have an open transaction on the connection."""
    return not connection.invalidated and get_driver(connection).may_be_in_transaction


def get_driver(connection: AsyncConnection) -> OneTripConnection:
    """Returns the driver's connection below a connection to SQLite."""
    pooled = connection.sync_connection
    driver = None if pooled is None else pooled.connection.driver_connection
    if not isinstance(driver, OneTripConnection):
        raise TypeError("the connection is not an open one to SQLite")
    return driver


def _make_sqlite_engine(url: URL, deadline_s: float) -> AsyncEngine:
    timeout_s = deadline_s * 0.9
    settings = (
        # Commits survive a loss of power. NORMAL would save less than a millisecond per commit.
        "PRAGMA synchronous=FULL",
        # If another process has the lock, SQLite's error comes just before the deadline and says more than a timeout.
        f"PRAGMA busy_timeout={int(timeout_s * 1000)}",
    )

    def open_connection() -> sqlite3.Connection:
        arguments, options = engine.sync_engine.dialect.create_connect_args(url)
        # The driver's implicit transactions leave reads outside of them. `begin_sqlite` begins them instead.
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect
        # Threads take turns with a connection: see `sqlite_writer`.
        connection = connect(*arguments, **{**options, "check_same_thread": False}, isolation_level=None)
        try:
            for setting in settings:
                connection.execute(setting).close()
            _enable_wal(connection, time.monotonic() + timeout_s)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    engine = create_async_engine(
        url,
        pool_size=8,
        max_overflow=8,
        pool_timeout=deadline_s,
        pool_reset_on_return=None,
        hide_parameters=True,
        async_creator=lambda: OneTripConnection(open_connection),
    )

    @event.listens_for(engine.sync_engine, "reset")
    def reset(connection: Any, _entry: ConnectionPoolEntry, state: PoolResetState) -> None:
        # The pool's own reset makes a trip to the thread each time. This one does so only for an open transaction, and
        # then waits until the thread has finished the work of the previous user: no busy connection is handed out.
        if state.asyncio_safe and connection.driver_connection.may_be_in_transaction:
            connection.rollback()

    @event.listens_for(engine.sync_engine, "invalidate")
    def roll_back(connection: Any, _entry: ConnectionPoolEntry, _error: BaseException | None) -> None:
        # Nobody waits any more for the statement that the thread may still execute.
        connection.driver_connection.interrupt_statement()
        # Closing does not end a transaction while something, such as a traceback, refers to a cursor of it. The lock on
        # the file is held until the transaction ends.
        if in_greenlet():
            connection.run_async(lambda driver: asyncio.shield(_roll_back_quietly(driver)))

    return engine


def _enable_wal(connection: sqlite3.Connection, deadline: float) -> None:
    """Sets the file to write-ahead logging. Raises sqlite3.OperationalError if that fails until `deadline`.

    On a new file this is a write. If another process does the same, SQLite does not wait as it does for other locks, so
    this retries until `deadline`, a time of the monotonic clock.
    """
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(_WAL_RETRY_S)  # in the connection's own thread


async def _roll_back_quietly(driver: aiosqlite.Connection) -> None:
    with suppress(sqlite3.Error, ValueError):  # the connection is lost or closed
        await driver.rollback()


def _make_postgresql_engine(url: URL, deadline_s: float) -> AsyncEngine:
    milliseconds = str(int(deadline_s * 1000))
    engine = create_async_engine(
        url,
        pool_size=20,
        max_overflow=0,  # a connection above the size would be closed after each use
        pool_timeout=deadline_s,
        hide_parameters=True,
        connect_args={
            "timeout": deadline_s,
            "server_settings": {
                "application_name": "responses-gateway",
                # The server aborts abandoned transactions. Otherwise a gateway that hangs would keep its locks.
                "statement_timeout": milliseconds,
                "idle_in_transaction_session_timeout": milliseconds,
                # Compiling a query to machine code takes longer than executing any query of the gateway.
                "jit": "off",
                # A plan cached while a table was small may scan the whole table once it is large.
                "plan_cache_mode": "force_custom_plan",
            },
        },
    )

    @event.listens_for(engine.sync_engine, "checkin")
    def record_checkin(_connection: Any, entry: ConnectionPoolEntry) -> None:
        entry.info["used"] = time.monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def ping_if_idle(connection: Any, entry: ConnectionPoolEntry, _proxy: object) -> None:
        if time.monotonic() - entry.info.get("used", time.monotonic()) < _PING_AFTER_IDLE_S:
            return
        dialect = engine.sync_engine.dialect
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error

    return engine
