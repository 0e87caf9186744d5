"""Single statements on PostgreSQL share a few connections, which they give up if a transaction needs one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from asyncpg import Connection, InternalClientError  # type: ignore[import-untyped]
from sqlalchemy import bindparam, func, insert, select
from sqlalchemy.exc import DBAPIError

from gateway.errors import StoreUnavailable
from gateway.state.database import postgresql_statements
from gateway.state.database.change_notifier import ChangeNotifier
from gateway.state.database.database import Database
from gateway.state.database.failures import TIMEOUT_MESSAGE
from gateway.state.database.tables import workers
from tests.databases import Postgres
from tests.polling import wait_until
from tests.state.conftest import DEADLINE_S

_BACKEND = select(func.pg_backend_pid())
_SLEEP = select(func.count()).select_from(func.pg_sleep(bindparam("seconds")))
_POOL = 20

_NEW_WORKER = insert(workers).values(id=bindparam("its_id"), alive_until_us=0).returning(workers.c.id).cte("added")
_ADD_WORKER = select(func.count()).select_from(_NEW_WORKER)


@pytest.fixture
async def database(postgres: Postgres) -> AsyncIterator[Database]:
    url = postgres.database()
    opened = Database(url, deadline_s=DEADLINE_S)
    yield opened
    await opened.aclose()
    postgres.drop(url)


async def test_statements_use_one_connection_after_another(database: Database) -> None:
    assert len({await database.run_statement(_BACKEND, {}) for _ in range(5)}) == 1


async def test_more_statements_than_connections_are_all_executed(database: Database) -> None:
    backends = await asyncio.gather(*(database.run_statement(_BACKEND, {}) for _ in range(200)))
    assert 1 < len(set(backends)) <= _POOL


async def test_idle_statement_connections_are_given_to_transactions(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_statements, "_MAX_IDLE_S", 600.0)  # so that time does not give them back
    await asyncio.gather(*(database.run_statement(_SLEEP, {"seconds": 0.1}) for _ in range(_POOL)))
    async with asyncio.timeout(DEADLINE_S), AsyncExitStack() as stack:
        for _ in range(_POOL):
            connection = await stack.enter_async_context(database.write_transaction())
            assert await connection.scalar(_BACKEND)


async def test_statements_wait_for_connections_of_transactions(database: Database) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(_POOL):
            await stack.enter_async_context(database.write_transaction())
        waiting = [asyncio.create_task(database.run_statement(_BACKEND, {})) for _ in range(_POOL)]
        await asyncio.wait(waiting, timeout=0.05)
        assert not any(task.done() for task in waiting)
    await asyncio.gather(*waiting)


@pytest.mark.parametrize("name", ["twice", "long" * 100, "a\0b"])
async def test_invalid_values_are_not_reported_as_database_failures(database: Database, name: str) -> None:
    async def add_twice() -> None:
        for _ in range(2):
            await database.run_statement(_ADD_WORKER, {"its_id": name})

    with pytest.raises(DBAPIError) as refused:
        await add_twice()
    assert repr(name) not in str(refused.value)
    assert database.degraded_reason is None
    assert await database.run_statement(_ADD_WORKER, {"its_id": "other"}) == 1


async def test_a_statement_that_takes_too_long_is_abandoned_with_its_connection(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await database.run_statement(_BACKEND, {})
    with monkeypatch.context() as hurried:
        hurried.setattr(database, "_deadline_s", 0.3)
        with pytest.raises(StoreUnavailable):
            await database.run_statement(_SLEEP, {"seconds": 600})
        reason = database.degraded_reason
    assert reason == TIMEOUT_MESSAGE
    assert await database.run_statement(_BACKEND, {}) != backend


async def test_connections_that_the_server_closed_are_not_used_again(
    database: Database, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_statements, "_MAX_IDLE_S", 600.0)
    backend = await database.run_statement(_BACKEND, {})
    postgres.sql(f"SELECT pg_terminate_backend({backend});")

    driver = database._statements._idle[0][1]
    await wait_until(driver.is_closed)
    assert await database.run_statement(_BACKEND, {}) != backend


async def test_idle_connections_go_back_to_the_pool(database: Database) -> None:
    await database.run_statement(_BACKEND, {})
    pool: Any = database._engines["write"].sync_engine.pool
    assert pool.checkedout() == 1
    await wait_until(lambda: pool.checkedout() == 0)


def lose_connection_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next statement is begun on a connection that is being lost; later ones are not."""

    async def fail(*_: Any) -> None:
        monkeypatch.undo()
        raise InternalClientError("cannot switch to state 12; another operation (2) is in progress")

    monkeypatch.setattr(Connection, "fetchval", fail)


async def test_a_connection_that_is_lost_as_a_statement_begins_is_a_failure_of_the_database(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await database.run_statement(_BACKEND, {})
    lose_connection_once(monkeypatch)
    with pytest.raises(StoreUnavailable):
        await database.run_statement(_BACKEND, {})
    await wait_until(lambda: database.degraded_reason is None)
    assert await database.run_statement(_BACKEND, {})


async def test_signals_arrive_after_a_connection_was_lost_as_a_statement_began(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, receiver = ChangeNotifier(database, poll_s=30), ChangeNotifier(database, poll_s=30)
    async with receiver.watch("key") as watch, sender.watch("other"):
        await wait_until(lambda: min(sender.wait_timeout_s, receiver.wait_timeout_s) > 30)  # both listen
        lose_connection_once(monkeypatch)
        sender.notify_changed("key")
        await wait_until(lambda: sender.wait_timeout_s == 30)
        await wait_until(lambda: sender.wait_timeout_s > 30)
        sender.notify_changed("key")
        async with asyncio.timeout(60):
            await watch.wait_for_change()
    await sender.aclose()
    await receiver.aclose()
