"""The sealing key in the store: concurrent servers create one, which never changes."""

import asyncio

from sqlalchemy import delete

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.database.database import Database
from gateway.state.database.tables import sealing_keys
from gateway.state.sql.store import SqlStore, load_or_create_sealing_key
from tests.state.conftest import DEADLINE_S

AT_ONCE = 8


def connect(url: str) -> SqlStore:
    return SqlStore(StoreSettings(url=url, deadline_s=DEADLINE_S), BackgroundSettings())


async def key_of(url: str) -> bytes:
    store = connect(url)
    await store.open()
    await store.aclose()
    assert store.sealing_key is not None
    return store.sealing_key


async def test_concurrent_first_uses_get_the_same_key(store_url: str) -> None:
    keys = set(await asyncio.gather(*(key_of(store_url) for _ in range(AT_ONCE))))
    assert len(keys) == 1
    assert await key_of(store_url) in keys
    (key,) = keys
    assert len(key) == 32


async def test_transactions_side_by_side_agree_on_one_key(database: Database) -> None:
    async with database.write_transaction() as connection:
        await connection.execute(delete(sealing_keys))
    begun = asyncio.Barrier(1 if database.is_sqlite else 2)  # SQLite has one writer at a time

    async def first_key() -> bytes:
        async with database.write_transaction() as connection:
            await begun.wait()
            return await load_or_create_sealing_key(connection)

    one, other = await asyncio.gather(first_key(), first_key())
    assert one == other


async def test_a_store_that_was_not_reached_has_no_key() -> None:
    store = connect("postgresql+asyncpg://nobody@127.0.0.1:9/none")
    await store.open()
    assert store.degraded_reason is not None
    assert store.sealing_key is None
    await store.aclose()
