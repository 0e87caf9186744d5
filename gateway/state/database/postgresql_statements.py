"""Statements of PostgreSQL that are transactions by themselves, executed by the driver directly.

SQLAlchemy compiles them. Its own checkout of a connection and its own execution took longer than everything else that
the gateway does for the statement.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Final

from sqlalchemy import Select
from sqlalchemy.dialects.postgresql import asyncpg as asyncpg_dialect
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

_MAX_CONNECTIONS: Final = 16
"""The most statements at one time. The pool's other connections are left to transactions."""

_MAX_IDLE: Final = 10
"""The most connections that wait for the next statement."""

_MAX_IDLE_S: Final = 1.0
"""A connection that was idle for longer goes back to the pool, which pings it before its next use: the server may have
been restarted."""

_CLOSE_TIMEOUT_S: Final = 1.0
"""The longest wait of a failed or abandoned statement for its connection to close. It normally takes no time."""

_INTEGRITY_STATE_CLASS: Final = "23"

ReleaseConnection = Callable[[AsyncConnection], asyncio.Task[None]]
"""Starts to close a connection, or to give it back to the pool, in a task of its own."""


class PostgresStatements:
    """Executes single statements on connections that it opens with `connect`, from the pool that transactions use.

    A few connections wait outside of the pool for the next statement, for at most a second. They are given back by
    `release`; one on which a statement failed is closed by `discard`. `is_contended` says whether others wait for a
    connection.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[AsyncConnection]],
        release: ReleaseConnection,
        discard: ReleaseConnection,
        is_contended: Callable[[], bool],
    ) -> None:
        self._connect = connect
        self._release = release
        self._discard = discard
        self._is_contended = is_contended
        self._turns = asyncio.Semaphore(_MAX_CONNECTIONS)
        self._idle: list[tuple[AsyncConnection, Any, float]] = []
        """Connections with the driver's connection and the time since which they are idle, the latest last."""
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def fetch_number(self, statement: Select[int], parameters: Mapping[str, Any]) -> int:
        """Executes a statement and returns the number that it selects.

        Raises SQLAlchemyError, with the driver's error in `orig`, and OSError. If the caller leaves, this returns after
        the connection was closed.
        """
        text, names, constants = _compile(statement)
        values = {**constants, **parameters}
        async with self._turns:
            connection, driver = await self._take_connection()
            try:
                number: int = await driver.fetchval(text, *[values[name] for name in names])
            except BaseException as error:
                # The outcome of a statement that its caller left is decided once the connection is closed.
                await asyncio.wait({self._discard(connection)}, timeout=_CLOSE_TIMEOUT_S)
                if isinstance(error, list_driver_errors()):
                    raise _wrap_error(error) from error
                raise
            self._put_back(connection, driver)
        return number

    def release_one(self) -> None:
        """Gives the connection back that is idle for the longest time, if there is one."""
        if self._idle:
            self._release_first()

    def close(self) -> None:
        """Gives back every connection that is idle. Those in use are given back after their statements."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._release_idle_since(math.inf)

    async def _take_connection(self) -> tuple[AsyncConnection, Any]:
        while self._idle:
            connection, driver, _ = self._idle.pop()
            if not driver.is_closed():
                return connection, driver
            self._discard(connection)
        connection = await self._connect()
        return connection, (await connection.get_raw_connection()).driver_connection

    def _put_back(self, connection: AsyncConnection, driver: Any) -> None:
        may_be_awaited = self._turns.locked()  # by another statement, which then takes it
        is_enough = len(self._idle) >= _MAX_IDLE or self._is_contended()
        if self._closed or (is_enough and not may_be_awaited):
            self._release(connection)
            return
        loop = asyncio.get_running_loop()
        self._idle.append((connection, driver, loop.time()))
        if self._timer is None:
            self._timer = loop.call_later(_MAX_IDLE_S, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        self._release_idle_since(loop.time() - _MAX_IDLE_S)
        if self._idle:
            self._timer = loop.call_at(self._idle[0][2] + _MAX_IDLE_S, self._on_timer)

    def _release_idle_since(self, until: float) -> None:
        """Gives back the connections that are idle since `until` or longer."""
        while self._idle and self._idle[0][2] <= until:
            self._release_first()

    def _release_first(self) -> None:
        connection, driver, _ = self._idle.pop(0)
        (self._discard if driver.is_closed() else self._release)(connection)


@cache
def _compile(statement: Select[int]) -> tuple[str, tuple[str, ...], Mapping[str, Any]]:
    """Returns a statement's text, the names of its parameters in their order, and the values that it sets itself."""
    dialect: Any = asyncpg_dialect.dialect
    compiled: Any = statement.compile(dialect=dialect())
    return str(compiled), tuple(compiled.positiontup), compiled.params


def _wrap_error(error: Exception) -> DBAPIError:
    """Returns an error of the driver as SQLAlchemy would raise it."""
    is_conflict = str(getattr(error, "sqlstate", "")).startswith(_INTEGRITY_STATE_CLASS)
    return (IntegrityError if is_conflict else DBAPIError)(None, None, error, hide_parameters=True)


def list_driver_errors() -> tuple[type[Exception], ...]:
    """Returns the driver's exceptions. It is imported here, so that a gateway with SQLite does not load it.

    A connection that is lost while a statement begins raises InternalClientError.
    """
    from asyncpg.exceptions import InterfaceError, InternalClientError, PostgresError  # type: ignore[import-untyped]

    return PostgresError, InterfaceError, InternalClientError
