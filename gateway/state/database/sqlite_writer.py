"""Writes to a SQLite database on behalf of the whole process, because SQLite has one writer at a time.

What waits at one moment is written in one transaction, and so with one flush of the disk: a group commit. Callers are
answered after the commit.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import StoreUnavailable
from gateway.state.database.engines import get_driver
from gateway.state.database.failures import describe_error
from gateway.state.database.sqlite_driver import BEGIN_IMMEDIATE, OneTripConnection
from gateway.state.database.sqlite_file import WatchedFile
from gateway.state.database.write_queue import MAX_GROUP_BYTES, ExclusiveTurn, GroupTurn, WriteQueue

_SLOW_GROUP_S: Final = 0.02
_SLOW_FILE_S: Final = 30.0
"""If the statements of a group take longer than _SLOW_GROUP_S, as on a disk that is slow to read, the statements of the
next _SLOW_FILE_S are executed in the thread, where they do not block the event loop."""

_MAX_LOG_BYTES: Final = 32 * 1024 * 1024
"""The size from which the write-ahead log is written back although others wait to write."""

_USUAL_LOG_BYTES: Final = 8 * 1024 * 1024
"""The log is not shortened below this size. SQLite begins it anew at 4 MB, and writing into a file takes less time than
extending it: the disk has to store the new length too."""

_CHECKPOINT_INTERVAL_S: Final = 5.0
"""After this time without a write, the log is written back; and the shortest time between two attempts."""

_CHECKPOINT_WAIT_MS: Final = 200
"""The longest wait for readers, during which no write runs."""

_log = structlog.get_logger(__name__)

_Result = TypeVar("_Result")


class SqliteWriter:
    """Executes transactions one after another, on a connection that it opens with `connect`.

    The connection stays open until an error; then it is given to `release`. Statements of a small group are executed on
    the event loop: they only change pages in memory, which takes less time than two switches between threads. The
    commit, which waits for the disk, is left to the connection's thread, and so is everything that may wait: another
    process that has the file's lock, and a large group.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[AsyncConnection]],
        release: Callable[[AsyncConnection], Awaitable[None]],
        file: WatchedFile | None,
    ) -> None:
        self.connection: AsyncConnection | None = None
        self._connect = connect
        self._release = release
        self._file = file
        self._queue = WriteQueue()
        self._group: Sequence[GroupTurn] = ()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._slow_until = 0.0
        self._log_bytes = 0
        self._committed_at = 0.0
        self._checkpoint_timer: asyncio.TimerHandle | None = None
        self._next_checkpoint_at = 0.0

    async def run(
        self, work: Callable[[sqlite3.Connection], _Result], *, owner: str, size: int, deadline_s: float
    ) -> _Result:
        """Executes `work` in a transaction that it may share with others, and returns its result after the commit.

        An exception from `work` is raised here and undoes nothing but this work. `work` may be executed again if the
        group was rolled back, and in any thread. A caller that leaves before the commit has no effect. Raises
        sqlite3.Error if the group could not be committed, and DatabaseFileLost if the file cannot be written. After
        `deadline_s` the caller leaves, with a TimeoutError.
        """
        loop = asyncio.get_running_loop()
        turn = GroupTurn(owner, work, size, loop.create_future())
        self._submit(turn)
        # A timer alone, because `asyncio.timeout` takes a tenth of the time that storing an answer takes.
        timer = loop.call_later(deadline_s, turn.expire)
        try:
            result: _Result = await turn.done
        except (asyncio.CancelledError, TimeoutError):
            self._stop_abandoned_group()
            raise
        finally:
            timer.cancel()
        return result

    @asynccontextmanager
    async def acquire(self, owner: str) -> AsyncGenerator[AsyncConnection, None]:
        """Yields the connection, for one transaction of the caller alone."""
        loop = asyncio.get_running_loop()
        turn = ExclusiveTurn(owner, loop.create_future(), loop.create_future())
        self._submit(turn)
        try:
            await turn.granted
            connection = await self._open_connection()
            try:
                yield connection
            except BaseException:
                await self._drop_connection()
                raise
        finally:
            turn.ended.set_result(None)

    async def aclose(self) -> None:
        """Executes the waiting work, then closes the connection. Later calls raise StoreUnavailable."""
        self._closed = True
        if self._checkpoint_timer is not None:
            self._checkpoint_timer.cancel()
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})
        if self.connection is not None:
            connection, self.connection = self.connection, None
            await connection.close()

    def verify_commit(self) -> None:
        """Raises DatabaseFileLost if the last commit is not in the file that the next process would open."""
        if self._file is not None:
            self._log_bytes = self._file.verify_commit()
            self._committed_at = time.monotonic()

    def _submit(self, turn: GroupTurn | ExclusiveTurn) -> None:
        if self._closed:
            raise StoreUnavailable("the server is shutting down")
        self._queue.add(turn)
        self._start_serving()

    def _start_serving(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._serve_queue())
            self._task.add_done_callback(self._on_serving_ended)

    def _on_serving_ended(self, task: asyncio.Task[None]) -> None:
        """Serves on after an unexpected error: the turns that wait would else wait for their deadlines."""
        if task.cancelled():  # because the event loop ends
            return
        if (error := task.exception()) is not None:
            _log.error("sqlite_writer_ended", why="it starts again", exc_info=error)
        if self._queue:
            self._start_serving()

    async def _serve_queue(self) -> None:
        while self._queue or self._is_checkpoint_due:
            if self._is_checkpoint_due:
                await self._write_log_back()
            # Only now: who waits may leave while the log is written back.
            if (turn := self._queue.take()) is None:
                continue
            if isinstance(turn, ExclusiveTurn):
                turn.granted.set_result(None)
                await turn.ended
                self._schedule_checkpoint()
                continue
            self._group = turn
            try:
                if self._file is not None:
                    self._file.verify(writes=True)
                await self._commit_group(turn)
            except asyncio.CancelledError:
                await self._drop_connection()  # its thread may still wait for a lock
            except Exception as error:
                self._group = ()  # a caller that leaves now must not interrupt what follows
                try:
                    await self._drop_connection()
                finally:
                    for member in turn:
                        if not member.done.done():
                            member.done.set_exception(error)
            finally:
                self._group = ()

    @property
    def _is_checkpoint_due(self) -> bool:
        """Whether the log is written back now: it is large, or nothing was written for a while."""
        if not self._log_bytes or self._closed:
            return False
        now = time.monotonic()
        is_idle = not self._queue and now - self._committed_at >= _CHECKPOINT_INTERVAL_S
        return now >= self._next_checkpoint_at and (is_idle or self._log_bytes > _MAX_LOG_BYTES)

    async def _write_log_back(self) -> None:
        """Writes the write-ahead log into the database file, and shortens it if it is large.

        SQLite writes it back by itself, but begins it anew only at a moment without readers, and never shortens it.
        """
        mode = "TRUNCATE" if self._log_bytes > _USUAL_LOG_BYTES else "PASSIVE"
        self._next_checkpoint_at = time.monotonic() + _CHECKPOINT_INTERVAL_S
        try:
            driver = get_driver(await self._open_connection())
            if await driver.run_blocking(_checkpoint, driver.raw_connection, mode):
                self._log_bytes, self._next_checkpoint_at = 0, 0.0
        except (sqlite3.Error, SQLAlchemyError, OSError) as error:  # the next use of the database reports it
            _log.info("checkpoint_failed", why=describe_error(error))
            await self._drop_connection()

    def _on_checkpoint_timer(self) -> None:
        self._checkpoint_timer = None
        if self._is_checkpoint_due:
            self._start_serving()
        if self._log_bytes:
            self._schedule_checkpoint()

    def _schedule_checkpoint(self) -> None:
        if self._checkpoint_timer is None and not self._closed:
            loop = asyncio.get_running_loop()
            self._checkpoint_timer = loop.call_later(_CHECKPOINT_INTERVAL_S, self._on_checkpoint_timer)

    def _stop_abandoned_group(self) -> None:
        if self._task is not None and self._group and all(turn.has_left for turn in self._group):
            self._group = ()
            self._task.cancel()

    async def _commit_group(self, group: Sequence[GroupTurn]) -> None:
        driver = get_driver(self.connection or await self._open_connection())
        driver.may_be_in_transaction = True
        if not self._execute_on_loop(driver, group):
            await driver.run_blocking(self._execute_and_commit, driver.raw_connection, group)
            self.verify_commit()
        elif driver.raw_connection.in_transaction:
            await driver.run_blocking(self._commit, driver.raw_connection)
            # On the loop: in the thread, each look at a file gives up the interpreter's lock and waits for it again.
            self.verify_commit()
        driver.may_be_in_transaction = False
        self._schedule_checkpoint()
        for turn in group:
            if turn.done.done():
                continue
            if turn.error is None:
                turn.done.set_result(turn.result)
            else:
                turn.done.set_exception(turn.error)

    def _execute_on_loop(self, driver: OneTripConnection, group: Sequence[GroupTurn]) -> bool:
        """Executes a small group in a new transaction. Returns False, without effect, if that could take long."""
        started = time.monotonic()
        if started < self._slow_until or sum(turn.size for turn in group) > MAX_GROUP_BYTES:
            return False
        if not driver.try_begin():
            return False
        _execute_group(driver.raw_connection, group)
        if time.monotonic() - started > _SLOW_GROUP_S:
            self._slow_until = started + _SLOW_FILE_S
        return True

    def _execute_and_commit(self, connection: sqlite3.Connection, group: Sequence[GroupTurn]) -> None:
        connection.execute(BEGIN_IMMEDIATE).close()
        _execute_group(connection, group)
        if any(turn.has_left for turn in group):  # that may have taken long
            connection.rollback()
            if remaining := [turn for turn in group if not turn.has_left]:
                self._execute_and_commit(connection, remaining)
        else:
            self._commit(connection)

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.commit()
        except BaseException:
            connection.rollback()
            raise

    async def _open_connection(self) -> AsyncConnection:
        if self.connection is None:
            self.connection = await self._connect()
        return self.connection

    async def _drop_connection(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            await self._release(connection)


def _checkpoint(connection: sqlite3.Connection, mode: str) -> bool:
    """Writes the write-ahead log back. Returns False if readers prevented a part of it."""
    (timeout_ms,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute(f"PRAGMA busy_timeout={_CHECKPOINT_WAIT_MS}").close()
    try:
        is_busy, log_pages, written_pages = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout={timeout_ms}").close()
    return not is_busy and log_pages == written_pages


def _execute_group(connection: sqlite3.Connection, group: Sequence[GroupTurn]) -> None:
    """Executes the work of a group in the open transaction. Exceptions of single works become their `error`.

    Raises sqlite3.Error if SQLite has ended the transaction, because the disk is full for example.
    """
    try:
        for turn in group:
            turn.result, turn.error = turn.work(connection), None
    except Exception as error:
        connection.rollback()
        if len(group) == 1:
            turn.error = error
            return
        connection.execute(BEGIN_IMMEDIATE).close()
        _execute_isolated(connection, group)


def _execute_isolated(connection: sqlite3.Connection, group: Sequence[GroupTurn]) -> None:
    """Executes the work of a group so that one that fails has no effect on the others.

    Only a group in which something has failed is executed in this way: savepoints cost as much as short work.
    """
    for turn in group:
        connection.execute("SAVEPOINT work").close()
        try:
            turn.result, turn.error = turn.work(connection), None
        except Exception as error:
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO work").close()
            turn.error = error
        connection.execute("RELEASE work").close()
