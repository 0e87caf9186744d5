"""Large writes and deletions of one owner on SQLite do not delay another owner's requests for long."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.database import pacing
from gateway.state.database.database import Database
from gateway.state.database.engines import get_driver
from gateway.state.database.pacing import PacedTransactions
from gateway.state.sql.store import SqlStore
from gateway.state.values import LogEntry
from tests import databases
from tests.state.conftest import DEADLINE_S
from tests.state.responses import WORKER, answered, completed, message_item, new, response

LATER = int(time.time()) + 10**6
MANY = 300

SCAN = re.compile(
    r"SCAN (responses|items|events|conversations|conversation_items|completions)\b"
    r"|SEARCH (responses|items|events|conversation_items) USING (?!COVERING INDEX \w*created_us).*\(owner=\?\)"
)
"""A statement that looks at every row of a table or of an owner. The tables of jobs and workers are
short."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    url = databases.ready_sqlite(tmp_path / "state.db")
    opened = SqlStore(StoreSettings(url=url, deadline_s=DEADLINE_S, events_hours=1e-9), BackgroundSettings())
    await opened.open()
    yield opened
    await opened.aclose()


@contextmanager
def written_statements(store: SqlStore) -> Iterator[set[str]]:
    """The statements of the connection that writes, as SQLite executes them."""
    connection = store._database._sqlite_writer.connection
    assert connection is not None
    raw = get_driver(connection).raw_connection
    statements: set[str] = set()
    raw.set_trace_callback(statements.add)
    yield statements
    raw.set_trace_callback(None)


async def fill(store: SqlStore, owner: str, count: int) -> None:
    async def add(number: int) -> None:
        ended = completed(response(), answered(f"{number}"))
        await store.responses.store_ended_response(new(response(), message_item("a"), owner=owner), ended)

    await asyncio.gather(*map(add, range(count)))


def check_plans(store: SqlStore, statements: set[str]) -> None:
    connection = store._database._sqlite_writer.connection
    assert connection is not None
    raw = get_driver(connection).raw_connection
    for statement in statements:
        if not re.match("SELECT|UPDATE|DELETE|INSERT|WITH", statement):
            continue
        plan = "\n".join(str(row[3]) for row in raw.execute(f"EXPLAIN QUERY PLAN {statement}"))
        assert not SCAN.search(plan), f"{statement[:300]}\n{plan}"
        if not statement.startswith("DELETE"):
            assert "conversation_id=?)" not in plan, f"{statement[:300]}\n{plan}"


async def test_no_transaction_that_writes_looks_at_all_rows_of_a_table(store: SqlStore) -> None:
    await fill(store, "ann", 30)
    await store.conversations.create_conversation(
        "ann", {"id": "conv_1", "metadata": {}}, [message_item(f"{n}") for n in range(30)]
    )
    with written_statements(store) as statements:
        logged = response(background=True)
        await store.responses.create_response(
            new(logged, message_item("b"), owner="ann", worker=WORKER, logged=True, job_request={})
        )
        await store.event_log.append_log_entry("ann", logged["id"], LogEntry(1, 1, b"event: e\n\n"), worker=WORKER)
        await store.responses.finish_response(
            "ann", completed(logged), worker=WORKER, last=LogEntry(2, 2, b"event: e\n\n")
        )
        await store.conversations.add_conversation_items("ann", "conv_1", [message_item("c"), message_item("d")])
        begun = response()
        await store.responses.create_response(
            new(begun, message_item("e"), owner="ann", worker=WORKER, conversation_id="conv_1")
        )
        await store.responses.finish_response("ann", completed(begun, answered("f")), worker=WORKER)
        await store.retention.delete_expired(before=0)
        await store.owner_data.erase_owner("ann")
        await fill(store, "bob", 3)
        await store.retention.delete_expired(before=LATER)
    assert len(statements) > 50
    check_plans(store, statements)


async def test_an_owner_stores_while_everything_of_another_is_erased(store: SqlStore) -> None:
    await fill(store, "ann", MANY)
    erasing = asyncio.create_task(store.owner_data.erase_owner("ann"))
    for _ in range(3):
        await fill(store, "bob", 1)
    assert not erasing.done(), "each of them waited for everything"
    assert await erasing == MANY


async def test_transactions_of_long_work_shrink_if_they_take_long(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    database: Database = store._database
    now = 0.0
    monkeypatch.setattr(pacing, "time", SimpleNamespace(monotonic=lambda: now))
    transactions = PacedTransactions(database, most_rows=50)
    sizes = []
    for took_s in (0.0, 0.0, 0.0, 0.0, 0.0, 0.02, 0.05, 0.05, 0.05, 0.0):
        sizes.append(transactions.rows)
        async with transactions.open():
            now += took_s
    assert sizes == [4, 8, 16, 32, 50, 50, 50, 12, 3, 1]
