"""SQLAlchemy engines as the store needs them: the settings of each database, and how its transactions begin."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import aiosqlite
from sqlalchemy import URL, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.util.concurrency import in_greenlet

from gateway.state.sqlite_driver import OneTripConnection

READING: Final[dict[bool, dict[str, Any]]] = {
    True: {"reading": True},
    False: {"isolation_level": "REPEATABLE READ"},
}
"""SQLite or not -> options of an engine for transactions that see one moment and write nothing."""

_LOOK_AGAIN_S: Final = 0.02
_PRIMARY: Final = 0xFF
"""Of SQLite's error codes, the part that says what went wrong; the rest says where."""

_IDLE_S: Final = 1.0
"""A connection unused for longer is asked whether it is still there: the server may have been restarted."""


def make_engine(url: URL, *, deadline_s: float) -> AsyncEngine:
    """An engine, not connected yet. Its errors never hold the values of a statement, which are what users said."""
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, deadline_s)
    return _postgresql(url, deadline_s)


def _sqlite(url: URL, deadline_s: float) -> AsyncEngine:
    patience_s = deadline_s * 0.9
    settings = (
        # What was acknowledged outlives a loss of power. NORMAL saves less than a millisecond of each commit.
        "PRAGMA synchronous=FULL",
        # Another process has the lock: an error a little before the deadline tells more than the deadline.
        f"PRAGMA busy_timeout={int(patience_s * 1000)}",
    )

    def connected() -> sqlite3.Connection:
        arguments, options = engine.sync_engine.dialect.create_connect_args(url)
        # The driver's own way of opening transactions leaves reads outside of them; ours is "begin" below.
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect
        connection = connect(*arguments, **options, isolation_level=None)
        try:
            for setting in settings:
                connection.execute(setting).close()
            _log_ahead(connection, time.monotonic() + patience_s)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    engine = create_async_engine(
        url,
        pool_size=8,
        max_overflow=8,
        pool_timeout=deadline_s,
        hide_parameters=True,
        async_creator=lambda: OneTripConnection(connected),
    )

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Any) -> None:
        # A transaction that reads first and then writes fails when another one wrote meanwhile; this one waits instead.
        statement = "BEGIN" if connection.get_execution_options().get("reading") else "BEGIN IMMEDIATE"
        connection.connection.dbapi_connection.run_async(lambda driver: driver.execute(statement))

    @event.listens_for(engine.sync_engine, "invalidate")
    def roll_back(connection: Any, _entry: ConnectionPoolEntry, _error: BaseException | None) -> None:
        # Closing does not end a transaction as long as anybody refers to a cursor of it, such as a traceback; and the
        # lock of the file is held until it ends.
        if in_greenlet():
            connection.run_async(lambda driver: asyncio.shield(_rolled_back(driver)))

    return engine


def _log_ahead(connection: sqlite3.Connection, until: float) -> None:
    """Have the file written ahead of. That changes a new one, and where another process is changing it, SQLite does not
    wait as it does for other locks: it is asked again until then, on the monotonic clock."""
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & _PRIMARY != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(_LOOK_AGAIN_S)  # in the connection's own thread


async def _rolled_back(driver: aiosqlite.Connection) -> None:
    with suppress(sqlite3.Error, ValueError):  # it is lost, or closed
        await driver.rollback()


def _postgresql(url: URL, deadline_s: float) -> AsyncEngine:
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
        if time.monotonic() - entry.info.get("used", time.monotonic()) < _IDLE_S:
            return
        dialect = engine.sync_engine.dialect
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error

    return engine
