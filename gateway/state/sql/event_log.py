"""The event log: an append-only table of frames. What many streams append meanwhile is committed together."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from sqlalchemy import and_, bindparam, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from gateway.errors import StoreUnavailable
from gateway.state.database.change_notifier import Signals, SignalWatch
from gateway.state.database.database import Database
from gateway.state.database.tables import events, responses
from gateway.state.ids import possible
from gateway.state.store import ACTIVE, LogEntry, LogPage, NotHeld, Watch

_MAX_BATCH: Final = 256
"""Appends in one transaction."""

_PAGE: Final = 256
"""Entries read at once: a replay of hours must not be in memory whole."""


_TAIL: Final = 64
"""Entries kept at hand for followers in the same process."""

# Statements are made once: making them costs more than running them.

# Locked until the commit, in one order for everyone: nobody ends or takes over a response in between.
_FENCE: Final = (
    select(responses.c.owner, responses.c.id, responses.c.worker)
    .where(
        tuple_(responses.c.owner, responses.c.id).in_(bindparam("keys", expanding=True)),
        responses.c.status.in_(ACTIVE),
    )
    .order_by(responses.c.owner, responses.c.id)
    .with_for_update(read=True)
)

_ADD: Final = {
    True: sqlite.insert(events).on_conflict_do_nothing(),
    False: postgresql.insert(events).on_conflict_do_nothing(),
}
"""For SQLite, and for PostgreSQL."""

# One statement, so that status and entries are of one moment: an end comes with its last entry.
_ENTRIES: Final = (
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
    .limit(_PAGE)
)


class _Tail:
    """The last entries this process wrote of a log that somebody follows here, so that nobody reads them back."""

    def __init__(self) -> None:
        self.watches: set[SignalWatch] = set()
        self._entries: deque[LogEntry] = deque(maxlen=_TAIL)

    def add(self, entry: LogEntry) -> None:
        if self._entries and self._entries[-1].last + 1 != entry.first:
            self._entries.clear()
        self._entries.append(entry)

    def beyond(self, after: int) -> list[LogEntry]:
        """All it has above `after`; nothing where it does not reach back that far, or the log has more than it."""
        if not self._entries or self._entries[0].first > after + 1 or any(watch.behind for watch in self.watches):
            return []
        return [entry for entry in self._entries if entry.last > after]


@dataclass(slots=True, eq=False)
class _Append:
    owner: str
    response_id: str
    entry: LogEntry
    worker: str
    done: asyncio.Future[None]

    @property
    def key(self) -> tuple[str, str]:
        return self.owner, self.response_id

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class SqlEvents:
    """`EventLog` of the store's protocol, over one database."""

    def __init__(self, database: Database, signals: Signals) -> None:
        self._database = database
        self._signals = signals
        self._appends: list[_Append] = []
        self._writer: asyncio.Task[None] | None = None
        self._tails: dict[tuple[str, str], _Tail] = {}

    async def append(self, owner: str, response_id: str, entry: LogEntry, *, worker: str) -> None:
        """Appending the same entry again changes nothing, so whoever was not answered may ask again."""
        done = asyncio.get_running_loop().create_future()
        self._appends.append(_Append(owner, response_id, entry, worker, done))
        if self._writer is None or self._writer.done():
            # A task of its own: whoever appends may be cancelled, with others in the same transaction.
            self._writer = asyncio.get_running_loop().create_task(self._write())
        await done

    async def entries(self, owner: str, response_id: str, *, after: int) -> LogPage:
        if not possible(response_id):
            return LogPage((), more=False, ended=True)
        tail = self._tails.get((owner, response_id))
        if tail is not None and (fresh := tail.beyond(after)):
            return LogPage(fresh, more=False, ended=False)
        async with self._database.read() as connection:
            found = await connection.execute(_ENTRIES, {"owner": owner, "id": response_id, "after": after})
            rows = found.all()
        entries = [LogEntry(first, last, frames) for _, first, last, frames in rows if first is not None]
        ended = not rows or rows[0].status not in ACTIVE
        more = len(entries) == _PAGE
        return LogPage(entries, more=more, ended=ended and not more)

    @asynccontextmanager
    async def watch(self, owner: str, response_id: str) -> AsyncGenerator[Watch, None]:
        """Ids are random: one is enough to be told apart by."""
        async with self._signals.watch(response_id) as watch:
            tail = self._tails.setdefault((owner, response_id), _Tail())
            tail.watches.add(watch)
            try:
                yield watch
            finally:
                tail.watches.remove(watch)
                if not tail.watches:
                    del self._tails[owner, response_id]

    async def stop_writing(self) -> None:
        """Nothing is appended any more; what waits fails."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait([self._writer])
        appends, self._appends = self._appends, []
        for append in appends:
            append.fail(StoreUnavailable("the server is shutting down"))

    async def _write(self) -> None:
        while self._appends:
            taken, self._appends = self._appends[:_MAX_BATCH], self._appends[_MAX_BATCH:]
            batch = [append for append in taken if not append.done.done()]
            try:
                held = await self._commit(batch) if batch else frozenset()
            except asyncio.CancelledError:
                self._appends = [*batch, *self._appends]
                raise
            except Exception as error:  # whatever it is, it is theirs who wait, and the next batch may be written
                for append in batch:
                    append.fail(StoreUnavailable(error.message) if isinstance(error, StoreUnavailable) else error)
                continue
            for append in batch:
                if append not in held:
                    append.fail(NotHeld(append.response_id))
                    continue
                if (tail := self._tails.get(append.key)) is not None:
                    tail.add(append.entry)
                if not append.done.done():
                    append.done.set_result(None)
            self._signals.tell(*{append.response_id for append in held}, at_hand=True)

    async def _commit(self, batch: Sequence[_Append]) -> frozenset[_Append]:
        """Those whose response was still their worker's, and so are written."""
        async with self._database.write() as connection:
            found = await connection.execute(_FENCE, {"keys": sorted({append.key for append in batch})})
            holders = {(row.owner, row.id): row.worker for row in found}
            held = frozenset(append for append in batch if holders.get(append.key) == append.worker)
            if held:
                rows = [
                    {"owner": append.owner, "response_id": append.response_id, **append.entry._asdict()}
                    for append in held
                ]
                await connection.execute(_ADD[self._database.is_sqlite], rows)
        return held
