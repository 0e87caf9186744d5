"""Calls of unstored replies: recorded while they run, and found later if their process died."""

from typing import Any

from sqlalchemy import insert, select
from structlog.testing import capture_logs

from gateway.state.call_records import OpenCall
from gateway.state.database.database import Database
from gateway.state.database.tables import tool_calls
from gateway.state.records.open_calls import settle_abandoned_calls
from gateway.state.sql.store import SqlStore
from tests.state.sql.test_lineage import queries_that_contain
from tests.state.sql.test_retention import LATER

INTENDED = OpenCall("mcp_1", "calc", "add", is_started=False)
STARTED = OpenCall("mcp_2", "calc", "send", is_started=True)


async def rows(store: SqlStore) -> dict[str, str]:
    async with store._database.read_transaction() as connection:
        found = await connection.execute(select(tool_calls).order_by(tool_calls.c.id))
        return {row.id: row.state for row in found}


async def test_a_call_is_written_before_it_is_sent_and_removed_when_it_has_ended(store: SqlStore) -> None:
    for _ in range(2):
        await store.open_calls.record_calls("ann", "chatcmpl_1", [INTENDED, STARTED])
    assert await rows(store) == {"mcp_1": "intended", "mcp_2": "started"}
    await store.open_calls.record_calls("ann", "chatcmpl_1", [INTENDED._replace(is_started=True)])
    assert await rows(store) == {"mcp_1": "started", "mcp_2": "started"}
    for _ in range(2):
        await store.open_calls.close_call("ann", "chatcmpl_1", "mcp_1")
    await store.open_calls.close_call("bob", "chatcmpl_1", "mcp_2")
    assert await rows(store) == {"mcp_2": "started"}


async def test_a_sent_call_of_an_abandoned_reply_is_unknown(store: SqlStore) -> None:
    for reply_id in ("chatcmpl_1", "chatcmpl_2"):
        await store.open_calls.record_calls("ann", reply_id, [STARTED, INTENDED])
    with capture_logs() as lines:
        await store.open_calls.abandon_calls("ann", "chatcmpl_1")
    async with store._database.read_transaction() as connection:
        found = (await connection.execute(select(tool_calls.c.response_id, tool_calls.c.state))).all()
    assert sorted((row[0], row[1]) for row in found) == [
        ("chatcmpl_1", "unknown"),
        ("chatcmpl_2", "intended"),
        ("chatcmpl_2", "started"),
    ]
    (line,) = [line for line in lines if line["event"] == "tool_call_outcome_unknown"]
    named: Any = {name: line[name] for name in ("owner", "reply", "call", "server", "tool")}
    assert named == {"owner": "ann", "reply": "chatcmpl_1", "call": "mcp_2", "server": "calc", "tool": "send"}


async def test_calls_of_a_process_that_died_are_found(store: SqlStore) -> None:
    await store.open_calls.record_calls("ann", "chatcmpl_1", [STARTED, INTENDED])
    await settle_abandoned_calls(store._database)
    assert await rows(store) == {"mcp_1": "intended", "mcp_2": "started"}, "others may wait for them"
    with capture_logs() as lines:
        await settle_abandoned_calls(store._database, is_only_process=True)
        await settle_abandoned_calls(store._database, is_only_process=True)
    assert await rows(store) == {"mcp_2": "unknown"}
    assert [line["event"] for line in lines] == ["tool_call_outcome_unknown"]


async def test_open_calls_are_deleted_with_age_and_with_their_owner(store: SqlStore) -> None:
    await store.open_calls.record_calls("ann", "chatcmpl_1", [STARTED])
    await store.open_calls.record_calls("bob", "chatcmpl_2", [STARTED])
    await store.retention.delete_expired(before=0)
    assert await rows(store) != {}
    await store.owner_data.erase_owner("ann")
    async with store._database.read_transaction() as connection:
        assert (await connection.execute(select(tool_calls.c.owner))).scalars().all() == ["bob"]
    await store.retention.delete_expired(before=LATER)
    assert await rows(store) == {}


async def test_many_calls_of_a_process_that_died_are_found_in_small_steps(store: SqlStore) -> None:
    calls = [STARTED._replace(item_id=f"mcp_{number}") for number in range(60)]
    calls += [INTENDED._replace(item_id=f"mcp_not_sent_{number}") for number in range(60)]
    await store.open_calls.record_calls("ann", "chatcmpl_1", calls)
    with capture_logs() as lines, queries_that_contain("UPDATE tool_calls") as updates:
        await settle_abandoned_calls(store._database, is_only_process=True)
    assert set((await rows(store)).values()) == {"unknown"}
    assert len([line for line in lines if line["event"] == "tool_call_outcome_unknown"]) == 60
    assert all("tool_calls.id = " in statement for statement, _ in updates), "no statement changes all rows"


async def test_a_sweep_looks_at_open_calls_alone(database: Database, store: SqlStore) -> None:
    stored = {"owner": "ann", "response_id": "resp_1", "position": 1, "state": "finished", "repeatable": False}
    async with database.write_transaction() as connection:
        await connection.execute(
            insert(tool_calls).values(**stored, changed_us=0), [{"id": f"mcp_{number}"} for number in range(5000)]
        )
    with queries_that_contain("FROM tool_calls") as queries:
        await store.retention.delete_expired(before=LATER)
    looking = [query for query in queries if query[0].startswith("SELECT")]
    assert len(looking) == 2
    async with database.read_transaction() as connection:
        explain = "EXPLAIN QUERY PLAN " if database.is_sqlite else "EXPLAIN "
        for statement, parameters in looking:
            plan = str([row[-1] for row in await connection.exec_driver_sql(explain + statement, parameters)])
            assert "ix_tool_calls_open" in plan
