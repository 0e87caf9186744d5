"""Stores event logs in an append-only table of frames.

Appends that arrive while a transaction runs are committed together in the next one. On PostgreSQL each owner has
transactions of its own: one that waits for a lock, such as that of a long deletion, delays no other owner.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Integer, LargeBinary, Text, and_, bindparam, cast, delete, func, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY

from gateway.errors import StoreUnavailable
from gateway.state.database.change_notifier import ChangeNotifier, KeyWatch
from gateway.state.database.database import MAINTENANCE, Database
from gateway.state.database.tables import events, responses
from gateway.state.database.write_queue import ROW_BYTES
from gateway.state.row_values import is_valid_id
from gateway.state.sql import single_trip
from gateway.state.sql.response_rows import insert_log_entry, replace_active_response
from gateway.state.store import ChangeWatch
from gateway.state.values import ACTIVE_STATUSES, LeaseLost, LogEntry, LogOpening, LogPage

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
    select(responses.c.id, responses.c.worker)
    .where(
        responses.c.owner == bindparam("owner"),
        responses.c.id == func.any(cast(bindparam("ids"), ARRAY(Text))),
        responses.c.status.in_(ACTIVE_STATUSES),
    )
    .order_by(responses.c.id)
    .with_for_update(read=True)
)

_NEW_ENTRIES = (
    func.unnest(
        cast(bindparam("response_ids"), ARRAY(Text)),
        cast(bindparam("firsts"), ARRAY(Integer)),
        cast(bindparam("lasts"), ARRAY(Integer)),
        cast(bindparam("frames"), ARRAY(LargeBinary)),
    )
    .table_valued("response_id", "first", "last", "frames")
    .render_derived(name="new_entries")
)

# One statement for all entries: the trigger that counts their bytes is executed once for each statement.
_INSERT_NEW_ENTRIES: Final = (
    postgresql.insert(events)
    .from_select(events.columns.keys(), select(cast(bindparam("owner"), Text), *_NEW_ENTRIES.c))
    .on_conflict_do_nothing()
)

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
        self._pending_appends: defaultdict[str, list[_PendingAppend]] = defaultdict(list)
        """Owner -> the appends that wait. On SQLite, which has one writer, all are those of MAINTENANCE."""
        self._append_tasks: dict[str, asyncio.Task[None]] = {}
        self._tails: dict[tuple[str, str], _LogTail] = {}

    async def append_log_entry(self, owner: str, response_id: str, entry: LogEntry, *, worker: str) -> None:
        done = asyncio.get_running_loop().create_future()
        writer = MAINTENANCE if self._database.is_sqlite else owner
        self._pending_appends[writer].append(_PendingAppend(owner, response_id, entry, worker, done))
        if writer not in self._append_tasks:
            # A task of its own: a caller may be cancelled while appends of others are in the same transaction.
            self._append_tasks[writer] = asyncio.get_running_loop().create_task(self._write_pending(writer))
        await done

    async def replace_opening(self, owner: str, response_id: str, opening: LogOpening, *, worker: str) -> None:
        its_first = (events.c.owner == owner, events.c.response_id == response_id, events.c.first == 0)
        async with self._database.write_transaction(owner) as connection:
            await replace_active_response(connection, owner, opening.response, opening.headers, worker=worker)
            # Not an update: triggers count the bytes of rows that are inserted and deleted.
            await connection.execute(delete(events).where(*its_first))
            await insert_log_entry(connection, owner, response_id, LogEntry(0, 0, opening.created))

    async def load_log_page(self, owner: str, response_id: str, *, after: int) -> LogPage:
        if not is_valid_id(response_id):
            return LogPage((), has_more=False, ended=True)
        tail = self._tails.get((owner, response_id))
        if tail is not None and (tail_entries := tail.list_entries_after(after)):
            return LogPage(tail_entries, has_more=False, ended=False)
        async with self._database.read_transaction(owner) as connection:
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
        if tasks := list(self._append_tasks.values()):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        appends = [append for pending in self._pending_appends.values() for append in pending]
        self._pending_appends.clear()
        for append in appends:
            append.fail(StoreUnavailable("the server is shutting down"))

    async def _write_pending(self, writer: str) -> None:
        try:
            while pending := self._pending_appends.pop(writer, None):
                if rest := pending[_MAX_BATCH:]:
                    self._pending_appends[writer] = rest
                await self._write_batch(writer, [append for append in pending[:_MAX_BATCH] if not append.done.done()])
        finally:
            del self._append_tasks[writer]

    async def _write_batch(self, writer: str, batch: Sequence[_PendingAppend]) -> None:
        """Commits a batch, and tells its callers and watchers. No error of the database is raised."""
        if not batch:
            return
        try:
            committed = await self._commit_batch(writer, batch)
        except asyncio.CancelledError:
            self._pending_appends[writer][:0] = batch
            raise
        except Exception as error:  # raised in the callers of this batch; the next batch may succeed
            for append in batch:
                append.fail(StoreUnavailable(error.message) if isinstance(error, StoreUnavailable) else error)
            return
        for append in batch:
            if append not in committed:
                append.fail(LeaseLost(append.response_id))
                continue
            if (tail := self._tails.get(append.key)) is not None:
                tail.add(append.entry)
            if not append.done.done():
                append.done.set_result(None)
        self._notifier.notify_changed(*{append.response_id for append in committed}, is_cached=True)

    async def _commit_batch(self, writer: str, batch: Sequence[_PendingAppend]) -> frozenset[_PendingAppend]:
        """Writes a batch. Returns the appends whose worker still held the response; only those are written."""
        if self._database.is_sqlite:
            size = sum(ROW_BYTES + len(append.entry.frames) for append in batch)
            return await self._database.run_transaction(
                lambda connection: frozenset(
                    append for append in batch if single_trip.append_log_entry(connection, append.row, append.worker)
                ),
                size=size,
            )
        async with self._database.write_transaction(writer) as connection:
            ids = sorted({append.response_id for append in batch})
            rows = await connection.execute(_LOCK_ACTIVE_RESPONSES, {"owner": writer, "ids": ids})
            workers = {row.id: row.worker for row in rows}
            committed = [append for append in batch if workers.get(append.response_id) == append.worker]
            if committed:
                entries = {
                    "owner": writer,
                    "response_ids": [append.response_id for append in committed],
                    "firsts": [append.entry.first for append in committed],
                    "lasts": [append.entry.last for append in committed],
                    "frames": [append.entry.frames for append in committed],
                }
                await connection.execute(_INSERT_NEW_ENTRIES, entries)
        return frozenset(committed)
