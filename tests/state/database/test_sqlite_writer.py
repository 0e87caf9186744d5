"""gateway/state/database/sqlite_writer.py: waiting writes are committed together, and callers resume afterwards."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection
from structlog.testing import capture_logs

from gateway.errors import StoreUnavailable
from gateway.state.database.database import Database
from gateway.state.database.engines import get_driver
from gateway.state.database.migrate import migrate_database
from gateway.state.database.sqlite_writer import SqliteWriter
from gateway.state.database.tables import workers
from gateway.state.database.write_queue import MAX_GROUP_BYTES, ROW_BYTES
from tests import databases
from tests.polling import PROMPT_S, reach

SIZES = [ROW_BYTES, MAX_GROUP_BYTES + 1]
"""The sizes of a write on the event loop, and of one in the writer's thread."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
async def database(file: Path) -> AsyncIterator[Database]:
    url = databases.sqlite(file)
    await migrate_database(url)
    opened = Database(url, deadline_s=60)
    await opened.run_transaction(lambda connection: None)
    yield opened
    await opened.aclose()


def adding(name: str) -> Callable[[sqlite3.Connection], str]:
    def add(connection: sqlite3.Connection) -> str:
        connection.execute("INSERT INTO workers (id, alive_until_us) VALUES (?, 0)", (name,))
        return name

    return add


def failing(name: str) -> Callable[[sqlite3.Connection], str]:
    def fail(connection: sqlite3.Connection) -> str:
        adding(name)(connection)
        raise LookupError(name)

    return fail


async def names(database: Database) -> set[str]:
    async with database.read_transaction() as connection:
        return set(await connection.scalars(select(workers.c.id)))


@contextmanager
def counted_commits(database: Database) -> Iterator[list[str]]:
    """The commits of the writer, as SQLite executes them."""
    connection = database._sqlite_writer.connection
    assert connection is not None
    commits: list[str] = []
    raw = get_driver(connection).raw_connection
    raw.set_trace_callback(lambda text: commits.append(text) if text.startswith("COMMIT") else None)
    yield commits
    raw.set_trace_callback(None)


async def test_waiting_writes_are_one_commit(database: Database) -> None:
    expected = [f"{number}" for number in range(100)]
    with counted_commits(database) as commits:
        results = await asyncio.gather(*(database.run_transaction(adding(name)) for name in expected))
    assert results == expected
    assert await names(database) == set(expected)
    assert len(commits) < 5


@pytest.mark.parametrize("size", SIZES)
async def test_a_caller_is_answered_only_after_the_commit(database: Database, file: Path, size: int) -> None:
    for number in range(20):
        name = await database.run_transaction(adding(f"{number}"), size=size)
        with sqlite3.connect(file) as beside:
            assert beside.execute("SELECT id FROM workers WHERE id = ?", (name,)).fetchall() == [(name,)]


async def test_a_failing_write_fails_alone(database: Database) -> None:
    works = [adding("one"), failing("two"), adding("three"), failing("four"), adding("five")]
    results = await asyncio.gather(*map(database.run_transaction, works), return_exceptions=True)
    assert [str(result) for result in results] == ["one", "two", "three", "four", "five"]
    assert [type(result) for result in results] == [str, LookupError, str, LookupError, str]
    assert await names(database) == {"one", "three", "five"}
    assert database.degraded_reason is None


async def test_a_group_of_failing_writes_leaves_no_transaction_open(database: Database) -> None:
    with counted_commits(database) as commits:
        works = [database.run_transaction(failing(name)) for name in "abc"]
        results = await asyncio.gather(*works, return_exceptions=True)
    assert [type(result) for result in results] == [LookupError] * 3
    assert len(commits) <= 1
    assert await database.run_transaction(adding("after")) == "after"
    assert await names(database) == {"after"}


async def test_a_caller_that_leaves_before_its_group_runs_has_no_effect(database: Database) -> None:
    async with database.write_transaction("ann"):
        staying, leaving = (asyncio.create_task(database.run_transaction(adding(name))) for name in ("a", "b"))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait({leaving})
    assert await staying == "a"
    assert await names(database) == {"a"}


