"""The cost of chains: every link is looked up by its key, however many rows the owner has."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, event, insert
from sqlalchemy.engine import make_url

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.database.database import Database
from gateway.state.database.tables import items, responses
from gateway.state.sql.store import SqlStore
from tests.databases import Postgres
from tests.polling import TIMEOUT_S, block_until
from tests.state.conftest import DEADLINE_S
from tests.state.responses import turn

_MANY = 500
"""Responses the owner has beside the chain: so few that looking at all of them may seem cheap."""

_LINKS = 20
_READS = 10
"""PostgreSQL may cache the plan of a query after five executions on one connection."""

_THROUGH_MUCH = re.compile(
    r"""
    Seq\ Scan\ on\ (responses|items|conversation_items) | Bitmap | Hash\  | Merge\  | Materialize
    | SCAN\ (responses|parent|sibling|items|conversation_items) | AUTOMATIC | \(owner=\?\)
    """,
    re.VERBOSE,
)


async def test_history_is_looked_up_link_by_link(store: SqlStore, database: Database) -> None:
    await fill(database)
    one = await turn(store, "a")
    two = await turn(store, "b", one)
    with queries_that_contain("RECURSIVE") as asked:
        await store.history.load_history("ann", two["id"])
    await looked_up(database, asked)


async def test_dependents_of_a_deleted_response_are_looked_up_link_by_link(store: SqlStore, database: Database) -> None:
    await fill(database)
    one = await turn(store, "a")
    two = await turn(store, "b", one)
    await store.responses.delete_response("ann", one["id"])
    with queries_that_contain("RECURSIVE") as asked:
        await store.responses.delete_response("ann", two["id"])
    await looked_up(database, asked)


@pytest.mark.parametrize("count", [1, 100, 900])
async def test_referenced_items_are_looked_up_by_their_ids_alone(
    store: SqlStore, database: Database, count: int
) -> None:
    await fill(database)
    stored = await turn(store, "a")
    loose = {"id": "msg_loose", "type": "message", "role": "user", "content": "b"}
    await store.conversations.create_conversation("ann", {"id": "conv_1", "metadata": {}}, [loose])
    item_ids = [stored["output"][0]["id"], "msg_loose", *(f"resp_other_{number}" for number in range(count - 1))]
    with queries_that_contain("requested") as asked:
        found = await store.history.load_items("ann", item_ids)
    assert len(found) == min(count, _MANY + 1) + 1
    assert len(asked) == 4, "the size of the items, and the items, from both tables"
    for query in asked:
        await looked_up(database, [query])


async def test_links_are_looked_up_alone_before_the_tables_were_ever_counted(postgres: Postgres) -> None:
    url = postgres.database()
    store = SqlStore(StoreSettings(url=url, deadline_s=DEADLINE_S), BackgroundSettings())
    await store.open()
    last = await turn(store, "0")
    for number in range(1, _LINKS):
        last = await turn(store, str(number), last)
    others = Database(url, deadline_s=TIMEOUT_S)
    await fill(others)
    await others.aclose()
    for _ in range(_READS):
        await store.history.load_history("ann", last["id"])
    await store.aclose()
    assert fetched(postgres, url) < _MANY * _READS


def fetched(postgres: Postgres, url: str) -> int:
    """Returns the number of rows read from responses and items, once the statistics have been reported."""
    name = make_url(url).database or ""
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();"
    block_until(lambda: postgres.sql(f"SELECT count(*) {others}", name).strip() == "0")
    message = (
        "SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_user_tables WHERE relname IN ('items', 'responses');"
    )
    return int(postgres.sql(message, name))


async def fill(database: Database) -> None:
    ids = [{"id": f"resp_other_{number}", "response_id": f"resp_other_{number}"} for number in range(_MANY)]
    others = {
        "owner": "ann",
        "created_us": 0,
        "status": "completed",
        "body": "{}",
        "background": False,
        "logged": False,
    }
    said = {"owner": "ann", "place": 0, "position": 0, "body": "{}"}
    async with database.write_transaction() as connection:
        await connection.execute(insert(responses).values(**others), ids)
        await connection.execute(insert(items).values(**said), ids)


async def looked_up(database: Database, asked: list[tuple[str, Any]]) -> None:
    assert len(asked) == 1
    async with database.read_transaction() as connection:
        explain = "EXPLAIN QUERY PLAN " if database.is_sqlite else "EXPLAIN "
        rows = await connection.exec_driver_sql(explain + asked[0][0], asked[0][1])
        plan = "\n".join(str(row[-1]) for row in rows)
    assert re.search(r"USING (COVERING )?INDEX" if database.is_sqlite else "Index (Only )?Scan", plan), plan
    assert not _THROUGH_MUCH.search(plan), plan


@contextmanager
def queries_that_contain(word: str) -> Iterator[list[tuple[str, Any]]]:
    """Collects the statements, with parameters, that are sent during the block."""
    sent: list[tuple[str, Any]] = []

    def note(*given: Any) -> None:
        if word in given[2]:
            sent.append((given[2], given[3]))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", note)
