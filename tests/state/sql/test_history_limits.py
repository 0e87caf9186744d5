"""What one request may continue is bounded, on both databases: the items and the bytes of a history."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dataplane.sharing import work_pool
from gateway.state.database.database import Database
from gateway.state.sql import history as history_module
from gateway.state.sql.history import HistoryLimits, SqlHistoryReader
from gateway.state.sql.store import SqlStore
from gateway.state.values import HistoryTooLong
from tests.state.responses import message_item, turn

Load = Callable[[SqlHistoryReader], Awaitable[Any]]


async def chain(store: SqlStore) -> Load:
    """A chain of two responses, which has four items."""
    first = await turn(store, "a" * 400)
    second = await turn(store, "b" * 400, first)
    return lambda reader: reader.load_history("ann", second["id"])


async def conversation(store: SqlStore) -> Load:
    items = [{**message_item("a" * 400), "id": f"msg_{number}"} for number in range(4)]
    await store.conversations.create_conversation("ann", {"id": "conv_1", "object": "conversation"}, items)
    return lambda reader: reader.load_conversation_history("ann", "conv_1")


async def references(store: SqlStore) -> Load:
    await conversation(store)
    return lambda reader: reader.load_items("ann", [f"msg_{number}" for number in range(4)])


@pytest.mark.parametrize("build", [chain, conversation, references], ids=lambda build: build.__name__)
async def test_a_history_beyond_a_limit_is_not_loaded(
    build: Callable[[SqlStore], Awaitable[Load]], store: SqlStore, database: Database
) -> None:
    load = await build(store)
    assert await load(SqlHistoryReader(database, HistoryLimits(max_items=4, max_bytes=8000)))
    with pytest.raises(HistoryTooLong, match="max_history_items"):
        await load(SqlHistoryReader(database, HistoryLimits(max_items=3)))
    with pytest.raises(HistoryTooLong, match="max_history_mb"):
        await load(SqlHistoryReader(database, HistoryLimits(max_bytes=900)))


async def test_a_conversation_without_items_has_an_empty_history(store: SqlStore, database: Database) -> None:
    await store.conversations.create_conversation("ann", {"id": "conv_1", "object": "conversation"}, [])
    reader = SqlHistoryReader(database, HistoryLimits(max_items=1, max_bytes=1))
    assert await reader.load_conversation_history("ann", "conv_1") == []


@pytest.mark.parametrize("build", [chain, conversation, references], ids=lambda build: build.__name__)
async def test_many_rows_and_heavy_items_are_read_in_a_thread(
    build: Callable[[SqlStore], Awaitable[Load]], store: SqlStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = await build(store)
    reader = SqlHistoryReader(database, HistoryLimits())
    here = await load(reader)
    monkeypatch.setattr("gateway.state.database.database.ROWS_AT_ONCE", 2)
    monkeypatch.setattr(work_pool, "_FEW_VALUES", 2)
    monkeypatch.setattr(history_module, "INLINE_BYTES", 10)
    assert await load(reader) == here
