"""Both databases. What asks for `store_url`, `database` or `store` runs once on each."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.database.database import Database
from gateway.state.sql.store import SqlStore
from tests import databases
from tests.databases import Postgres

DEADLINE_S = 5.0


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for the session; stop it and every other test stops."""
    with databases.postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of the test's own, with the tables."""
    if request.param == "sqlite":
        yield databases.ready_sqlite(tmp_path / "state.db")
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.lease()
    yield url
    server.give_back(url)


@pytest.fixture
async def database(store_url: str) -> AsyncIterator[Database]:
    """It, connected."""
    opened = Database(store_url, deadline_s=DEADLINE_S)
    yield opened
    await opened.aclose()


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[SqlStore]:
    """The store on it."""
    opened = SqlStore(StoreSettings(url=store_url, deadline_s=DEADLINE_S, poll_s=0.05), BackgroundSettings(lease_s=1.0))
    await opened.open()
    yield opened
    await opened.aclose()