async def test_in_a_long_group_only_writes_with_a_waiting_caller_have_an_effect(database: Database) -> None:
    begun, left = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> str:
        begun.set()
        left.wait()
        return adding("slow")(connection)

    other = sqlite3.connect(database.url.database or "", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # so the group is executed in the thread
    leaving = asyncio.create_task(database.run_transaction(slow))
    staying = asyncio.create_task(database.run_transaction(adding("short")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    other.rollback()
    other.close()
    await asyncio.to_thread(begun.wait)
    leaving.cancel()
    await asyncio.wait({leaving})
    left.set()
    assert await staying == "short"
    assert await names(database) == {"short"}


async def test_a_group_that_cannot_be_committed_fails_as_a_whole(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(database._sqlite_writer, "verify_commit", fail)
    works = [database.run_transaction(adding(name)) for name in "abc"]
    results = await asyncio.gather(*works, return_exceptions=True)
    assert [type(result) for result in results] == [StoreUnavailable] * 3


async def test_another_process_that_has_the_lock_is_waited_for(file: Path, database: Database) -> None:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    work = asyncio.create_task(database.run_transaction(adding("one")))
    assert await names(database) == set(), "reading waits for nobody"
    assert not work.done()
    other.rollback()
    other.close()
    assert await work == "one"


async def test_an_owner_does_not_wait_for_all_writes_of_another(database: Database) -> None:
    order: list[str] = []

    def noting(name: str) -> Callable[[sqlite3.Connection], None]:
        return lambda _: order.append(name)

    async with database.write_transaction("maintenance"):
        large = [
            asyncio.create_task(
                database.run_transaction(noting(f"large {number}"), owner="ann", size=MAX_GROUP_BYTES + 1)
            )
            for number in range(20)
        ]
        await asyncio.sleep(0)
        small = asyncio.create_task(database.run_transaction(noting("small"), owner="bob"))
        await asyncio.sleep(0)
    await asyncio.gather(small, *large)
    assert order.index("small") == 1


async def test_a_write_that_waits_too_long_for_a_transaction_is_not_executed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database._sqlite_writer.acquire("ann"):
        with monkeypatch.context() as hurried:
            hurried.setattr(database, "_deadline_s", 0.3)
            with pytest.raises(StoreUnavailable):
                await database.run_transaction(adding("late"))
    assert await database.run_transaction(adding("next")) == "next"
    assert await names(database) == {"next"}
    assert database.degraded_reason is None


async def test_a_caller_that_leaves_just_before_its_turn_does_not_end_the_writer(database: Database) -> None:
    async def hold_transaction() -> None:
        async with database.write_transaction("bob"):
            pass

    async with database.write_transaction("ann"):
        leaving = asyncio.create_task(hold_transaction())
        staying = asyncio.create_task(database.run_transaction(adding("next"), owner="cid"))
        await asyncio.sleep(0)
    # The turn of "ann" has ended. The writer sees that in its next step, when the caller's future is cancelled already.
    leaving.cancel()
    async with asyncio.timeout(PROMPT_S):
        assert await staying == "next"
    assert leaving.cancelled()
    assert database.degraded_reason is None


async def test_a_caller_may_leave_while_the_log_is_written_back_before_its_turn(database: Database) -> None:
    connecting, connected = asyncio.Event(), asyncio.Event()

    async def connect() -> AsyncConnection:
        connecting.set()
        await connected.wait()
        return await database._connect("write")

    writer = SqliteWriter(connect, fail_to_release, None)
    writer._log_bytes = 2**40  # so that it is written back before anything else

    async def hold_transaction() -> None:
        async with writer.acquire("ann"):
            raise AssertionError("it left before its turn")

    with capture_logs() as lines:
        leaving = asyncio.create_task(hold_transaction())
        await reach(connecting, leaving)
        leaving.cancel()
        await asyncio.wait({leaving})
        connected.set()
        assert await writer.run(adding("next"), owner="bob", size=ROW_BYTES, deadline_s=60) == "next"
    assert leaving.cancelled()
    assert lines == []
    await writer.aclose()


async def test_the_writer_starts_again_after_an_unexpected_error(
    database: Database,
) -> None:
    writer = SqliteWriter(lambda: database._connect("write"), fail_to_release, None)
    await writer.run(adding("first"), owner="ann", size=ROW_BYTES, deadline_s=60)
    assert writer.connection is not None
    await writer.connection.close()  # the next group fails, and then its connection cannot be released
    failed = asyncio.create_task(writer.run(adding("a"), owner="ann", size=MAX_GROUP_BYTES, deadline_s=60))
    waiting = asyncio.create_task(writer.run(adding("b"), owner="bob", size=MAX_GROUP_BYTES, deadline_s=60))
    with capture_logs() as lines:
        async with asyncio.timeout(PROMPT_S):
            assert await waiting == "b"
    with pytest.raises(Exception, match="closed"):
        await failed
    assert await names(database) == {"first", "b"}
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["sqlite_writer_ended"]
    await writer.aclose()


async def fail_to_release(_: AsyncConnection) -> None:
    raise RuntimeError("an error that nobody expects")
