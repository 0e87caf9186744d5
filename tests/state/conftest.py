"""Fixtures of both databases. A test that uses `store_url`, `database` or `store` runs once on each."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.database.database import Database
from gateway.state.database.migrate import migrate_database
from gateway.state.sql.store import SqlStore
from tests import databases
from tests.databases import Postgres
from tests.shared.parser_servers import forked_parser_servers

DEADLINE_S = LEASE_S = 30.0
"""For what must not end a test: a disk that many tests write to may take longer than the usual deadlines."""


@pytest.fixture(scope="module", autouse=True)
def parser_servers() -> Iterator[None]:
    with forked_parser_servers():
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One PostgreSQL server for the session. A test must not stop it."""
    with databases.postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a new database with all tables, for one test."""
    if request.param == "sqlite":
        yield databases.ready_sqlite(tmp_path / "state.db")
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.lease()
    yield url
    server.give_back(url)


@pytest.fixture
async def vector_url(store_url: str, request: pytest.FixtureRequest) -> str:
    """The URL of a database that can compare vectors."""
    if store_url.startswith("postgresql"):
        postgres: Postgres = request.getfixturevalue("postgres")
        postgres.sql("CREATE EXTENSION IF NOT EXISTS vector", make_url(store_url).database or "")
        await migrate_database(store_url)
    return store_url


@pytest.fixture
async def database(store_url: str) -> AsyncIterator[Database]:
    """The database at `store_url`, connected."""
    opened = Database(store_url, deadline_s=DEADLINE_S)
    yield opened
    await opened.aclose()


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[SqlStore]:
    """The store on the database at `store_url`."""
    opened = SqlStore(
        StoreSettings(url=store_url, deadline_s=DEADLINE_S, poll_s=0.05), BackgroundSettings(lease_s=LEASE_S)
    )
    await opened.open()
    yield opened
    await opened.aclose()


@pytest.fixture
async def tables(store_url: str, store: SqlStore) -> AsyncIterator[Database]:
    """A second connection to the database of `store`, for reading its tables."""
    database = Database(store_url, deadline_s=DEADLINE_S)
    yield database
    await database.aclose()


@pytest.fixture
async def other(store_url: str, store: SqlStore) -> AsyncIterator[SqlStore]:
    """A second replica on the same database."""
    opened = SqlStore(StoreSettings(url=store_url, deadline_s=DEADLINE_S), BackgroundSettings())
    await opened.open()
    yield opened
    await opened.aclose()
