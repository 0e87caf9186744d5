"""One database, SQLite or PostgreSQL: connections, transactions with a deadline, and what is wrong with it.

Nobody else writes SQL as text: what is in this file is settings and the opening of transactions.
"""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

import structlog
from sqlalchemy import BigInteger, ColumnElement, cast, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from gateway.errors import StoreUnavailable
from gateway.state.database.engines import TransactionMode, begin_sqlite, driver_of, make_engines, may_be_in_transaction
from gateway.state.database.failures import TIMEOUT_MESSAGE, describe_error, is_data_error
from gateway.state.database.tables import workers
from gateway.state.store import SchemaMismatch

_log = structlog.get_logger(__name__)

_UNIX_EPOCH_JULIAN_DAY: Final = 2_440_587.5

_CLOSE_TIMEOUT_S: Final = 1.0
"""How long a transaction waits for its connection to be free again, which takes none unless something is wrong."""

_PROBE_INTERVAL_S: Final = 1.0
"""Seconds between two looks whether a database that failed is well again."""

_Result = TypeVar("_Result")
PrepareHook = Callable[[AsyncConnection], Awaitable[None]]


class Database:
    """`async with write() as connection:` is one transaction; so is `read()`, which sees one moment and writes nothing.

    Both raise StoreUnavailable when the database does not answer within `deadline_s`, and the two seconds its driver
    has to hang up, or fails. A transaction that is left by an exception, cancellation included, has done nothing.
    `prepare` runs once, in the first transaction that succeeds, before any other.
    """

    def __init__(self, url: str, *, deadline_s: float, prepare: PrepareHook | None = None) -> None:
        self.url = make_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._deadline_s = deadline_s
        self._engines = make_engines(self.url, deadline_s=deadline_s)
        self._prepare_hook = prepare
        self._prepare_lock = asyncio.Lock()
        # SQLite has one writer at a time: waiting here is fair and cheap, waiting in the file's lock is neither.
        self._write_lock = asyncio.Lock()
        self._writer: AsyncConnection | None = None
        self._closed = False
        self._failures: dict[TransactionMode, str] = {}
        self._background_tasks: set[asyncio.Task[None]] = set()
        self._probe: asyncio.Task[None] | None = None

    @property
    def degraded_reason(self) -> str | None:
        """What is wrong, in words; None when the last write and the last read went well."""
        return self._failures.get("write") or self._failures.get("read")

    @asynccontextmanager
    async def write_transaction(self) -> AsyncGenerator[AsyncConnection, None]:
        async with self._guard_transaction("write"):
            await self._ensure_prepared()
            async with self._open_write_transaction() as connection:
                yield connection

    async def run_transaction(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """A transaction of SQLite's that nothing is waited for within: `work` runs in the connection's thread."""
        async with self._guard_transaction("write"):
            await self._ensure_prepared()
            async with self._acquire_sqlite_writer() as connection:
                return await driver_of(connection).run_transaction(work)

    @asynccontextmanager
    async def read_transaction(self) -> AsyncGenerator[AsyncConnection, None]:
        async with self._guard_transaction("read"):
            await self._ensure_prepared()
            async with self._open_transaction("read") as connection:
                yield connection

    async def prepare(self) -> None:
        """Connect, and prepare now. Raises SchemaMismatch and StoreUnavailable."""
        async with self._guard_transaction("write"):
            await self._prepare_once()

    async def aclose(self) -> None:
        """Close every connection. Transactions under way are left to end, for as long as any transaction may take."""
        async with self._write_lock:
            self._closed = True
            if self._writer is not None:
                await self._writer.close()
                self._writer = None
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.wait({self._probe})
        if self._background_tasks:
            await asyncio.wait(self._background_tasks, timeout=self._deadline_s)
        await self._engines["write"].dispose()

    def now_us(self) -> ColumnElement[int]:
        """The database's clock, so that replicas whose clocks differ agree on leases."""
        if self.is_sqlite:
            # `unixepoch('subsec')` would be SQLite 3.42; this is exact to the millisecond.
            return cast((func.julianday("now") - _UNIX_EPOCH_JULIAN_DAY) * 86_400_000_000, BigInteger)
        return cast(func.extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)

    async def acquire_advisory_lock(self, connection: AsyncConnection, lock_name: str) -> None:
        """Wait until no other transaction is under way that asked for the same."""
        if not self.is_sqlite:
            await connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(lock_name, 0))))

    async def _ensure_prepared(self) -> None:
        if self._prepare_hook is None:
            return
        try:
            await self._prepare_once()
        except SchemaMismatch as error:
            # It was down when the server started, which would have refused to.
            raise self._report_failure("write", str(error)) from error

    async def _prepare_once(self) -> None:
        async with self._prepare_lock:
            if self._prepare_hook is not None:
                async with self._open_write_transaction() as connection:
                    await self._prepare_hook(connection)
                self._prepare_hook = None

    @asynccontextmanager
    async def _open_write_transaction(self) -> AsyncGenerator[AsyncConnection, None]:
        if not self.is_sqlite:
            async with self._open_transaction("write") as connection:
                yield connection
                await connection.commit()
            return
        async with self._acquire_sqlite_writer() as connection:
            await begin_sqlite(connection, "write")
            yield connection
            await connection.commit()
            if may_be_in_transaction(connection):  # nothing was executed, so nothing was committed either
                await driver_of(connection).rollback()

    @asynccontextmanager
    async def _acquire_sqlite_writer(self) -> AsyncGenerator[AsyncConnection, None]:
        """The one connection that writes to SQLite. It is kept until something goes wrong: taking one from the pool and
        giving it back costs as much as a statement."""
        async with self._write_lock:
            if self._closed:
                raise StoreUnavailable("the server is shutting down")
            if self._writer is None:
                self._writer = await self._connect("write")
            connection = self._writer
            try:
                yield connection
            except BaseException:
                self._writer = None
                await self._release_connection(connection)
                raise

    @asynccontextmanager
    async def _open_transaction(self, mode: TransactionMode) -> AsyncGenerator[AsyncConnection, None]:
        """A connection with a transaction, which is rolled back unless it was committed."""
        connection = await self._connect(mode)
        try:
            if self.is_sqlite:
                await begin_sqlite(connection, mode)
            yield connection
        finally:
            await self._release_connection(connection)

    async def _connect(self, mode: TransactionMode) -> AsyncConnection:
        """Drivers are not interrupted while they connect or let go: they would leave a thread or a socket behind."""
        connecting = asyncio.get_running_loop().create_task(_start_connection(self._engines[mode]))
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            self._run_in_background(_close_when_connected(connecting))
            raise

    async def _release_connection(self, connection: AsyncConnection) -> None:
        is_uncommitted = connection.in_transaction() or (self.is_sqlite and may_be_in_transaction(connection))
        closing = self._run_in_background(connection.close())
        # What was to be written is committed or not by now: how the letting go ends says nothing about it.
        if is_uncommitted:
            await asyncio.wait({closing}, timeout=_CLOSE_TIMEOUT_S)

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._on_background_done)
        return task

    def _on_background_done(self, done: asyncio.Task[None]) -> None:
        self._background_tasks.discard(done)
        if not done.cancelled() and (error := done.exception()) is not None:
            _log.info("store_connection_lost", why=describe_error(error))

    @asynccontextmanager
    async def _guard_transaction(self, mode: TransactionMode) -> AsyncGenerator[None, None]:
        try:
            async with asyncio.timeout(self._deadline_s):
                yield
        except TimeoutError as error:
            raise self._report_failure(mode, TIMEOUT_MESSAGE) from error
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            if is_data_error(error):
                raise
            raise self._report_failure(mode, describe_error(error)) from error
        if self._failures.pop(mode, None) is not None:
            _log.info("store_available", use=mode)

    def _report_failure(self, mode: TransactionMode, why: str) -> StoreUnavailable:
        if self._failures.get(mode) != why:
            _log.warning("store_unavailable", use=mode, why=why)
        self._failures[mode] = why
        if not self._closed and (self._probe is None or self._probe.done()):
            self._probe = asyncio.get_running_loop().create_task(self._probe_until_healthy())
        return StoreUnavailable()

    async def _probe_until_healthy(self) -> None:
        """Look again and again: where requests stay away from what is degraded, nobody else would find out."""
        upsert = sqlite.insert if self.is_sqlite else postgresql.insert
        insert_probe_row = upsert(workers).values(id="", alive_until_us=0)
        upsert_probe_row = insert_probe_row.on_conflict_do_update(
            index_elements=[workers.c.id], set_={"alive_until_us": 0}
        )
        while self._failures:
            await asyncio.sleep(_PROBE_INTERVAL_S)
            with suppress(StoreUnavailable):
                async with self.write_transaction() as connection:
                    await connection.execute(upsert_probe_row)
                async with self.read_transaction() as connection:
                    await connection.execute(select(workers.c.id).limit(1))


async def _start_connection(engine: AsyncEngine) -> AsyncConnection:
    return await engine.connect().start()


async def _close_when_connected(connecting: asyncio.Task[AsyncConnection]) -> None:
    connection = await connecting
    await connection.close()
