"""What tests of the store need beside one store: its database, and a second replica."""

from collections.abc import AsyncIterator

import pytest

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.database.database import Database
from gateway.state.sql.store import SqlStore


@pytest.fixture
async def tables(store_url: str, store: SqlStore) -> AsyncIterator[Database]:
    """The database of `store`, to look into."""
    database = Database(store_url, deadline_s=5.0)
    yield database
    await database.aclose()


@pytest.fixture
async def other(store_url: str, store: SqlStore) -> AsyncIterator[SqlStore]:
    """A second replica on the same database."""
    opened = SqlStore(StoreSettings(url=store_url), BackgroundSettings())
    await opened.open()
    yield opened
    await opened.aclose()
