"""The store over one database: its parts, and what they share."""

from contextlib import suppress

from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.config.settings import Background, Store
from gateway.errors import StoreUnavailable
from gateway.state.database.change_notifier import Signals
from gateway.state.database.database import Database
from gateway.state.database.migrate import check, migrate_within
from gateway.state.database.sqlite_file import Users, make_file, sqlite_file
from gateway.state.sql.completions import SqlCompletions
from gateway.state.sql.conversations import SqlConversations
from gateway.state.sql.event_log import SqlEvents
from gateway.state.sql.jobs import SqlJobs
from gateway.state.sql.responses import SqlResponses
from gateway.state.sql.retention import SqlRetention
from gateway.state.sql.sealing_key import sealing_key
from gateway.state.store import SchemaMismatch


class SqlStore(SqlResponses, SqlConversations, SqlCompletions, SqlEvents, SqlJobs, SqlRetention):
    """All parts over one `Database`. `settings.url` is set."""

    def __init__(self, settings: Store, background: Background) -> None:
        if settings.url is None:
            raise ValueError("there is no store without store.url")
        self._file = sqlite_file(settings.url)
        self._sealing_key: bytes | None = None
        database = Database(settings.url, deadline_s=settings.deadline_s, prepare=self._prepare_within)
        self._users = Users(self._file, deadline_s=settings.deadline_s) if self._file else None
        signals = Signals(database, poll_s=settings.poll_s)
        SqlResponses.__init__(self, database, signals, lease_s=background.lease_s)
        SqlConversations.__init__(self, database)
        SqlCompletions.__init__(self, database)
        SqlEvents.__init__(self, database, signals)
        SqlJobs.__init__(self, database, signals, lease_s=background.lease_s)
        SqlRetention.__init__(self, database, events_hours=settings.events_hours)

    async def open(self) -> None:
        if self._file is None or self._users is None:
            await self._prepare()
            return
        make_file(self._file)
        async with self._users.joined() as alone:
            await self._prepare()
            if alone:
                with suppress(StoreUnavailable):  # its leases run out
                    await self.recover(at_start=True)

    async def aclose(self) -> None:
        """Stop writing and listening, and close every connection."""
        await self.stop_writing()
        await self._signals.aclose()
        await self._database.aclose()
        if self._users is not None:
            self._users.leave()

    @property
    def degraded(self) -> str | None:
        return self._database.degraded

    @property
    def sealing_key(self) -> bytes | None:
        return self._sealing_key

    async def _prepare_within(self, connection: AsyncConnection) -> None:
        await (check if self._file is None else migrate_within)(connection)
        self._sealing_key = await sealing_key(connection)

    async def _prepare(self) -> None:
        try:
            with suppress(StoreUnavailable):  # `degraded` says so, and every use tries again
                await self._database.prepare()
        except SchemaMismatch:
            await self.aclose()
            raise
