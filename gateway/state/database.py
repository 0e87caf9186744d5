"""One database, SQLite or PostgreSQL: connections, transactions with a deadline, and what is wrong with it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog
from sqlalchemy import BigInteger, ColumnElement, cast, event, func, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from gateway.errors import StoreUnavailable

_log = structlog.get_logger(__name__)

_SQLITE_SETTINGS: Final = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA busy_timeout=5000",
    "PRAGMA foreign_keys=ON",
)

_JULIAN_1970: Final = 2_440_587.5


class Database:
    """`async with write() as connection:` is one transaction; so is `read()`, which writes nothing.

    Both raise StoreUnavailable when the database does not answer within `deadline_s`, or fails.
    """

    def __init__(self, url: str, *, deadline_s: float) -> None:
        self.url = make_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.degraded: str | None = None
        self._deadline_s = deadline_s
        self._engine = _engine(url, is_sqlite=self.is_sqlite)
        # SQLite has one writer at a time: waiting here is fair and cheap, waiting in the file's lock is neither.
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[AsyncConnection, None]:
        async with self._answering():
            if self.is_sqlite:
                async with self._turn, self._engine.begin() as connection:
                    yield connection
            else:
                async with self._engine.begin() as connection:
                    yield connection

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[AsyncConnection, None]:
        async with self._answering(), self._engine.connect() as connection:
            yield connection

    async def aclose(self) -> None:
        await self._engine.dispose()

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

    @asynccontextmanager
    async def _answering(self) -> AsyncGenerator[None, None]:
        try:
            async with asyncio.timeout(self._deadline_s):
                yield
        except TimeoutError as error:
            raise self._unavailable("it did not answer in time") from error
        except (SQLAlchemyError, OSError) as error:
            raise self._unavailable(type(error).__name__) from error
        self.degraded = None

    def _unavailable(self, why: str) -> StoreUnavailable:
        self.degraded = why
        _log.warning("store_unavailable", why=why)
        return StoreUnavailable("the store cannot be reached; `store: false` needs none")


def _engine(url: str, *, is_sqlite: bool) -> AsyncEngine:
    if not is_sqlite:
        return create_async_engine(url, pool_pre_ping=False, pool_size=10, max_overflow=10)
    engine = create_async_engine(url)

    @event.listens_for(engine.sync_engine, "connect")
    def set_up(connection: Any, _record: object) -> None:
        # The driver's own way of opening transactions leaves reads outside of them; ours is "begin" below.
        connection.isolation_level = None
        cursor = connection.cursor()
        for setting in _SQLITE_SETTINGS:
            cursor.execute(setting)
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine
