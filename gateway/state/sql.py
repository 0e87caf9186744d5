"""The store over one database: its parts, and what they share."""

from gateway.settings import Background, Store
from gateway.state.database import Database
from gateway.state.events import SqlEvents
from gateway.state.signals import Signals
from gateway.state.sql_completions import SqlCompletions
from gateway.state.sql_conversations import SqlConversations
from gateway.state.sql_jobs import SqlJobs
from gateway.state.sql_responses import SqlResponses
from gateway.state.sql_retention import SqlRetention
from gateway.state.tables import metadata


class SqlStore(SqlResponses, SqlConversations, SqlCompletions, SqlEvents, SqlJobs, SqlRetention):
    """All parts over one `Database`. `settings.url` is set."""

    def __init__(self, settings: Store, background: Background) -> None:
        if settings.url is None:
            raise ValueError("there is no store without store.url")
        database = Database(settings.url, deadline_s=settings.deadline_s)
        signals = Signals(database, poll_s=settings.poll_s)
        SqlResponses.__init__(self, database, signals, lease_s=background.lease_s)
        SqlConversations.__init__(self, database)
        SqlCompletions.__init__(self, database)
        SqlEvents.__init__(self, database, signals)
        SqlJobs.__init__(self, database, signals, lease_s=background.lease_s)
        SqlRetention.__init__(self, database, events_hours=settings.events_hours)

    async def open(self) -> None:
        """Connect and check the schema."""
        if self._database.is_sqlite:
            async with self._database.write() as connection:
                await connection.run_sync(metadata.create_all)

    async def aclose(self) -> None:
        """Close every connection."""
        await self.stop_writing()
        await self._signals.aclose()
        await self._database.aclose()

    @property
    def degraded(self) -> str | None:
        return self._database.degraded
