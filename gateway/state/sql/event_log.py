"""Stores event logs in an append-only table of frames.

Appends that arrive while a transaction runs are committed together in the next one.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import and_, bindparam, select, tuple_
from sqlalchemy.dialects import postgresql

from gateway.errors import StoreUnavailable
from gateway.state.database.change_notifier import ChangeNotifier, KeyWatch
from gateway.state.database.database import Database
from gateway.state.database.tables import events, responses
from gateway.state.database.write_queue import ROW_BYTES
from gateway.state.row_values import is_valid_id
from gateway.state.sql import single_trip
from gateway.state.store import ChangeWatch
from gateway.state.values import ACTIVE_STATUSES, LeaseLost, LogEntry, LogPage

_MAX_BATCH: Final = 256
"""The most appends in one transaction."""

_MAX_PAGE_ENTRIES: Final = 256
"""The most entries of one read: a replay of hours must not be in memory as a whole."""

_MAX_TAIL_ENTRIES: Final = 64
"""The most entries of one log that stay in memory for watchers in the same process."""

# Statements are built once: building one costs more than executing it.

# The next two are for PostgreSQL. SQLite would scan all responses for a list of keys: there each append is a statement.
# The rows stay locked until the commit, so that no other replica ends or claims a response in between. Everyone locks
# in the same order, so that no two transactions wait for each other.
_LOCK_ACTIVE_RESPONSES: Final = (
    select(responses.c.owner, responses.c.id, responses.c.worker)
    .where(
        tuple_(responses.c.owner, responses.c.id).in_(bindparam("keys", expanding=True)),
        responses.c.status.in_(ACTIVE_STATUSES),
    )
    .order_by(responses.c.owner, responses.c.id)
    .with_for_update(read=True)
)

_INSERT_NEW_ENTRIES: Final = postgresql.insert(events).on_conflict_do_nothing()

# One statement, so that status and entries are of one moment: a response ends together with its last entry.
_SELECT_LOG_PAGE: Final = (
    select(responses.c.status, events.c.first, events.c.last, events.c.frames)
    .select_from(
        responses.outerjoin(
            events,
            and_(
                events.c.owner == responses.c.owner,
                events.c.response_id == responses.c.id,
                events.c.last > bindparam("after"),
            ),
        )
    )
    .where(responses.c.owner == bindparam("owner"), responses.c.id == bindparam("id"), responses.c.deleted.is_(False))
    .order_by(events.c.first)
    .limit(_MAX_PAGE_ENTRIES)
)


class _LogTail:
    """The last entries of one log that this process wrote. With them, watchers here need not read the database."""

    def __init__(self) -> None:
        self.watches: set[KeyWatch] = set()
        self._entries: deque[LogEntry] = deque(maxlen=_MAX_TAIL_ENTRIES)

    def add(self, entry: LogEntry) -> None:
        if self._entries and self._entries[-1].last + 1 != entry.first:
            self._entries.clear()
        self._entries.append(entry)

    def list_entries_after(self, after: int) -> list[LogEntry]:
        """Returns the entries above `after`. Returns none if the tail does not reach back to `after`, or if the log has
        entries from elsewhere that the tail lacks."""
        if (
            not self._entries
            or self._entries[0].first > after + 1
            or any(watch.has_uncached_change for watch in self.watches)
        ):
            return []
        return [entry for entry in self._entries if entry.last > after]


@dataclass(slots=True, eq=False)
class _PendingAppend:
    owner: str
    response_id: str
    entry: LogEntry
    worker: str
    done: asyncio.Future[None]

    @property
    def key(self) -> tuple[str, str]:
        return self.owner, self.response_id

    @property
    def row(self) -> dict[str, Any]:
        return {"owner": self.owner, "response_id": self.response_id, **self.entry._asdict()}

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class SqlEventLog:
    """Implements `EventLog` over one database."""

    def __init__(self, database: Database, notifier: ChangeNotifier) -> None:
        self._database = database
        self._notifier = notifier
        self._pending_appends: list[_PendingAppend] = []
        self._append_task: asyncio.Task[None] | None = None
        self._tails: dict[tuple[str, str], _LogTail] = {}

    async def append_log_entry(self, owner: str, response_id: str, entry: LogEntry, *, worker: str) -> None:
        done = asyncio.get_running_loop().create_future()
        self._pending_appends.append(_PendingAppend(owner, response_id, entry, worker, done))
        if self._append_task is None or self._append_task.done():
            # A task of its own: a caller may be cancelled while appends of others are in the same transaction.
            self._append_task = asyncio.get_running_loop().create_task(self._write_pending())
        await done

    async def load_log_page(self, owner: str, response_id: str, *, after: int) -> LogPage:
        if not is_valid_id(response_id):
            return LogPage((), has_more=False, ended=True)
        tail = self._tails.get((owner, response_id))
        if tail is not None and (tail_entries := tail.list_entries_after(after)):
            return LogPage(tail_entries, has_more=False, ended=False)
        async with self._database.read_transaction() as connection:
            result = await connection.execute(_SELECT_LOG_PAGE, {"owner": owner, "id": response_id, "after": after})
            rows = result.all()
        entries = [LogEntry(first, last, frames) for _, first, last, frames in rows if first is not None]
        ended = not rows or rows[0].status not in ACTIVE_STATUSES
        has_more = len(entries) == _MAX_PAGE_ENTRIES
        return LogPage(entries, has_more=has_more, ended=ended and not has_more)

    @asynccontextmanager
    async def watch_response(self, owner: str, response_id: str) -> AsyncGenerator[ChangeWatch, None]:
        # The key needs no owner: no response id is created twice.
        async with self._notifier.watch(response_id) as watch:
            tail = self._tails.setdefault((owner, response_id), _LogTail())
            tail.watches.add(watch)
            try:
                yield watch
            finally:
                tail.watches.remove(watch)
                if not tail.watches:
                    del self._tails[owner, response_id]

    async def stop_appending(self) -> None:
        """Stops writing. Pending appends raise StoreUnavailable."""
        if self._append_task is not None:
            self._append_task.cancel()
            await asyncio.wait([self._append_task])
        appends, self._pending_appends = self._pending_appends, []
        for append in appends:
            append.fail(StoreUnavailable("the server is shutting down"))

    async def _write_pending(self) -> None:
        while self._pending_appends:
            candidates, self._pending_appends = self._pending_appends[:_MAX_BATCH], self._pending_appends[_MAX_BATCH:]
            batch = [append for append in candidates if not append.done.done()]
            try:
                committed = await self._commit_batch(batch) if batch else frozenset()
            except asyncio.CancelledError:
                self._pending_appends = [*batch, *self._pending_appends]
                raise
            except Exception as error:  # raised in the callers of this batch; the next batch may succeed
                for append in batch:
                    append.fail(StoreUnavailable(error.message) if isinstance(error, StoreUnavailable) else error)
                continue
            for append in batch:
                if append not in committed:
                    append.fail(LeaseLost(append.response_id))
                    continue
                if (tail := self._tails.get(append.key)) is not None:
                    tail.add(append.entry)
                if not append.done.done():
                    append.done.set_result(None)
            self._notifier.notify_changed(*{append.response_id for append in committed}, is_cached=True)

    async def _commit_batch(self, batch: Sequence[_PendingAppend]) -> frozenset[_PendingAppend]:
        """Writes a batch. Returns the appends whose worker still held the response; only those are written."""
        if self._database.is_sqlite:
            size = sum(ROW_BYTES + len(append.entry.frames) for append in batch)
            return await self._database.run_transaction(
                lambda connection: frozenset(
                    append for append in batch if single_trip.append_log_entry(connection, append.row, append.worker)
                ),
                size=size,
            )
        async with self._database.write_transaction() as connection:
            rows = await connection.execute(_LOCK_ACTIVE_RESPONSES, {"keys": sorted({append.key for append in batch})})
            workers = {(row.owner, row.id): row.worker for row in rows}
            committed = frozenset(append for append in batch if workers.get(append.key) == append.worker)
            if committed:
                await connection.execute(_INSERT_NEW_ENTRIES, [append.row for append in committed])
        return committed
