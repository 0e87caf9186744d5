"""SQLAlchemy engines as the store needs them: the settings of each database, and how its transactions begin."""

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
from sqlalchemy.pool import ConnectionPoolEntry, PoolResetState
from sqlalchemy.util.concurrency import in_greenlet

from gateway.state.database.sqlite_driver import BEGIN_IMMEDIATE, OneTripConnection

TransactionMode: TypeAlias = Literal["write", "read"]
"""What a transaction is for. One that reads sees one moment and writes nothing."""

_BEGIN_STATEMENTS: Final[dict[TransactionMode, str]] = {"write": BEGIN_IMMEDIATE, "read": "BEGIN"}

_WAL_RETRY_S: Final = 0.02
_PRIMARY_CODE_MASK: Final = 0xFF
"""Of SQLite's error codes, the part that says what went wrong; the rest says where."""

_PING_AFTER_IDLE_S: Final = 1.0
"""A connection unused for longer is asked whether it is still there: the server may have been restarted."""


def make_engines(url: URL, *, deadline_s: float) -> dict[TransactionMode, AsyncEngine]:
    """Engines over the same connections, none of them made yet. Their errors never hold the values of a statement,
    which are what users said."""
    if url.get_backend_name() == "sqlite":
        engine = _make_sqlite_engine(url, deadline_s)
        return {"write": engine, "read": engine}
    engine = _make_postgresql_engine(url, deadline_s)
    return {"write": engine, "read": engine.execution_options(isolation_level="REPEATABLE READ")}


async def begin_sqlite(connection: AsyncConnection, mode: TransactionMode) -> None:
    """Begin its transaction. Not in SQLAlchemy's event for it: an engine with one asks each of its connections for all
    its events; and not with the first statement, where leaving would wait for the lock as the statement does."""
    await driver_of(connection).begin(_BEGIN_STATEMENTS[mode])


def may_be_in_transaction(connection: AsyncConnection) -> bool:
    """Whether SQLite may still hold something for it."""
    return not connection.invalidated and driver_of(connection).may_be_in_transaction


def driver_of(connection: AsyncConnection) -> OneTripConnection:
    """What is below a connection to SQLite."""
    pooled = connection.sync_connection
    assert pooled is not None
    driver = pooled.connection.driver_connection
    assert isinstance(driver, OneTripConnection)
    return driver


def _make_sqlite_engine(url: URL, deadline_s: float) -> AsyncEngine:
    timeout_s = deadline_s * 0.9
    settings = (
        # What was acknowledged outlives a loss of power. NORMAL saves less than a millisecond of each commit.
        "PRAGMA synchronous=FULL",
        # Another process has the lock: an error a little before the deadline tells more than the deadline.
        f"PRAGMA busy_timeout={int(timeout_s * 1000)}",
    )

    def open_connection() -> sqlite3.Connection:
        arguments, options = engine.sync_engine.dialect.create_connect_args(url)
        # The driver's own way of opening transactions leaves reads outside of them; ours is "begin" below.
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect
        connection = connect(*arguments, **options, isolation_level=None)
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
        # The pool's own way asks the thread each time. Where this does, it waits until the thread has done with whoever
        # left, so that nobody is given a connection that is busy.
        if state.asyncio_safe and connection.driver_connection.may_be_in_transaction:
            connection.rollback()

    @event.listens_for(engine.sync_engine, "invalidate")
    def roll_back(connection: Any, _entry: ConnectionPoolEntry, _error: BaseException | None) -> None:
        # Closing does not end a transaction as long as anybody refers to a cursor of it, such as a traceback; and the
        # lock of the file is held until it ends.
        if in_greenlet():
            connection.run_async(lambda driver: asyncio.shield(_roll_back_quietly(driver)))

    return engine


def _enable_wal(connection: sqlite3.Connection, deadline: float) -> None:
    """Have the file written ahead of. That changes a new one, and where another process is changing it, SQLite does not
    wait as it does for other locks: it is asked again until then, on the monotonic clock."""
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & _PRIMARY_CODE_MASK != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(_WAL_RETRY_S)  # in the connection's own thread


async def _roll_back_quietly(driver: aiosqlite.Connection) -> None:
    with suppress(sqlite3.Error, ValueError):  # it is lost, or closed
        await driver.rollback()


def _make_postgresql_engine(url: URL, deadline_s: float) -> AsyncEngine:
    milliseconds = str(int(deadline_s * 1000))
    engine = create_async_engine(
        url,
        pool_size=10,
        max_overflow=10,
        pool_timeout=deadline_s,
        hide_parameters=True,
        connect_args={
            "timeout": deadline_s,
            "server_settings": {
                "application_name": "responses-gateway",
                # The server gives up what the gateway has given up, or a gateway that hangs would hold its locks.
                "statement_timeout": milliseconds,
                "idle_in_transaction_session_timeout": milliseconds,
                # Compiling a query to machine code takes longer than any of ours.
                "jit": "off",
                # A plan kept from when a table was small may go through all of it once it is large.
                "plan_cache_mode": "force_custom_plan",
            },
        },
    )

    @event.listens_for(engine.sync_engine, "checkin")
    def note(_connection: Any, entry: ConnectionPoolEntry) -> None:
        entry.info["used"] = time.monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def still_there(connection: Any, entry: ConnectionPoolEntry, _proxy: object) -> None:
        if time.monotonic() - entry.info.get("used", time.monotonic()) < _PING_AFTER_IDLE_S:
            return
        dialect = engine.sync_engine.dialect
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error

    return engine
