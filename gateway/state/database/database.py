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
from gateway.state.database.engines import Use, begin_sqlite, driver_of, make_engines, may_be_in_transaction
from gateway.state.database.failures import TOO_SLOW, is_refused, symptom
from gateway.state.database.tables import workers
from gateway.state.store import SchemaMismatch

_log = structlog.get_logger(__name__)

_JULIAN_1970: Final = 2_440_587.5

_CLOSING_S: Final = 1.0
"""How long a transaction waits for its connection to be free again, which takes none unless something is wrong."""

_RETRY_S: Final = 1.0
"""Seconds between two looks whether a database that failed is well again."""

Result = TypeVar("Result")
Prepare = Callable[[AsyncConnection], Awaitable[None]]


class Database:
    """`async with write() as connection:` is one transaction; so is `read()`, which sees one moment and writes nothing.

    Both raise StoreUnavailable when the database does not answer within `deadline_s`, and the two seconds its driver
    has to hang up, or fails. A transaction that is left by an exception, cancellation included, has done nothing.
    `prepare` runs once, in the first transaction that succeeds, before any other.
    """

    def __init__(self, url: str, *, deadline_s: float, prepare: Prepare | None = None) -> None:
        self.url = make_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._deadline_s = deadline_s
        self._engines = make_engines(self.url, deadline_s=deadline_s)
        self._prepare = prepare
        self._preparing = asyncio.Lock()
        # SQLite has one writer at a time: waiting here is fair and cheap, waiting in the file's lock is neither.
        self._turn = asyncio.Lock()
        self._writer: AsyncConnection | None = None
        self._closed = False
        self._wrong: dict[Use, str] = {}
        self._unfinished: set[asyncio.Task[None]] = set()
        self._probe: asyncio.Task[None] | None = None

    @property
    def degraded(self) -> str | None:
        """What is wrong, in words; None when the last write and the last read went well."""
        return self._wrong.get("write") or self._wrong.get("read")

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[AsyncConnection, None]:
        async with self._answering("write"):
            await self._prepared()
            async with self._written() as connection:
                yield connection

    async def at_once(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """A transaction of SQLite's that nothing is waited for within: `work` runs in the connection's thread."""
        async with self._answering("write"):
            await self._prepared()
            async with self._writing() as connection:
                return await driver_of(connection).at_once(work)

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[AsyncConnection, None]:
        async with self._answering("read"):
            await self._prepared()
            async with self._connected("read") as connection:
                yield connection

    async def prepare(self) -> None:
        """Connect, and prepare now. Raises SchemaMismatch and StoreUnavailable."""
        async with self._answering("write"):
            await self._prepared_first()

    async def aclose(self) -> None:
        """Close every connection. Transactions under way are left to end, for as long as any transaction may take."""
        async with self._turn:
            self._closed = True
            if self._writer is not None:
                await self._writer.close()
                self._writer = None
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.wait({self._probe})
        if self._unfinished:
            await asyncio.wait(self._unfinished, timeout=self._deadline_s)
        await self._engines["write"].dispose()

    def now_us(self) -> ColumnElement[int]:
        """The database's clock, so that replicas whose clocks differ agree on leases."""
        if self.is_sqlite:
            # `unixepoch('subsec')` would be SQLite 3.42; this is exact to the millisecond.
            return cast((func.julianday("now") - _JULIAN_1970) * 86_400_000_000, BigInteger)
        return cast(func.extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)

    async def one_at_a_time(self, connection: AsyncConnection, what: str) -> None:
        """Wait until no other transaction is under way that asked for the same."""
        if not self.is_sqlite:
            await connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(what, 0))))

    async def _prepared(self) -> None:
        if self._prepare is None:
            return
        try:
            await self._prepared_first()
        except SchemaMismatch as error:
            # It was down when the server started, which would have refused to.
            raise self._unavailable("write", str(error)) from error

    async def _prepared_first(self) -> None:
        async with self._preparing:
            if self._prepare is not None:
                async with self._written() as connection:
                    await self._prepare(connection)
                self._prepare = None

    @asynccontextmanager
    async def _written(self) -> AsyncGenerator[AsyncConnection, None]:
        if not self.is_sqlite:
            async with self._connected("write") as connection:
                yield connection
                await connection.commit()
            return
        async with self._writing() as connection:
            await begin_sqlite(connection, "write")
            yield connection
            await connection.commit()
            if may_be_in_transaction(connection):  # nothing was executed, so nothing was committed either
                await driver_of(connection).rollback()

    @asynccontextmanager
    async def _writing(self) -> AsyncGenerator[AsyncConnection, None]:
        """The one connection that writes to SQLite. It is kept until something goes wrong: taking one from the pool and
        giving it back costs as much as a statement."""
        async with self._turn:
            if self._closed:
                raise StoreUnavailable("the server is shutting down")
            if self._writer is None:
                self._writer = await self._connect("write")
            connection = self._writer
            try:
                yield connection
            except BaseException:
                self._writer = None
                await self._let_go_of(connection)
                raise

    @asynccontextmanager
    async def _connected(self, use: Use) -> AsyncGenerator[AsyncConnection, None]:
        """A connection with a transaction, which is rolled back unless it was committed."""
        connection = await self._connect(use)
        try:
            if self.is_sqlite:
                await begin_sqlite(connection, use)
            yield connection
        finally:
            await self._let_go_of(connection)

    async def _connect(self, use: Use) -> AsyncConnection:
        """Drivers are not interrupted while they connect or let go: they would leave a thread or a socket behind."""
        connecting = asyncio.get_running_loop().create_task(_connection_of(self._engines[use]))
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            self._finish(_close_when_connected(connecting))
            raise

    async def _let_go_of(self, connection: AsyncConnection) -> None:
        is_uncommitted = connection.in_transaction() or (self.is_sqlite and may_be_in_transaction(connection))
        closing = self._finish(connection.close())
        # What was to be written is committed or not by now: how the letting go ends says nothing about it.
        if is_uncommitted:
            await asyncio.wait({closing}, timeout=_CLOSING_S)

    def _finish(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._unfinished.add(task)
        task.add_done_callback(self._let_go)
        return task

    def _let_go(self, done: asyncio.Task[None]) -> None:
        self._unfinished.discard(done)
        if not done.cancelled() and (error := done.exception()) is not None:
            _log.info("store_connection_lost", why=symptom(error))

    @asynccontextmanager
    async def _answering(self, use: Use) -> AsyncGenerator[None, None]:
        try:
            async with asyncio.timeout(self._deadline_s):
                yield
        except TimeoutError as error:
            raise self._unavailable(use, TOO_SLOW) from error
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            if is_refused(error):
                raise
            raise self._unavailable(use, symptom(error)) from error
        if self._wrong.pop(use, None) is not None:
            _log.info("store_available", use=use)

    def _unavailable(self, use: Use, why: str) -> StoreUnavailable:
        if self._wrong.get(use) != why:
            _log.warning("store_unavailable", use=use, why=why)
        self._wrong[use] = why
        if not self._closed and (self._probe is None or self._probe.done()):
            self._probe = asyncio.get_running_loop().create_task(self._until_well())
        return StoreUnavailable()

    async def _until_well(self) -> None:
        """Look again and again: where requests stay away from what is degraded, nobody else would find out."""
        upsert = sqlite.insert if self.is_sqlite else postgresql.insert
        nobody = upsert(workers).values(id="", alive_until_us=0)
        touched = nobody.on_conflict_do_update(index_elements=[workers.c.id], set_={"alive_until_us": 0})
        while self._wrong:
            await asyncio.sleep(_RETRY_S)
            with suppress(StoreUnavailable):
                async with self.write() as connection:
                    await connection.execute(touched)
                async with self.read() as connection:
                    await connection.execute(select(workers.c.id).limit(1))


async def _connection_of(engine: AsyncEngine) -> AsyncConnection:
    return await engine.connect().start()


async def _close_when_connected(connecting: asyncio.Task[AsyncConnection]) -> None:
    connection = await connecting
    await connection.close()
