"""One database, SQLite or PostgreSQL: its connections, its transactions with a deadline, and its health.

Knows no table except `workers`, which it writes to probe whether the database has recovered.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import structlog
from sqlalchemy import BigInteger, ColumnElement, CursorResult, Insert, Row, Select, cast, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from dataplane.sharing.fair_turns import FairTurns
from dataplane.sharing.work_pool import run_in_pool
from gateway.errors import StoreUnavailable
from gateway.histograms import Histogram
from gateway.state.database.engines import (
    TransactionMode,
    begin_sqlite,
    close_for_good,
    close_when_connected,
    get_driver,
    is_exhausted,
    make_engines,
    may_be_in_transaction,
    start_connection,
)
from gateway.state.database.failures import DatabasePlace, describe_error, is_conflict, is_data_error
from gateway.state.database.health import DatabaseHealth
from gateway.state.database.postgresql_statements import PostgresStatements
from gateway.state.database.sqlite_file import WatchedFile, sqlite_path_of
from gateway.state.database.sqlite_writer import SqliteWriter
from gateway.state.database.tables import responses, workers
from gateway.state.database.write_queue import ROW_BYTES
from gateway.state.values import SchemaMismatch

_log = structlog.get_logger(__name__)

_UNIX_EPOCH_JULIAN_DAY: Final = 2_440_587.5

_CLOSE_TIMEOUT_S: Final = 1.0
"""The longest wait of a transaction for its connection to close. It normally takes no time."""

MAINTENANCE: Final = ""
"""Stands for an owner where a transaction is for no single one: leases, migrations, probes. They are short, so if one
of them takes too long, the database does not work."""

RETENTION: Final = "\0retention"
"""Stands for an owner where a transaction deletes what has expired, which may take long. No key has this name."""

_SQLITE_READERS: Final = 15
_POSTGRESQL_USERS: Final = 20
"""How many connections the owners use at once. On SQLite the writer has another one."""

_FAILURES: Final = (SQLAlchemyError, sqlite3.Error, OSError)
"""The errors of a database. TimeoutError is an OSError."""

_Result = TypeVar("_Result")
PrepareHook = Callable[[AsyncConnection], Awaitable[None]]


_MAX_PAGE_BYTES: Final = 16 * 1024 * 1024


class Database:
    """Runs transactions: `async with database.write_transaction() as connection:` is one, committed at its end.

    `read_transaction(owner)` is one that sees one snapshot and writes nothing. Both raise StoreUnavailable if the
    database fails, or does not respond within `deadline_s` plus the two seconds that its driver has to disconnect. A
    transaction that is left by an exception, cancellation included, has no effect. `prepare` runs once, in the first
    transaction that succeeds, before any other.
    """

    def __init__(
        self,
        url: str,
        *,
        deadline_s: float,
        prepare: PrepareHook | None = None,
        max_page_bytes: int = _MAX_PAGE_BYTES,
    ) -> None:
        self.url = make_url(url)
        self.max_page_bytes: Final = max_page_bytes
        """The most bytes of stored JSON that are read for one page of a list, if it has more than one row."""
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._deadline_s = deadline_s
        self._engines = make_engines(self.url, deadline_s=deadline_s)
        self._prepare_hook = prepare
        self._prepare_lock = asyncio.Lock()
        path = sqlite_path_of(url)
        self._file = None if path is None else WatchedFile(path)
        self._sqlite_writer = SqliteWriter(lambda: self._connect("write"), self._release_connection, self._file)
        self._statements = PostgresStatements(
            lambda: self._connect("write"),
            release=lambda connection: self._run_in_background(connection.close()),
            discard=lambda connection: self._run_in_background(close_for_good(connection)),
            is_contended=lambda: self._connecting > 0,
        )
        self._health = DatabaseHealth(self._probe, DatabasePlace.of(self.url))
        self._turns = FairTurns(_SQLITE_READERS if self.is_sqlite else _POSTGRESQL_USERS)
        self._connecting = 0
        self._background_tasks: set[asyncio.Task[None]] = set()
        self.times: Mapping[str, Histogram] = {"read": Histogram(), "write": Histogram()}
        """Seconds of the transactions that succeeded, with their waits."""

    @property
    def degraded_reason(self) -> str | None:
        """The problem of the database, as text. None if the last write and the last read succeeded, and the file is
        still there. A use that took too long counts only if a probe fails too."""
        if self._health.failure is None and self._file is not None:
            return self._file.find_problem(writes=True)
        return self._health.failure

    @asynccontextmanager
    async def write_transaction(self, owner: str = MAINTENANCE) -> AsyncGenerator[AsyncConnection, None]:
        """Runs the block in one transaction, which is committed at the block's end. Raises StoreUnavailable.

        `owner` is whose data it writes: on SQLite, which has one writer at a time, owners take turns.
        """
        async with self._guard_transaction("write", owner):
            if self._prepare_hook is not None:
                await self._ensure_prepared()
            async with self._open_write_transaction(owner) as connection:
                yield connection

    async def run_transaction(
        self, work: Callable[[sqlite3.Connection], _Result], *, owner: str = MAINTENANCE, size: int = ROW_BYTES
    ) -> _Result:
        """Runs `work` on the SQLite connection in a transaction that other works may share, and returns its result.

        `work` is synchronous, may be executed in any thread, and again after a rollback. It has an effect only as a
        whole, and none if it raises. `size` is about how many bytes it writes, ROW_BYTES per row included. Raises
        StoreUnavailable.
        """
        if self._prepare_hook is not None:
            async with self._guard_transaction("write"):
                await self._ensure_prepared()
        began = time.perf_counter()
        # As in `_guard_transaction`, without its context managers: they took a tenth of the time of a short write.
        try:
            result = await self._sqlite_writer.run(work, owner=owner, size=size, deadline_s=self._deadline_s)
        except _FAILURES as error:
            if is_data_error(error):
                raise
            await self._report_failure("write", owner, error)
            raise StoreUnavailable from error
        self._health.record_success("write")
        self.times["write"].observe(time.perf_counter() - began)
        return result

    async def run_statement(
        self, statement: Select[int], parameters: Mapping[str, Any], *, owner: str = MAINTENANCE
    ) -> int:
        """Executes one statement on PostgreSQL, as a transaction by itself, and returns the number that it selects.

        That is one trip to the server instead of three or more. Raises StoreUnavailable.
        """
        async with self._guard_transaction("write", owner):
            if self._prepare_hook is not None:
                await self._ensure_prepared()
            async with self._take_turn(owner):
                return await self._statements.fetch_number(statement, parameters)

    @asynccontextmanager
    async def read_transaction(self, owner: str = MAINTENANCE) -> AsyncGenerator[AsyncConnection, None]:
        """Runs the block in one transaction that sees one snapshot and writes nothing. Raises StoreUnavailable.

        `owner` is whose data it reads: owners share the connections.
        """
        async with self._guard_transaction("read", owner):
            if self._prepare_hook is not None:
                await self._ensure_prepared()
            async with self._open_transaction("read", owner) as connection:
                yield connection

    async def prepare(self, *, deadline_s: float | None = None) -> None:
        """Connects and runs the `prepare` hook now, within `deadline_s` if the hook takes longer than a transaction.

        Raises SchemaMismatch and StoreUnavailable.
        """
        async with self._guard_transaction("write", deadline_s=deadline_s):
            await self._prepare_once()

    async def aclose(self) -> None:
        """Closes every connection. Running transactions may end first, within the deadline of a transaction."""
        await self._health.aclose()
        await self._sqlite_writer.aclose()
        self._statements.close()
        if self._background_tasks:
            await asyncio.wait(self._background_tasks, timeout=self._deadline_s)
        await self._engines["write"].dispose()

    def now_us_expression(self) -> ColumnElement[int]:
        """Returns an expression for the database's time in epoch microseconds.

        Leases use it, so that replicas whose clocks differ agree on them.
        """
        if self.is_sqlite:
            # `unixepoch('subsec')` needs SQLite 3.42. This is exact to the millisecond.
            return cast((func.julianday("now") - _UNIX_EPOCH_JULIAN_DAY) * 86_400_000_000, BigInteger)
        return cast(func.extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)

    async def acquire_advisory_lock(self, connection: AsyncConnection, lock_name: str) -> None:
        """Waits until no other transaction has the lock `lock_name`, and holds it until this transaction ends.

        Does nothing on SQLite, which has one writer at a time.
        """
        if not self.is_sqlite:
            await connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(lock_name, 0))))

    async def _ensure_prepared(self) -> None:
        try:
            await self._prepare_once()
        except SchemaMismatch as error:
            # The database was down when the server started; otherwise the server would have refused to start.
            self._health.record_failure("write", str(error))
            raise StoreUnavailable from error

    async def _prepare_once(self) -> None:
        async with self._prepare_lock:
            if self._prepare_hook is not None:
                async with self._open_write_transaction(MAINTENANCE) as connection:
                    await self._prepare_hook(connection)
                self._prepare_hook = None

    @asynccontextmanager
    async def _open_write_transaction(self, owner: str) -> AsyncGenerator[AsyncConnection, None]:
        if not self.is_sqlite:
            async with self._open_transaction("write", owner) as connection:
                yield connection
                await connection.commit()
            return
        async with self._sqlite_writer.acquire(owner) as connection:
            await begin_sqlite(connection, "write")
            yield connection
            await connection.commit()
            if may_be_in_transaction(connection):  # no statement was executed, so `commit` did not end the transaction
                await get_driver(connection).rollback()
            self._sqlite_writer.verify_commit()

    @asynccontextmanager
    async def _open_transaction(self, mode: TransactionMode, owner: str) -> AsyncGenerator[AsyncConnection, None]:
        """Yields a connection with an open transaction, which is rolled back unless the block commits it."""
        async with self._take_turn(owner):
            connection = await self._connect(mode)
            try:
                if self.is_sqlite:
                    await begin_sqlite(connection, mode)
                yield connection
            finally:
                await self._release_connection(connection)

    @asynccontextmanager
    async def _take_turn(self, owner: str) -> AsyncGenerator[None, None]:
        """Waits for the owner's turn to use a connection. The gateway itself does not wait for owners."""
        if owner == MAINTENANCE:
            yield
            return
        await self._turns.enter(owner)
        try:
            yield
        finally:
            self._turns.leave(owner)

    async def _connect(self, mode: TransactionMode) -> AsyncConnection:
        """Connects in a task that cancellation does not interrupt.

        A driver that is interrupted while it connects or closes leaves a thread or a socket behind.
        """
        if is_exhausted(self._engines[mode]):
            self._statements.release_one()
        connecting = asyncio.get_running_loop().create_task(start_connection(self._engines[mode]))
        self._connecting += 1
        try:
            connection = await asyncio.shield(connecting)
        except asyncio.CancelledError:
            self._run_in_background(close_when_connected(connecting))
            raise
        finally:
            self._connecting -= 1
        if self._file is not None:
            self._file.record_identity()
        return connection

    async def _release_connection(self, connection: AsyncConnection) -> None:
        is_uncommitted = connection.in_transaction() or (self.is_sqlite and may_be_in_transaction(connection))
        closing = self._run_in_background(connection.close())
        # The outcome of the transaction is decided by now, so errors of closing the connection do not matter to it.
        if is_uncommitted:
            await asyncio.wait({closing}, timeout=_CLOSE_TIMEOUT_S)

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._on_background_done)
        return task

    def _on_background_done(self, task: asyncio.Task[None]) -> None:
        self._background_tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.info("store_connection_lost", why=describe_error(error))

    @asynccontextmanager
    async def _guard_transaction(
        self, mode: TransactionMode, owner: str = MAINTENANCE, *, deadline_s: float | None = None
    ) -> AsyncGenerator[None, None]:
        began = time.perf_counter()
        try:
            if self._file is not None:
                self._file.verify(writes=mode == "write")
            async with asyncio.timeout(self._deadline_s if deadline_s is None else deadline_s):
                yield
        except _FAILURES as error:
            if is_data_error(error):
                raise
            await self._report_failure(mode, owner, error)
            raise StoreUnavailable from error
        self._health.record_success(mode)
        self.times[mode].observe(time.perf_counter() - began)

    async def _report_failure(self, mode: TransactionMode, owner: str, error: BaseException) -> None:
        if owner == MAINTENANCE and not is_conflict(error):
            self._health.record_failure(mode, describe_error(error))
        else:
            await self._health.judge_failure(mode, error)

    async def _probe(self) -> None:
        """Writes and reads a little, in the table of responses too, so that it waits for the same locks as requests."""
        upsert = sqlite.insert if self.is_sqlite else postgresql.insert
        insert_probe_row = upsert(workers).values(id="", alive_until_us=0)
        upsert_probe_row = insert_probe_row.on_conflict_do_update(
            index_elements=[workers.c.id], set_={"alive_until_us": 0}
        )
        async with self.write_transaction() as connection:
            await connection.execute(upsert_probe_row)
            await connection.execute(delete(responses).where(responses.c.owner == MAINTENANCE, responses.c.id == ""))
        async with self.read_transaction() as connection:
            await connection.execute(select(responses.c.id).limit(1))


ROWS_AT_ONCE: Final = 1000
"""So many rows take a few milliseconds."""


async def fetch_rows(result: CursorResult[Any]) -> Sequence[Row[Any]]:
    """Returns all rows of a result. Many are built in a thread."""
    rows = result.fetchmany(ROWS_AT_ONCE)
    return rows if len(rows) < ROWS_AT_ONCE else [*rows, *await run_in_pool(result.all)]


async def insert_rows(connection: AsyncConnection, statement: Insert, rows: Sequence[Mapping[str, Any]]) -> None:
    """Inserts rows, a part of them at a time."""
    for start in range(0, len(rows), ROWS_AT_ONCE):
        await connection.execute(statement, rows[start : start + ROWS_AT_ONCE])
