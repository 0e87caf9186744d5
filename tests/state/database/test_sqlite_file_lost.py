"""A SQLite file that is removed, replaced or made read-only while the server runs is reported, and nothing is lost."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.errors import StoreUnavailable
from gateway.state.database import sqlite_writer
from gateway.state.sql.store import SqlStore
from tests import databases
from tests.polling import wait_until
from tests.state.responses import answered, completed, message_item, new, response, turn

REMOVED = "its file was removed or replaced while the server runs: put it back, or restart the server"
READ_ONLY = "its file is read-only"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqlStore]:
    opened = SqlStore(StoreSettings(url=databases.sqlite(file), deadline_s=5.0), BackgroundSettings())
    await opened.open()
    yield opened
    await opened.aclose()


def remove(file: Path) -> None:
    file.unlink()


def remove_all(file: Path) -> None:
    for path in file.parent.glob(f"{file.name}*"):
        path.unlink()


def replace(file: Path) -> None:
    copy = file.with_name("copy")
    shutil.copy(file, copy)
    copy.rename(file)


def move(file: Path, to: Path) -> None:
    file.rename(to)


def remove_log(file: Path) -> None:
    file.with_name(f"{file.name}-wal").unlink()


@pytest.mark.parametrize("lose", [remove, remove_all, replace])
async def test_a_file_that_is_lost_is_reported_at_once_and_nothing_is_stored_in_it(
    store: SqlStore, file: Path, lose: object
) -> None:
    assert callable(lose)
    stored = await turn(store, "a")
    assert store.degraded_reason is None
    lose(file)
    assert store.degraded_reason == REMOVED
    with pytest.raises(StoreUnavailable):
        await turn(store, "b")
    with pytest.raises(StoreUnavailable):
        await store.responses.load_response("ann", stored["id"])
    with pytest.raises(StoreUnavailable):
        await store.conversations.create_conversation("ann", {"id": "conv_1", "metadata": {}}, [])
    assert store.degraded_reason == REMOVED


@pytest.mark.parametrize("lose", [remove, remove_all, replace, remove_log])
@pytest.mark.parametrize("how", ["work", "transaction"])
async def test_a_commit_to_a_lost_file_is_not_reported_as_stored(
    store: SqlStore, file: Path, lose: object, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(lose)
    await turn(store, "a")
    commit = sqlite_writer.SqliteWriter._commit
    database = store._database

    def lose_then_commit(self: sqlite_writer.SqliteWriter, connection: sqlite3.Connection) -> None:
        lose(file)
        commit(self, connection)

    if how == "work":
        monkeypatch.setattr(sqlite_writer.SqliteWriter, "_commit", lose_then_commit)
        with pytest.raises(StoreUnavailable):
            await store.responses.store_ended_response(
                new(response(), message_item("b")), completed(response(), answered("B"))
            )
    else:

        async def write() -> None:
            async with database.write_transaction() as connection:
                await connection.exec_driver_sql("INSERT INTO workers (id, alive_until_us) VALUES ('a', 0)")
                lose(file)

        with pytest.raises(StoreUnavailable):
            await write()
    assert store.degraded_reason is not None


async def test_a_file_that_is_put_back_is_used_again(store: SqlStore, file: Path) -> None:
    stored = await turn(store, "a")
    away = file.with_name("away")
    move(file, away)
    with pytest.raises(StoreUnavailable):
        await turn(store, "b")
    move(away, file)
    await wait_until(lambda: store.degraded_reason is None)
    found = await store.responses.load_response("ann", stored["id"])
    assert found is not None
    assert found.response == stored
    await turn(store, "c")


async def test_a_file_that_becomes_read_only_is_read_and_not_written(store: SqlStore, file: Path) -> None:
    stored = await turn(store, "a")
    os.chmod(file, 0o400)
    assert store.degraded_reason == READ_ONLY
    with pytest.raises(StoreUnavailable):
        await turn(store, "b")
    found = await store.responses.load_response("ann", stored["id"])
    assert found is not None
    assert found.response == stored
    os.chmod(file, 0o600)
    await wait_until(lambda: store.degraded_reason is None)
    await turn(store, "c")


def log_bytes(file: Path) -> int:
    return file.with_name(f"{file.name}-wal").stat().st_size


async def test_the_write_ahead_log_is_written_back_when_nothing_is_stored(
    store: SqlStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "_CHECKPOINT_INTERVAL_S", 0.05)
    stored = await turn(store, "a")
    await turn(store, "b")
    await wait_until(lambda: has_row(file, stored["id"]))


def has_row(file: Path, response_id: str) -> bool:
    """Whether the file alone has the response, without its log."""
    shutil.copy(file, copy := file.with_name("copy.db"))
    try:
        with sqlite3.connect(copy) as beside:
            return beside.execute("SELECT 1 FROM responses WHERE id = ?", (response_id,)).fetchall() == [(1,)]
    except sqlite3.DatabaseError:  # copied while it was written
        return False


async def test_the_write_ahead_log_does_not_grow_for_ever_while_much_is_read_and_written(
    store: SqlStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "_MAX_LOG_BYTES", 1024 * 1024)
    monkeypatch.setattr(sqlite_writer, "_USUAL_LOG_BYTES", 0)
    # On a busy machine a read takes longer than a write should wait for it. The next attempt is made seconds later.
    monkeypatch.setattr(sqlite_writer, "_CHECKPOINT_WAIT_MS", 20_000)
    stored = await turn(store, "a")
    ended = asyncio.Event()

    async def read() -> None:
        while not ended.is_set():
            await store.responses.load_response("ann", stored["id"])

    readers = [asyncio.create_task(read()) for _ in range(4)]
    largest = 0
    for _ in range(120):
        both = completed(begun := response(), answered("x" * 100_000))
        await store.responses.store_ended_response(new(begun, message_item("b")), both)
        largest = max(largest, log_bytes(file))
    ended.set()
    await asyncio.gather(*readers)
    assert largest < 5 * 1024 * 1024  # without a bound it grows to seven
